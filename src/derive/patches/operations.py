# SPDX-License-Identifier: Apache-2.0
"""From a file's parsed rows to one operation: what is created is all added, what is deleted is all removed.

Core: no IO.
"""

from __future__ import annotations

import re

from derive.patches.model import Create, Delete, Hunk
from derive.patches.reader import Refusal, Rows

_BINARY = re.compile(rb"(?:Binary files|Files) .* and .* differ\r?|GIT binary patch\r?", re.DOTALL)

_ONLY_IN = re.compile(rb"Only in [^:]+: .+", re.DOTALL)


def created(path: bytes, hunks: tuple[Hunk, ...], *, executable: bool, line: int) -> Create:
    """Return the creation of a file from its one hunk, or from none when it is empty."""
    if len(hunks) > 1 or any(hunk.old for hunk in hunks):
        raise Refusal(line, "creates a file, yet keeps or removes lines of it")
    return Create(path=path, contents=b"".join(hunks[0].new) if hunks else b"", executable=executable)


def deleted(path: bytes, hunks: tuple[Hunk, ...], *, line: int) -> Delete:
    """Return the deletion of a file from its one hunk, or from none when it is empty."""
    if len(hunks) > 1 or any(hunk.new for hunk in hunks):
        raise Refusal(
            line, "deletes a file, yet keeps or adds lines of it", hint="a deletion removes every line of the file"
        )
    return Delete(path=path, contents=b"".join(hunks[0].old) if hunks else b"")


def refuse_unread(rows: Rows) -> None:
    """Raise a refusal when the row at the cursor stands for a change that the patch does not hold as lines."""
    if _ONLY_IN.fullmatch(rows.peek() or b""):
        raise Refusal(rows.line, "a file that the patch only mentions", hint="make the patch again with diff -urN")
    if _BINARY.fullmatch(rows.peek() or b""):
        raise Refusal(
            rows.line,
            "a binary patch",
            hint="lock the file as a source of its own and put it in place with compose or script",
        )
