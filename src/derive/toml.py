# SPDX-License-Identifier: Apache-2.0
"""TOML as JSON values, and key paths as they read in TOML.

Core: no IO. Standard library only: commands whose start-up time counts read recipes and sites with this.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from derive.errors import InputErrors, Problem

_MAX_INTEGER = 2**53
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_KEPT = "decimal"
_LONG_INTEGER = re.compile(r"[0-9][0-9_]{4000,}")
_BEYOND = "9" * 40


def parse_toml(data: bytes, file: str) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Parse TOML; a float becomes ``{"decimal": <its text>}``, since no float enters a hashed document."""
    problems: list[Problem] = []
    try:
        table = _with_decimals(tomllib.loads(data.decode("utf-8"), parse_float=_Decimal), file, (), problems)
    except (ValueError, RecursionError) as error:
        return None, [_not_toml(error, file)]
    return (None if problems else table), problems


def read_settings(data: bytes, file: str) -> dict[str, Any]:
    """Parse a person's settings, of which each reader looks at its own tables; a float becomes its text.

    An integer of thousands of digits, which Python reads none of, becomes one that is beyond every bound: whoever
    takes it says under which key.

    Raises:
        InputErrors: when it is not TOML.
    """
    try:
        text = data.decode("utf-8")
        try:
            return tomllib.loads(text, parse_float=str)
        except ValueError as error:
            if not _is_too_long(error):
                raise
            return tomllib.loads(_LONG_INTEGER.sub(_BEYOND, text), parse_float=str)
    except (ValueError, RecursionError) as error:
        raise InputErrors([_not_toml(error, file)]) from error


def key_path(location: tuple[int | str, ...], prefix: str = "") -> str:
    """Write a key path as it reads in TOML, in one line: ``layers[2].from``, with odd keys quoted."""
    text = prefix
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part.replace("-", "").replace("_", "").isalnum() and part.isascii()
            text += ("." if text else "") + (part if plain else quoted(part))
    return text


def quoted(text: str) -> str:
    """Write text as TOML does, between quotation marks; what cannot be printed is escaped."""
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _unicode(c)) for c in text) + '"'


def _not_toml(error: ValueError | RecursionError, file: str) -> Problem:
    message = str(error)
    if isinstance(error, UnicodeDecodeError):
        message = f"not UTF-8, at byte {error.start}"
    elif _is_too_long(error):
        message = "an integer of thousands of digits"
    elif isinstance(error, RecursionError):
        message = "arrays or tables too deep in each other"
    return Problem(where=file, message=f"not valid TOML: {message}")


def _is_too_long(error: Exception) -> bool:
    return "integer string conversion" in str(error)


def _unicode(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04X}" if number < 0x10000 else f"\\U{number:08X}"


class _Decimal(str):
    """The source text of a float: tomllib takes no table from whoever parses floats."""

    __slots__ = ()


def _with_decimals(value: Any, file: str, path: tuple[int | str, ...], problems: list[Problem]) -> Any:
    wrong, hint = "", None
    if isinstance(value, _Decimal):
        if "inf" not in value and "nan" not in value:
            return {_KEPT: str(value)}
        wrong = f"{value} is no number that a document can hold"
    elif isinstance(value, dict):
        if value.keys() == {_KEPT} and type(value[_KEPT]) is str:
            # It would be taken for a float, whatever its text is.
            wrong, hint = "a table with no key but decimal, which is how numbers are kept", "write the number itself"
        else:
            return {key: _with_decimals(item, file, (*path, key), problems) for key, item in value.items()}
    elif isinstance(value, int) and not -_MAX_INTEGER < value < _MAX_INTEGER:
        wrong = "no number that a document can hold: it is beyond 2^53"
    elif isinstance(value, list):
        return [_with_decimals(item, file, (*path, index), problems) for index, item in enumerate(value)]
    if wrong:
        place = f"{file}: {key_path(path)}" if path else file
        problems.append(Problem(where=place, message=wrong, hint=hint))
    return value
