# SPDX-License-Identifier: Apache-2.0
"""What moved in a series, in words: apart, since few answers need to know what a patch is made of.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from derive.canonical import escape
from derive.patches.model import Copy, Create, Delete, FileOperation, Hunk, Modify, Rename, SetExecutable
from derive.why.differences import HunkMoved, OperationMoved, PatchAdded, PatchMoved, PatchRemoved
from derive.why.render import Line, Style, bounded, line, line_diff, text_of
from derive.words import count_text

_SHOWN = 30


def patch_headline(difference: HunkMoved | OperationMoved | PatchAdded | PatchMoved | PatchRemoved) -> str:
    """Say in one line what moved in a series."""
    match difference:
        case PatchAdded(patch, number, operations):
            return f"{patch} added, as number {number}: {_operations(operations)}"
        case PatchRemoved(patch, number, operations):
            return f"{patch} removed, was number {number}: {_operations(operations)}"
        case PatchMoved(patch, before, after):
            return f"{patch} moved: number {before} -> {after}"
        case HunkMoved(patch, path, number, before, after):
            came = " added" if before is None else " removed" if after is None else ""
            return f"{patch}: {text_of(path)}, hunk {number}{came}{_start(before, after)}"
        case OperationMoved(patch, path, before, after):
            return f"{patch}: {text_of(path)}: {_operation(before)} -> {_operation(after)}"
        case _:
            assert_never(difference)


def patch_details(difference: HunkMoved | OperationMoved) -> Iterator[Line]:
    """Show the lines that moved in a patch."""
    match difference:
        case HunkMoved(_, _, _, before, after):
            yield from _hunks(before, after)
        case OperationMoved(_, _, (Create() | Delete()) as before, (Create() | Delete()) as after):
            yield from line_diff(before.contents, after.contents)
        case OperationMoved():
            return
        case _:
            assert_never(difference)


def _start(before: Hunk | None, after: Hunk | None) -> str:
    if before is not None and after is not None and before.start != after.start:
        return f", line {before.start} -> {after.start}"
    one = after if after is not None else before
    return f", line {one.start}" if one is not None else ""


def _hunks(before: Hunk | None, after: Hunk | None) -> Iterator[Line]:
    """Show two states of a hunk as a diff of its lines; of a hunk alone, its lines."""
    if before is not None and after is not None:
        texts = (b"".join(_row(one.tag, one.content) for one in hunk.lines) for hunk in (before, after))
        yield from (one for one in line_diff(*texts) if one[0].style != "dim")
        return
    hunk, style = (after, "added") if after is not None else (before, "removed")
    assert hunk is not None
    sign: Style = "added" if style == "added" else "removed"
    yield from bounded([line(one.tag + text_of(one.content.rstrip(b"\n")), sign) for one in hunk.lines], _SHOWN)


def _row(tag: str, content: bytes) -> bytes:
    return tag.encode() + (content if content.endswith(b"\n") else content + b"  (no newline at the end)\n")


def _operations(operations: Sequence[FileOperation]) -> str:
    shown = [_operation(one) for one in operations[:3]]
    more = [f"{len(operations) - 3} more"] if len(operations) > 3 else []
    return ", ".join([*shown, *more])


def _operation(operation: FileOperation | None) -> str:
    match operation:
        case None:
            return "nothing"
        case Modify(path=path, hunks=hunks, executable=bit):
            return f"changes {escape(path)}{_bit(bit)}" + (f" in {count_text(len(hunks), 'hunk')}" if hunks else "")
        case Create(path=path, contents=contents, executable=bit):
            return f"creates {escape(path)} of {len(contents)} bytes" + (", executable" if bit else "")
        case Delete(path=path):
            return f"deletes {escape(path)}"
        case Rename(old=old, new=new, executable=bit):
            return f"renames {escape(old)} to {escape(new)}{_bit(bit)}"
        case Copy(old=old, new=new, executable=bit):
            return f"copies {escape(old)} to {escape(new)}{_bit(bit)}"
        case SetExecutable(path=path, executable=bit):
            return f"makes {escape(path)} {'executable' if bit else 'not executable'}"
        case _:
            assert_never(operation)


def _bit(executable: bool | None) -> str:
    return "" if executable is None else ", makes it executable" if executable else ", makes it not executable"
