# SPDX-License-Identifier: Apache-2.0
"""The user's list of archives, edited in the text of ``config.toml``: every other character of it stays.

Core: no IO.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable

from derive.errors import InputErrors
from derive.toml_text import toml_line

_TABLE = re.compile(r"^\s*\[\s*archives\s*\]\s*(#.*)?$")
_ANY_TABLE = re.compile(r"^\s*\[")
_KEY = re.compile(r"^\s*places\s*=")
_EMPTY = "[archives]\nplaces = []\n"


def places_in(text: str, where: str) -> list[str]:
    """Return the places that a ``config.toml`` names; raises InputErrors when it cannot be read."""
    table = _parsed(text, where).get("archives", {})
    found = table.get("places", []) if isinstance(table, dict) else None
    listed = [found] if isinstance(found, str) else found
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise InputErrors.one("not a place, nor an array of places", where=f"{where}: archives.places")
    return listed


def with_places(text: str, places: Iterable[str], where: str) -> str:
    """Return the text with other places in it.

    Raises:
        InputErrors: when it cannot be read, or the places stand in it in a manner that is not understood.
    """
    wanted = list(places)
    lines = text.splitlines(keepends=True)
    line = toml_line("places", wanted) + "\n"
    span = _span(lines)
    if span is not None:
        lines[span[0] : span[1]] = [line]
    else:
        at = next((number for number, one in enumerate(lines) if _TABLE.match(one)), None)
        if at is None:
            if lines and not lines[-1].endswith("\n"):
                lines[-1] += "\n"
            lines += [*(["\n"] if lines else []), "[archives]\n", line]
        else:
            lines[at] = lines[at].rstrip("\n") + "\n"
            lines.insert(at + 1, line)
    edited = "".join(lines)
    before, after = _parsed(text, where), _edited(edited)
    archives = before.get("archives", {})
    expected = {**before, "archives": {**(archives if isinstance(archives, dict) else {}), "places": wanted}}
    if after != expected:
        hint = f"write it yourself: {line.strip()}"
        raise InputErrors.one("the places stand where no edit is safe", where=f"{where}: archives", hint=hint)
    return edited


def without_empty(text: str) -> str:
    """Return the text without the table that names no place, where it stands as :func:`with_places` adds it."""
    if text == _EMPTY:
        return ""
    return text.removesuffix(f"\n{_EMPTY}") if text.endswith(f"\n\n{_EMPTY}") else text


def _span(lines: list[str]) -> tuple[int, int] | None:
    """Return the lines in which the places stand: from the key to the line with which its value is whole."""
    inside = False
    for number, line in enumerate(lines):
        if _TABLE.match(line):
            inside = True
        elif inside and _KEY.match(line):
            for end in range(number + 1, len(lines) + 1):
                try:
                    tomllib.loads("".join(lines[number:end]))
                except tomllib.TOMLDecodeError:
                    continue
                return number, end
        elif _ANY_TABLE.match(line):
            inside = False
    return None


def _edited(text: str) -> dict[str, object] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _parsed(text: str, where: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputErrors.one(f"not valid TOML: {error}", where=where) from error
