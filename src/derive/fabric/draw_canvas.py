# SPDX-License-Identifier: Apache-2.0
"""A grid of characters to draw boxes and lines on, each in a style.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from itertools import groupby
from typing import Literal, TypeAlias

Ink: TypeAlias = Literal["plain", "strong", "dim", "cage", "path1", "path2"]

_CODES: dict[Ink, str] = {"strong": "1", "dim": "2", "cage": "36", "path1": "34", "path2": "33"}


class Canvas:
    """Grows downwards and to the right as it is drawn on; what is drawn later covers what was there."""

    def __init__(self) -> None:
        self._rows: list[list[tuple[str, Ink]]] = []

    def put(self, x: int, y: int, text: str, ink: Ink = "plain") -> None:
        """Write text from a place to the right."""
        while len(self._rows) <= y:
            self._rows.append([])
        row = self._rows[y]
        row.extend([(" ", "plain")] * (x + len(text) - len(row)))
        row[x : x + len(text)] = [(character, ink) for character in text]

    def across(self, left: int, right: int, y: int, ink: Ink) -> None:
        """Draw a line from a column to another, both taken."""
        self.put(left, y, "─" * (right - left + 1), ink)

    def down(self, x: int, top: int, bottom: int, ink: Ink) -> None:
        """Draw a line from a row to another, both taken."""
        for y in range(top, bottom + 1):
            self.put(x, y, "│", ink)

    def box(self, x: int, y: int, width: int, height: int, corners: str, ink: Ink = "plain") -> None:
        """Draw a frame; ``corners`` from the upper left one, clockwise."""
        self.put(x, y, corners[0] + "─" * (width - 2) + corners[1], ink)
        for row in range(y + 1, y + height - 1):
            self.put(x, row, "│", ink)
            self.put(x + width - 1, row, "│", ink)
        self.put(x, y + height - 1, corners[3] + "─" * (width - 2) + corners[2], ink)

    def text(self, *, colour: bool) -> str:
        """Return what was drawn."""
        return "\n".join(_row(row, colour) for row in self._rows)


def _row(row: list[tuple[str, Ink]], colour: bool) -> str:
    if not colour:
        return "".join(character for character, _ in row).rstrip()
    parts = []
    for ink, cells in groupby(row, key=lambda cell: cell[1]):
        parts.append(inked("".join(character for character, _ in cells), ink, colour=True))
    return "".join(parts).rstrip()


def inked(text: str, ink: Ink, *, colour: bool) -> str:
    """Return text in a style, or as it is where there is to be no colour."""
    code = _CODES.get(ink)
    return f"\x1b[{code}m{text}\x1b[0m" if colour and code and text else text


def fitted(text: str, width: int) -> str:
    """Return text cut to a width, with a mark where it was."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"
