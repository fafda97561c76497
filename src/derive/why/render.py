# SPDX-License-Identifier: Apache-2.0
"""Answers as lines of styled text: one form, plain or in colour.

Core: no IO.

What files and locks say is shown without its control characters: no script may move a person's cursor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Literal, TypeAlias

Style: TypeAlias = Literal["plain", "strong", "dim", "removed", "added"]

_CODES = {"strong": "1", "dim": "2", "removed": "31", "added": "32"}


@dataclass(frozen=True, slots=True)
class Span:
    """Some text in one style."""

    text: str
    style: Style = "plain"


Line: TypeAlias = tuple[Span, ...]


def line(text: str, style: Style = "plain") -> Line:
    """Return a line of one style."""
    return (Span(printable(text), style),)


def render(lines: Iterable[Line], *, colour: bool) -> str:
    """Return lines as text, with the terminal's codes for styles or without."""
    return "\n".join("".join(_span(span, colour) for span in one).rstrip() for one in lines)


def _span(span: Span, colour: bool) -> str:
    code = _CODES.get(span.style)
    return f"\x1b[{code}m{span.text}\x1b[0m" if colour and code and span.text else span.text


def printable(text: str) -> str:
    """Write what is no printable character as an escape; a tab stays."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("utf-8", "surrogatepass").decode("latin-1").encode("unicode_escape").decode()


def text_of(data: bytes) -> str:
    """Return bytes as text for people; what is no UTF-8 is escaped."""
    return printable(data.decode("utf-8", "backslashreplace"))


def line_diff(before: bytes | None, after: bytes | None, *, context: int = 1, limit: int = 40) -> Iterator[Line]:
    """Yield a diff of two texts line by line, none longer than ``limit``; None is no text at all."""
    old, new = ([] if data is None else _rows(data) for data in (before, after))
    found: list[Line] = []
    for row in list(unified_diff(old, new, n=context, lineterm=""))[2:]:
        style: Style = {"-": "removed", "+": "added", "@": "dim"}.get(row[:1], "plain")  # type: ignore[assignment]
        found.append((Span(_place(row) if style == "dim" else row, style),))
    yield from bounded(found, limit)


def bounded(lines: Sequence[Line], limit: int) -> Iterator[Line]:
    """Yield lines up to a limit, and how many more there are."""
    yield from lines[:limit]
    if len(lines) > limit:
        yield line(f"... {len(lines) - limit} more lines", "dim")


def _rows(data: bytes) -> list[str]:
    rows = [text_of(row) for row in data.split(b"\n")]
    if rows and not rows[-1]:
        rows.pop()
    elif rows:
        rows[-1] += "  (no newline at the end)"
    return rows


def _place(row: str) -> str:
    """Write where a piece of a diff stands, as line numbers of both texts."""
    old, new = row.strip("@ ").split(" ")
    lines = old[1:].split(",")[0], new[1:].split(",")[0]
    return f"line {lines[0]}" if lines[0] == lines[1] else f"line {lines[0]} -> {lines[1]}"
