# SPDX-License-Identifier: Apache-2.0
"""What a difference is told with: contents to read, limits that end it, lines that are its answer.

Core: no IO. Contents come from functions that the caller gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from derive.why.render import Line, Span, Style, printable
from derive.words import size_text

_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a difference is followed; whatever is cut is said where it is cut.

    ``lines`` is of the whole answer, ``rows`` of each table in it. ``files`` is how many members or paths that differ
    are opened in each archive or tree, ``depth`` how many archives deep. A format that has to be held whole is read up
    to ``held_bytes``; what is read and unpacked in all stays under ``read_bytes``, and a listing under ``members``.
    """

    lines: int = 80
    rows: int = 12
    files: int = 3
    depth: int = 6
    held_bytes: int = 64 << 20
    read_bytes: int = 4 << 30
    members: int = 200_000
    text_lines: int = 5000


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes that can be read again and again, in pieces; ``size`` in bytes is None until they were all read."""

    pieces: Callable[[], Iterable[bytes]]
    size: int | None = None

    @classmethod
    def of(cls, data: bytes) -> Content:
        """Return bytes at hand as contents."""
        return cls(lambda: (data,), len(data))


Sides = tuple[Content, Content]
"""The first and the second of what is compared."""


class Spent(Exception):
    """More would have to be read than the limits allow."""


class Unread(ValueError):
    """Contents are not, or not wholly, of the format that they seem to be; the message says why."""


class Report:
    """Collects the lines of one answer, and counts what was read for it."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.depth = 0
        self._indent = 0
        self._lines: list[Line] = []
        self._dropped = 0
        self._read = 0

    def say(self, text: str, style: Style = "plain") -> None:
        """Add a line at the present depth; control characters are escaped, and what is too long is cut."""
        self.show((Span(_cut(printable(text)), style),))

    def show(self, line: Line) -> None:
        """Add a line that is ready."""
        if len(self._lines) < self.limits.lines:
            self._lines.append((Span("  " * self._indent), *line))
        else:
            self._dropped += 1

    @contextmanager
    def inside(self, text: str, style: Style = "plain") -> Iterator[None]:
        """Say a line, and indent all that is said meanwhile."""
        self.say(text, style)
        self._indent += 1
        try:
            yield
        finally:
            self._indent -= 1

    def rows(self, rows: Sequence[str], style: Style = "plain") -> None:
        """Say rows up to the limit, and how many more there are."""
        for row in rows[: self.limits.rows]:
            self.say(row, style)
        if len(rows) > self.limits.rows:
            self.say(f"... and {len(rows) - self.limits.rows} more", "dim")

    @property
    def is_full(self) -> bool:
        """Say whether no further line would be shown."""
        return len(self._lines) >= self.limits.lines

    @property
    def said(self) -> int:
        """How many lines were said so far, shown or not."""
        return len(self._lines) + self._dropped

    def read(self, content: Content) -> Iterator[bytes]:
        """Yield the pieces of some contents, counted; raises Spent."""
        for piece in content.pieces():
            self._read += len(piece)
            if self._read > self.limits.read_bytes:
                raise Spent
            yield piece

    def hold(self, content: Content) -> bytes:
        """Return contents whole; raises Unread where they are larger than what may be held."""
        most = self.limits.held_bytes
        held = bytearray()
        for piece in self.read(content):
            held += piece
            if len(held) > most:
                raise Unread(f"larger than {size_text(most)}")
        return bytes(held)

    def head(self, content: Content, size: int) -> bytes:
        """Return the first bytes of some contents, at most ``size``."""
        held = bytearray()
        for piece in self.read(content):
            held += piece[: size - len(held)]
            if len(held) >= size:
                break
        return bytes(held)

    def finished(self) -> list[Line]:
        """Return the lines, the last of which says how many were left out."""
        if self._dropped:
            return [*self._lines, (Span(f"... and {self._dropped} more lines", "dim"),)]
        return self._lines


Compare = Callable[[Report, str, Sides], None]
"""Tells how two contents of a name differ; formats that hold others are given it."""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"
