# SPDX-License-Identifier: Apache-2.0
"""TOML as JSON values, and key paths as they read in TOML.

Core: no IO. Standard library only: commands whose start-up time counts read recipes and sites with this.
"""

from __future__ import annotations

import tomllib
from typing import Any

from derive.errors import Problem

_MAX_INTEGER = 2**53


def parse_toml(data: bytes, file: str) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Parse TOML; a float becomes ``{"decimal": <its text>}``, since no float enters a hashed document."""
    try:
        return _with_decimals(tomllib.loads(data.decode("utf-8"), parse_float=_decimal)), []
    except UnicodeDecodeError as error:
        return None, [Problem(where=file, message=f"not valid TOML: not UTF-8, at byte {error.start}")]
    except (ValueError, RecursionError) as error:
        return None, [Problem(where=file, message=f"not valid TOML: {error}")]


def key_path(location: tuple[int | str, ...], prefix: str = "") -> str:
    """Write a key path as it reads in TOML: ``layers[2].from``, with odd keys quoted."""
    text = prefix
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part.replace("-", "").replace("_", "").isalnum() and part.isascii()
            text += ("." if text else "") + (part if plain else f'"{part}"')
    return text


class _Decimal(str):
    """The source text of a float: tomllib takes no table from whoever parses floats."""

    __slots__ = ()


def _decimal(text: str) -> _Decimal:
    if "inf" in text or "nan" in text:
        raise ValueError(f"{text} is no number that a document can hold")
    return _Decimal(text)


def _with_decimals(value: Any) -> Any:
    if isinstance(value, _Decimal):
        return {"decimal": str(value)}
    if isinstance(value, dict):
        return {key: _with_decimals(item) for key, item in value.items()}
    if isinstance(value, int) and not -_MAX_INTEGER < value < _MAX_INTEGER:
        raise ValueError(f"{value} is no number that a document can hold: it is beyond 2^53")
    return [_with_decimals(item) for item in value] if isinstance(value, list) else value
