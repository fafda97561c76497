# SPDX-License-Identifier: Apache-2.0
"""From two states of some files to the operations between them; what a patch cannot hold is refused by name.

Core: no IO.

Whatever is made here has been applied to the first state, and gave the second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from derive.canonical import escape
from derive.errors import InputErrors, Problem
from derive.patches.apply import apply_patch
from derive.patches.differences import gaps
from derive.patches.model import (
    Copy,
    Create,
    Delete,
    FileOperation,
    FileState,
    Hunk,
    Line,
    Modify,
    Read,
    Rename,
    SetExecutable,
    State,
    conflicts,
    path_fault,
    reads,
    removes,
    split_lines,
    writes,
)
from derive.patches.place import CONTEXT, Placed, place
from derive.trees.listing import Directory, Symlink, nar_key


@dataclass(frozen=True, slots=True)
class Change:
    """The state of one path on both sides; they differ."""

    before: State
    after: State


Changes: TypeAlias = Mapping[bytes, Change]

_SIMILAR = 0.5
_PAIRS = 2_500  # of files removed and added that are compared line by line


def hunks_between(old: bytes, new: bytes, *, context: int = CONTEXT) -> tuple[Hunk, ...]:
    """Return the hunks that turn one content into another, with lines of context around each; none when equal."""
    before, after = split_lines(old), split_lines(new)
    if not before:
        return (Hunk(0, tuple(Line("+", line) for line in after)),) if after else ()
    found: list[Hunk] = []
    lines: list[Line] = []
    start = end = -1
    for gap in gaps(before, after):
        if start < 0 or gap.i1 - end > 2 * context:
            if start >= 0:
                found.append(_closed(start, lines, before[end : end + context]))
            start = max(gap.i1 - context, 0)
            lines, end = [], start
        lines += [Line(" ", line) for line in before[end : gap.i1]]
        lines += [Line("-", line) for line in before[gap.i1 : gap.i2]]
        lines += [Line("+", line) for line in after[gap.j1 : gap.j2]]
        end = gap.i2
    if start >= 0:
        found.append(_closed(start, lines, before[end : end + context]))
    return tuple(found)


def _closed(start: int, lines: Sequence[Line], trailing: Iterable[bytes]) -> Hunk:
    return Hunk(start + 1, (*lines, *(Line(" ", line) for line in trailing)))


def operations_between(changes: Changes) -> tuple[FileOperation, ...]:
    """Return the operations of one patch that makes these changes: renames found by contents, the rest path by path.

    Raises:
        InputErrors: every path whose change no patch can hold: links, binary contents, a folder that becomes a file.
    """
    problems = [problem for path, change in changes.items() if (problem := _fault(path, change)) is not None]
    if problems:
        raise InputErrors(problems)
    removed = {path: c.before for path, c in changes.items() if c.after is None and isinstance(c.before, FileState)}
    added = {path: c.after for path, c in changes.items() if c.before is None and isinstance(c.after, FileState)}
    moves = _moves(removed, added)
    operations: list[FileOperation] = []
    for path in sorted(changes, key=nar_key):
        if path in moves:
            operations.append(_moved(moves[path], path, removed[moves[path]], added[path]))
        elif path not in moves.values():
            operations.append(_operation(path, changes[path]))
    binary = [writes(one) or removes(one) or b"" for one in operations if _is_binary(one)]
    if binary:
        raise InputErrors([_binary_problem(path) for path in binary])
    _check_made(operations, changes)
    return tuple(operations)


def refreshed(old: Sequence[FileOperation], changes: Changes, read: Read) -> tuple[FileOperation, ...]:
    """Return operations for these changes that keep those of an earlier patch wherever they still do the same.

    ``read`` gives the state of any path before. A kept hunk says the line at which it lands now.

    Raises:
        InputErrors: as :func:`operations_between`.
    """
    if old and _makes(old, changes, read):
        return landed(old, read)
    left = dict(changes)
    kept: dict[int, FileOperation] = {}
    for index, operation in enumerate(old):
        touched = {path for path in (writes(operation), removes(operation)) if path is not None}
        if touched <= left.keys() and _still_does(operation, {path: left[path] for path in touched}, read):
            kept[index] = landed((operation,), read)[0]
            for path in touched:
                del left[path]
    _give_back(kept, left, changes)
    if not kept:
        return operations_between(changes)
    positions = {path: index for index, one in enumerate(old) for path in (writes(one), removes(one)) if path}
    fresh = operations_between(left) if left else ()
    placed = [
        *((index, one) for index, one in kept.items()),
        *((_position(one, positions, len(old)), one) for one in fresh),
    ]
    operations = tuple(one for _, one in sorted(placed, key=lambda pair: pair[0]))
    if next(conflicts(operations), None) is not None or not _makes(operations, changes, read):
        return operations_between(changes)
    return operations


def _give_back(kept: dict[int, FileOperation], left: dict[bytes, Change], changes: Changes) -> None:
    """Keep no file made or deleted that may be one end of a move, whose other end is new."""
    gone = any(change.after is None for change in left.values())
    come = any(change.before is None for change in left.values())
    for index, operation in list(kept.items()):
        if (isinstance(operation, Create) and gone) or (isinstance(operation, Delete) and come):
            left[operation.path] = changes[operation.path]
            del kept[index]


def landed(operations: Sequence[FileOperation], read: Read) -> tuple[FileOperation, ...]:
    """Return the same operations with every hunk at the line where it applies now; they must apply."""
    return tuple(_landed(operation, read) for operation in operations)


def _landed(operation: FileOperation, read: Read) -> FileOperation:
    source = reads(operation)
    state = None if source is None else read(source)
    if not isinstance(operation, Modify | Rename | Copy) or not isinstance(state, FileState):
        return operation
    lines = split_lines(state.contents)
    floor = drift = 0
    hunks: list[Hunk] = []
    for hunk in operation.hunks:
        found = place(hunk, lines, floor=floor, drift=drift)
        assert isinstance(found, Placed)
        hunks.append(Hunk(found.index + 1 if hunk.old else 0, hunk.lines))
        floor, drift = found.index + len(hunk.old), found.offset
    return replace(operation, hunks=tuple(hunks))


def _position(operation: FileOperation, positions: Mapping[bytes, int], end: int) -> int:
    touched = (path for path in (writes(operation), removes(operation)) if path is not None)
    return min((positions[path] for path in touched if path in positions), default=end)


def _still_does(operation: FileOperation, changes: Changes, read: Read) -> bool:
    return _makes((operation,), changes, read)


def _makes(operations: Sequence[FileOperation], changes: Changes, read: Read) -> bool:
    try:
        made = apply_patch(operations, read).changes
    except InputErrors:
        return False
    return dict(made) == {path: change.after for path, change in changes.items()}


def _check_made(operations: Sequence[FileOperation], changes: Changes) -> None:
    states = {path: change.before for path, change in changes.items()}

    def read(path: bytes) -> State:
        if path in states:
            return states[path]
        inside = path + b"/"
        return Directory() if any(other.startswith(inside) and states[other] is not None for other in states) else None

    made = apply_patch(operations, read).changes
    assert dict(made) == {path: change.after for path, change in changes.items()}


def _operation(path: bytes, change: Change) -> FileOperation:
    match change:
        case Change(before=None, after=FileState(contents=contents, executable=executable)):
            return Create(path=path, contents=contents, executable=executable)
        case Change(before=FileState(contents=contents), after=None):
            return Delete(path=path, contents=contents)
        case Change(before=FileState() as before, after=FileState() as after):
            bit = after.executable if before.executable != after.executable else None
            hunks = hunks_between(before.contents, after.contents)
            if hunks:
                return Modify(path=path, hunks=hunks, executable=bit)
            return SetExecutable(path=path, executable=after.executable)
        case _:
            raise AssertionError(change)  # every other change has been refused


def _moved(old: bytes, new: bytes, before: FileState, after: FileState) -> Rename:
    executable = after.executable if before.executable != after.executable else None
    return Rename(old=old, new=new, hunks=hunks_between(before.contents, after.contents), executable=executable)


def _fault(path: bytes, change: Change) -> Problem | None:
    where = escape(path)
    fault = path_fault(path)
    if fault is not None:
        return Problem(where=where, message=fault)
    sides = (change.before, change.after)
    if any(isinstance(side, Symlink) for side in sides):
        hint = "make the link in the derivation that uses the patched tree"
        return Problem(where=where, message="a change of a symbolic link, which a patch does not make here", hint=hint)
    if any(isinstance(side, Directory) for side in sides):
        hint = "make two patches of it: one that deletes the folder's files, one that creates the file"
        return Problem(where=where, message="a folder that becomes a file", hint=hint)
    return None


def _is_binary(operation: FileOperation) -> bool:
    match operation:
        case Create(contents=contents) | Delete(contents=contents):
            return b"\0" in contents
        case Modify(hunks=hunks) | Rename(hunks=hunks) | Copy(hunks=hunks):
            return any(b"\0" in line.content for hunk in hunks for line in hunk.lines)
        case SetExecutable():
            return False
        case _:
            assert_never(operation)


def _binary_problem(path: bytes) -> Problem:
    hint = "lock the file as a source of its own and put it in place with compose or script"
    return Problem(where=escape(path), message="a change of a binary file, which a patch does not hold", hint=hint)


def _moves(removed: Mapping[bytes, FileState], added: Mapping[bytes, FileState]) -> dict[bytes, bytes]:
    """Return, for files that came from removed ones, where from: equal contents first, then the most similar."""
    found: dict[bytes, bytes] = {}
    free = {path: state for path, state in removed.items() if state.contents}
    by_contents: dict[bytes, list[bytes]] = {}
    for path in sorted(free, key=nar_key):
        by_contents.setdefault(free[path].contents, []).append(path)
    for new in sorted(added, key=nar_key):
        same = by_contents.get(added[new].contents)
        if same:
            old = min(same, key=lambda path: _base(path) != _base(new))
            same.remove(old)
            found[new] = old
            del free[old]
    rest = {path: state for path, state in added.items() if path not in found and state.contents}
    if len(free) * len(rest) <= _PAIRS:
        ranked = sorted(
            (-score, _base(old) != _base(new), nar_key(new), nar_key(old), new, old)
            for new, after in rest.items()
            for old, before in free.items()
            if (score := _similarity(before.contents, after.contents)) >= _SIMILAR
        )
        for *_, new, old in ranked:
            if new not in found and old in free:
                found[new] = old
                del free[old]
    return found


def _base(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _similarity(old: bytes, new: bytes) -> float:
    """Return the part of the larger content, by bytes, that stands as lines in the other."""
    larger = max(len(old), len(new))
    if min(len(old), len(new)) < _SIMILAR * larger:
        return 0.0
    common = Counter(split_lines(old)) & Counter(split_lines(new))
    return sum(len(line) * count for line, count in common.items()) / larger
