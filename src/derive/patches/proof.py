# SPDX-License-Identifier: Apache-2.0
"""Proof that a patch was applied: every hunk stands in the result where it is said to, and nothing else moved.

Core: no IO.

It does not ask what applies patches: it compares the states before and after, line by line, with the hunks. Whatever
applied them, a patch that left no trace, or left another one, does not pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from derive.canonical import escape, sha256
from derive.errors import BuildFailed
from derive.patches.model import (
    Copy,
    Create,
    Delete,
    FileOperation,
    FileState,
    Hunk,
    Modify,
    Read,
    Rename,
    SetExecutable,
    State,
    removes,
    split_lines,
    writes,
)
from derive.trees.listing import Directory, File, Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """Where a hunk landed: ``path`` and the 1-based ``line`` are those of the file after the patch.

    ``before`` is the line at which its old side stood, ``offset`` by how many lines that is not where it says.
    ``operation`` counts the patch's operations from 0, ``hunk`` those of one file from 1.
    """

    operation: int
    path: bytes
    hunk: int
    line: int
    before: int
    offset: int


def prove_patch(
    name: str,
    operations: Sequence[FileOperation],
    before: Read,
    after: Mapping[bytes, FileState | None],
    landed: Sequence[Landed],
) -> None:
    """Check what one patch left behind: ``after`` holds every path that it wrote, or None where it removed one.

    Raises:
        BuildFailed: naming the first operation or hunk without its trace in the result.
    """
    wanted = {path for one in operations for path in (writes(one), removes(one)) if path is not None}
    faults = [f"{escape(path)}: changed by no operation" for path in sorted(after.keys() - wanted)]
    faults += [f"{escape(path)}: not in the result" for path in sorted(wanted - after.keys())]
    if not faults:
        places: dict[int, list[Landed]] = {}
        for one in landed:
            places.setdefault(one.operation, []).append(one)
        for index, operation in enumerate(operations):
            faults.extend(_faults(operation, before, after, places.pop(index, ())))
        faults += [f"operation {index}: there is none, and a hunk of it landed" for index in places]
    if faults:
        raise _unproven(name, faults)


def prove_tree(before: Listing, after: Listing, changes: Mapping[bytes, FileState | None]) -> None:
    """Check a patched tree: each change is in it, and every other path is as it was.

    Folders may have come with a new file or gone with a last one.

    Raises:
        BuildFailed: naming the first path that is otherwise.
    """
    for path, state in changes.items():
        entry = after.get(path)
        got = (entry.executable, entry.sha256) if isinstance(entry, File) else entry
        if got != (None if state is None else (state.executable, sha256(state.contents))):
            raise _unproven("the patched tree", [f"{escape(path)}: not what the series makes of it"])
    for path in before.keys() | after.keys():
        old, new = before.get(path), after.get(path)
        folders = isinstance(old or new, Directory) and (old is None or new is None)
        if old is not new and old != new and path not in changes and not folders:
            raise _unproven("the patched tree", [f"{escape(path)}: changed, and no patch changes it"])


def _unproven(name: str, faults: Sequence[str]) -> BuildFailed:
    hint = "a fault of derive itself: please report it, with the patch and its source"
    return BuildFailed("what was applied is not what the patch says", where=name, detail=faults[:5], hint=hint)


def _faults(
    operation: FileOperation, before: Read, after: Mapping[bytes, FileState | None], landed: Sequence[Landed]
) -> Iterator[str]:
    match operation:
        case Modify(path=path, hunks=hunks, executable=executable):
            yield from _changed(before(path), path, after, hunks, executable, landed)
        case Rename(old=old, new=new, hunks=hunks, executable=executable):
            yield from _changed(before(old), new, after, hunks, executable, landed)
        case Copy(old=old, new=new, hunks=hunks, executable=executable):
            yield from _changed(before(old), new, after, hunks, executable, landed)
        case SetExecutable(path=path, executable=executable):
            yield from _changed(before(path), path, after, (), executable, landed)
        case Create(path=path, contents=contents, executable=executable):
            if after[path] != FileState(contents=contents, executable=executable):
                yield f"{escape(path)}: not the file that the patch creates"
        case Delete(path=path, contents=contents):
            state = before(path)
            if not isinstance(state, FileState) or state.contents != contents:
                yield f"{escape(path)}: not the file that the patch deletes"
        case _:
            assert_never(operation)
    gone, made = removes(operation), writes(operation)
    if gone is not None and after[gone] is not None and before(gone) == after[gone]:
        yield f"{escape(gone)}: still there"
    if made is not None and before(made) == after[made]:
        yield f"{escape(made)}: the same as before"


def _changed(
    old: State,
    path: bytes,
    after: Mapping[bytes, FileState | None],
    hunks: Sequence[Hunk],
    executable: bool | None,
    landed: Sequence[Landed],
) -> Iterator[str]:
    """Say where a file is not the old one with exactly these hunks in these places, and this bit."""
    new = after[path]
    if not isinstance(old, FileState) or new is None:
        yield f"{escape(path)}: no file"
        return
    if new.executable != (old.executable if executable is None else executable):
        yield f"{escape(path)}: not with the execute bit that the patch gives it"
    places = [(one.path, one.hunk) for one in landed]
    if places != [(path, number) for number in range(1, len(hunks) + 1)]:
        yield f"{escape(path)}: {len(places)} of {len(hunks)} hunks landed"
    elif hunks:
        yield from (f"{escape(path)}: {fault}" for fault in _compare(old.contents, new.contents, hunks, landed))
    elif new.contents != old.contents:
        yield f"{escape(path)}: changed, and no hunk changes it"


def _compare(old: bytes, new: bytes, hunks: Sequence[Hunk], landed: Sequence[Landed]) -> Iterator[str]:
    """Walk both files side by side: equal up to a hunk, its old side here and its new side there, and so on."""
    before, after = split_lines(old), split_lines(new)
    left = right = 0
    for number, (hunk, place) in enumerate(zip(hunks, landed, strict=True), 1):
        gone, come = hunk.old, hunk.new
        start, at = place.before - 1, place.line - 1
        if start < left or before[left:start] != after[right:at]:
            yield f"hunk {number}: what stands before it is not as it was"
        if before[start : start + len(gone)] != gone or after[at : at + len(come)] != come:
            yield f"hunk {number}: not in the result at line {place.line}"
        if gone == come:
            yield f"hunk {number}: changes nothing"
        left, right = start + len(gone), at + len(come)
    if before[left:] != after[right:]:
        yield "what stands after the last hunk is not as it was"
