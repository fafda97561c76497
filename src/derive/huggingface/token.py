# SPDX-License-Identifier: Apache-2.0
"""The token that this person has for a hub.

Edge: the environment, and the file in which the hub's own tools keep it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from derive.errors import InputErrors

VARIABLE = "HF_TOKEN"


def find_token(environ: Mapping[str, str]) -> str | None:
    """Return the token, or None: ``HF_TOKEN``, else the file that the hub's own tools write.

    Raises:
        InputErrors: when there is one that no header can carry; it is not shown.
    """
    named = environ.get(VARIABLE, "").strip()
    if named:
        return _checked(named, VARIABLE)
    file = _file(environ)
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputErrors.one(f"cannot be read: {error.strerror}", where=str(file)) from error
    except UnicodeDecodeError as error:
        raise InputErrors.one("a token that is no text", where=str(file)) from error
    return _checked(text, str(file)) if text else None


def _file(environ: Mapping[str, str]) -> Path:
    if named := environ.get("HF_TOKEN_PATH"):
        return Path(named)
    home = environ.get("HOME") or "/"
    cache = environ.get("XDG_CACHE_HOME") or f"{home}/.cache"
    return Path(environ.get("HF_HOME") or f"{cache}/huggingface") / "token"


def _checked(token: str, where: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InputErrors.one("a token that no header can carry", where=where)
    return token
