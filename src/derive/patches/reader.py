# SPDX-License-Identifier: Apache-2.0
"""A cursor over the rows of a patch file, and the one exception by which a part of it is refused.

Core: no IO.
"""

from __future__ import annotations

import re

from derive.errors import Problem

HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(?: .*)?", re.DOTALL)


class Refusal(Exception):
    """A part of a patch file is refused; caught by the parser, which goes on with the next part."""

    def __init__(self, line: int, message: str, *, detail: tuple[str, ...] = (), hint: str | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.message = message
        self.detail = detail
        self.hint = hint

    def problem(self, where: str) -> Problem:
        """Return it as a problem of the named file."""
        return Problem(where=f"{where}: line {self.line}", message=self.message, detail=self.detail, hint=self.hint)


class Converted(Refusal):
    """The whole patch file was given CRLF endings: nothing in it can be read exactly, so nothing more is tried."""


class Rows:
    """The rows of a patch file without their newlines, and the place reached."""

    __slots__ = ("_rows", "at", "ends_with_newline")

    def __init__(self, data: bytes) -> None:
        rows = data.split(b"\n")
        self.ends_with_newline = rows[-1] == b""
        if self.ends_with_newline:
            rows.pop()
        self._rows = rows
        self.at = 0

    @property
    def line(self) -> int:
        """The 1-based number of the row at the cursor."""
        return self.at + 1

    def peek(self, ahead: int = 0) -> bytes | None:
        """Return the row at the cursor or after it, None past the end."""
        index = self.at + ahead
        return self._rows[index] if index < len(self._rows) else None

    def take(self) -> bytes | None:
        """Return the row at the cursor and step over it."""
        row = self.peek()
        if row is not None:
            self.at += 1
        return row

    def between(self, start: int, end: int) -> bytes:
        """Return rows ``start`` to ``end`` (0-based, end not included) as they stand in the file."""
        return b"".join(row + b"\n" for row in self._rows[start:end])

    @property
    def unterminated(self) -> bool:
        """Whether the row just taken is the file's last and has no newline."""
        return self.at == len(self._rows) and not self.ends_with_newline

    def at_block(self) -> bool:
        """Whether the changes of another file begin at the cursor."""
        row = self.peek()
        if row is None:
            return False
        return row.startswith((b"diff --git ", b"diff --cc ", b"diff --combined ")) or (
            row.startswith(b"--- ") and (self.peek(1) or b"").startswith(b"+++ ")
        )

    def at_hunk(self) -> bool:
        """Whether a row that means to be a hunk's header is at the cursor."""
        return (self.peek() or b"").startswith(b"@@ -")


def header_row(rows: Rows) -> bytes:
    """Take a header row, which must not end in CR.

    Raises:
        Converted: when it does.
    """
    line = rows.line
    row = rows.take() or b""
    refuse_converted(row, line)
    return row


def refuse_converted(row: bytes, line: int) -> None:
    """Raise Converted when a row that no source line stands in ends in CR."""
    if row.endswith(b"\r"):
        raise Converted(
            line,
            "the patch file has CRLF line endings of its own",
            detail=(f"line      {show_row(row)}",),
            hint="give the patch file LF endings; the lines of a CRLF source keep their own CR",
        )


def show_row(row: bytes) -> str:
    """Return a row or a line of a file for people: quoted, escapes visible, not too long."""
    text = repr(row.decode("utf-8", "backslashreplace"))
    return text if len(text) <= 120 else text[:116] + "...'"
