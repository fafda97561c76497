# SPDX-License-Identifier: Apache-2.0
"""One hunk, read strictly: its counts are right, every row has its tag, and what follows it is no part of it.

Core: no IO.
"""

from __future__ import annotations

from derive.errors import expected_got
from derive.patches.model import Hunk, Line, Tag, hunk_faults
from derive.patches.reader import HUNK, Converted, Refusal, Rows, header_row, refuse_converted, show_row

AGAIN = "make the patch again (git diff) instead of editing its lines by hand"
CONTEXT = "make the patch again with three lines of context (git diff -U3)"
_TAGS: dict[bytes, Tag] = {b" ": " ", b"+": "+", b"-": "-"}


def read_hunk(rows: Rows) -> Hunk:
    """Read the hunk whose header is at the cursor.

    Raises:
        Refusal: with the number of the row that is wrong.
    """
    header = rows.line
    row = rows.take() or b""
    match = HUNK.fullmatch(row)
    if match is None:
        refuse_converted(row, header)
        raise Refusal(
            header, "not a hunk header", detail=expected_got("@@ -start,count +start,count @@", show_row(row))
        )
    start, old, new = int(match[1]), _count(match[2]), _count(match[4])
    old_left, new_left = old, new
    lines: list[Line] = []
    while old_left or new_left:
        line = _read_line(rows, header, old_left, new_left)
        if line.tag != "+":
            old_left -= 1
        if line.tag != "-":
            new_left -= 1
        if old_left < 0 or new_left < 0:
            side, count = ("old", old) if old_left < 0 else ("new", new)
            raise Refusal(
                rows.line - 1, f"the hunk of line {header} has more than the {count} {side} lines it counts", hint=AGAIN
            )
        lines.append(line)
    if not lines:
        raise Refusal(header, "a hunk without lines")
    return Hunk(start, tuple(lines))


def read_hunks(rows: Rows, refusals: list[Refusal]) -> tuple[Hunk, ...] | None:
    """Read the hunks at the cursor, none or more, and check what follows them.

    Every refused hunk is added to ``refusals``, and then the answer is None.
    """
    found: list[tuple[int, Hunk]] = []
    before = len(refusals)
    while (rows.peek() or b"").startswith(b"@@"):
        line = rows.line
        try:
            hunk = read_hunk(rows)
            check_after(rows)
        except Converted:
            raise
        except Refusal as refusal:
            refusals.append(refusal)
            rows.at = line
            while rows.peek() is not None and not rows.at_hunk() and not rows.at_block():
                rows.at += 1
        else:
            found.append((line, hunk))
    faults = hunk_faults([hunk for _, hunk in found])
    refusals.extend(Refusal(found[index][0], f"this hunk {fault}", hint=CONTEXT) for index, fault in faults)
    return tuple(hunk for _, hunk in found) if len(refusals) == before else None


def check_after(rows: Rows) -> None:
    """Refuse rows after a file's changes that are neither another hunk, another file, nor a mail's end.

    Raises:
        Refusal: naming the row. Otherwise the cursor stays where it is.
    """
    blank = 0
    while rows.peek(blank) == b"":
        blank += 1
    row = rows.peek(blank)
    if row is None or _starts_something(rows, blank):
        return
    line = rows.line + blank
    if row.startswith(b"@@"):
        if blank == 0:
            return
        raise Refusal(line, "an empty line before a hunk: a context line whose space was trimmed, or left over")
    if row[:1] in (b" ", b"+", b"-", b"\\"):
        raise Refusal(line, "a line that no hunk counts", detail=(f"line      {show_row(row)}",), hint=AGAIN)
    raise Refusal(line, "text between the changes of two files", detail=(f"line      {show_row(row)}",))


def _starts_something(rows: Rows, ahead: int) -> bool:
    row = rows.peek(ahead) or b""
    if row.startswith((b"diff ", b"Index: ", b"From ")):
        return True
    if row.startswith(b"--- "):
        return (rows.peek(ahead + 1) or b"").startswith(b"+++ ")
    if row in (b"-- ", b"--"):
        # The signature of git format-patch: a version, then nothing or the next mail. Anything else is a removed line.
        after = rows.peek(ahead + 2)
        return rows.peek(ahead + 1) is not None and (after is None or after == b"" or after.startswith(b"From "))
    return False


def _read_line(rows: Rows, header: int, old_left: int, new_left: int) -> Line:
    line = rows.line
    row = rows.take()
    if row is None:
        raise Refusal(
            header,
            "the patch ends inside this hunk",
            detail=(f"missing   {old_left} old and {new_left} new lines",),
            hint=AGAIN,
        )
    if row in (b"", b"\r"):
        raise Refusal(
            line,
            f"an empty line inside the hunk of line {header}: the space of a blank context line was trimmed",
            hint="put the space back, or make the patch again",
        )
    tag = _TAGS.get(row[:1])
    if tag is None:
        raise Refusal(
            line,
            f"the hunk of line {header} is not complete",
            detail=expected_got(f"{old_left} more old and {new_left} more new lines", show_row(row)),
            hint=AGAIN,
        )
    if rows.unterminated:
        raise Refusal(line, "the patch file ends inside a line", hint="end the patch file with a newline")
    if not (rows.peek() or b"").startswith(b"\\ "):
        return Line(tag, row[1:] + b"\n")
    header_row(rows)
    if len(row) == 1:
        raise Refusal(line, "an empty line without a newline is no line")
    return Line(tag, row[1:])


def _count(text: bytes | None) -> int:
    return 1 if text is None else int(text)
