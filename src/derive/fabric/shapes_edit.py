# SPDX-License-Identifier: Apache-2.0
"""Change which shape a site picks, in the text of its file, and nothing else of it: no comment, order or space moves.

Core: no IO. Standard library only.

The text is changed line by line and then read: it must say what was wanted, and all else as before.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

from derive.errors import InputErrors

_HEADER = re.compile(r"\s*\[\s*shapes\s*\]\s*(#.*)?")
_ANY_HEADER = re.compile(r"\s*\[.*")
_VALUE = re.compile(
    r"""(?P<key>\s*(?P<name>[A-Za-z0-9_-]+|"[^"]*"|'[^']*')\s*=\s*)(?P<value>"[^"]*"|'[^']*')(?P<rest>.*)"""
)


def with_shape(text: str, recipe: str, shape: str, file: str) -> str:
    """Return a site file's text with the shape of a recipe picked.

    Raises:
        InputErrors: when the file writes ``shapes`` in a form that is not changed here.
    """
    before = tomllib.loads(text)
    wanted: dict[str, Any] = {**before, "shapes": {**before.get("shapes", {}), recipe: shape}}
    if before == wanted:
        return text
    for changed in _attempts(text, recipe, shape):
        try:
            if tomllib.loads(changed) == wanted:
                return changed
        except tomllib.TOMLDecodeError:
            continue
    raise InputErrors.one(
        "the shapes that this site picks are written in a form that is not changed here",
        where=f"{file}: shapes",
        hint=f'write them as a table: a line [shapes], and below it {recipe} = "{shape}"',
    )


def _attempts(text: str, recipe: str, shape: str) -> Iterator[str]:
    """Yield texts that may be right, the tidiest first."""
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    for at in [index for index, line in enumerate(lines) if _HEADER.fullmatch(line.rstrip("\r\n"))]:
        yield "".join(_in_table(lines, at, recipe, shape, end))
    table = [f"[shapes]{end}", f'{recipe} = "{shape}"{end}']
    first = next((index for index, line in enumerate(lines) if _ANY_HEADER.match(line)), len(lines))
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    if 0 < first < len(lines):
        yield "".join([*lines[:first], *table, end, *lines[first:]])
    closing = "" if not text or text.endswith("\n") else end
    yield text + closing + (end if text else "") + "".join(table)


def _in_table(lines: list[str], header: int, recipe: str, shape: str, end: str) -> list[str]:
    """Return the lines with a key of the table replaced, or a line added after its last key."""
    last = header
    for index in range(header + 1, len(lines)):
        line = lines[index].rstrip("\r\n")
        if _ANY_HEADER.fullmatch(line):
            break
        match = _VALUE.fullmatch(line)
        if match is None:
            continue
        last = index
        if match["name"].strip("\"'") == recipe:
            ending = lines[index][len(line) :]
            return [*lines[:index], f'{match["key"]}"{shape}"{match["rest"]}{ending}', *lines[index + 1 :]]
    before = lines[: last + 1]
    if not before[-1].endswith("\n"):
        before[-1] += end
    return [*before, f'{recipe} = "{shape}"{end}', *lines[last + 1 :]]
