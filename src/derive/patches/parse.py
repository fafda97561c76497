# SPDX-License-Identifier: Apache-2.0
"""A patch file is read whole or refused with every fault and its line: what a tool would skip or guess is a fault.

Core: no IO.

Unified diffs, plain (``-p1`` names) or as git writes them. Refused by name: binary patches, symbolic links, submodules,
combined and context diffs. See docs/builders/patch.md.
"""

from __future__ import annotations

import re

from derive.errors import InputErrors, expected_got
from derive.patches.extended import read_git_file
from derive.patches.hunks import read_hunks
from derive.patches.model import FileOperation, Header, Modify, Patch, conflicts
from derive.patches.names import FileName, file_name, stripped
from derive.patches.operations import created, deleted, refuse_unread
from derive.patches.reader import HUNK, Converted, Refusal, Rows, header_row
from derive.patches.series import licence_expression

_LICENCE = re.compile(rb"^SPDX-License-Identifier:[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)


def parse_patch(name: str, data: bytes, *, where: str | None = None) -> Patch:
    """Read one patch file.

    ``where`` is how errors call the file, by default its name.

    Raises:
        InputErrors: with every fault found, each at ``<where>: line N``.
    """
    rows = Rows(data)
    refusals: list[Refusal] = []
    found: list[tuple[int, FileOperation]] = []
    text: bytes | None = None
    try:
        while rows.peek() is not None:
            _skip_text(rows, refusals)
            text = rows.between(0, rows.at) if text is None else text
            if rows.peek() is not None:
                line = rows.line
                operation = _read_file(rows, refusals)
                found.extend(() if operation is None else ((line, operation),))
    except Converted as converted:
        refusals = [converted]
    refusals.extend(
        Refusal(found[index][0], message, hint="split it into two patches of the series")
        for index, message in conflicts([operation for _, operation in found])
    )
    header = _header(text or b"", refusals)
    if not found and not refusals:
        refusals.append(Refusal(1, "no change to any file", hint="delete the patch and its line in the series"))
    if refusals:
        raise InputErrors([refusal.problem(where or name) for refusal in refusals])
    return Patch(name=name, header=header, operations=tuple(operation for _, operation in found))


def _skip_text(rows: Rows, refusals: list[Refusal]) -> None:
    """Go to the next file's changes, refusing changes of a kind that is not read."""
    while (row := rows.peek()) is not None and not rows.at_block():
        if HUNK.fullmatch(row):
            refusals.append(Refusal(rows.line, "a hunk that belongs to no file"))
        elif row.startswith(b"*** ") and (rows.peek(1) or b"").startswith(b"--- "):
            refusals.append(
                Refusal(rows.line, "a context diff", hint="make the patch again as a unified diff (diff -u)")
            )
        else:
            _collect_unread(rows, refusals)
        rows.at += 1


def _collect_unread(rows: Rows, refusals: list[Refusal]) -> None:
    try:
        refuse_unread(rows)
    except Refusal as refusal:
        refusals.append(refusal)


def _read_file(rows: Rows, refusals: list[Refusal]) -> FileOperation | None:
    """Read the changes of one file; None when something in them was refused."""
    line = rows.line
    try:
        row = rows.peek() or b""
        return (_read_plain_file if row.startswith(b"--- ") else read_git_file)(rows, refusals)
    except Converted:
        raise
    except Refusal as refusal:
        refusals.append(refusal)
        rows.at = max(rows.at, line)
        while rows.peek() is not None and not rows.at_block():
            _collect_unread(rows, refusals)
            rows.at += 1
        return None


def _read_plain_file(rows: Rows, refusals: list[Refusal]) -> FileOperation | None:
    line = rows.line
    old = file_name(header_row(rows)[4:], line)
    new = file_name(header_row(rows)[4:], line + 1)
    path = _plain_path(old, new, line)
    hunks = read_hunks(rows, refusals)
    if hunks is None:
        return None
    if not hunks:
        raise Refusal(line, "a file without a hunk", hint="delete these two lines")
    if old.absent:
        return created(path, hunks, executable=False, line=line)
    if new.absent:
        return deleted(path, hunks, line=line)
    return Modify(path=path, hunks=hunks)


def _plain_path(old: FileName, new: FileName, line: int) -> bytes:
    if old.absent and new.absent:
        raise Refusal(line, "a file that is absent before and after")
    names = [stripped(name.raw, line) for name in (old, new) if not name.absent]
    if names[0] != names[-1]:
        raise Refusal(
            line,
            "the names before and after differ",
            detail=expected_got(
                names[0].decode("utf-8", "backslashreplace"), names[-1].decode("utf-8", "backslashreplace")
            ),
            hint="a rename must say so (git diff -M); otherwise both names must be equal after the first folder",
        )
    return names[0]


def _header(text: bytes, refusals: list[Refusal]) -> Header:
    match = _LICENCE.search(text)
    if match is None:
        return Header(text=text)
    line = text.count(b"\n", 0, match.start()) + 1
    try:
        return Header(text=text, licence=licence_expression(match[1].decode("utf-8", "replace")))
    except ValueError as error:
        refusals.append(Refusal(line, str(error)))
        return Header(text=text)
