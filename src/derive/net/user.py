# SPDX-License-Identifier: Apache-2.0
"""Where a user's own settings lie.

Edge: paths, from the environment that it is given; one file. Imports nothing heavy: every rendering asks for a site.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from derive.errors import InputErrors
from derive.infile import LARGEST, read_plain
from derive.words import unreadable


def user_config(environ: Mapping[str, str]) -> Path:
    """Return where the user's ``config.toml`` lies, whether it is there or not."""
    base = environ.get("XDG_CONFIG_HOME") or ""
    folder = Path(base) if Path(base).is_absolute() else Path(environ.get("HOME") or "/") / ".config"
    return folder / "derive" / "config.toml"


def read_config(file: Path) -> bytes:
    """Return what a user's ``config.toml`` holds, nothing where there is none; a FIFO is not waited for.

    Raises:
        InputErrors: when it cannot be read, or is no regular file.
    """
    try:
        return read_plain(file, LARGEST)[0]
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise InputErrors.one(unreadable(error), where=str(file)) from error
