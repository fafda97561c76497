# SPDX-License-Identifier: Apache-2.0
"""Patches applied to values: given the state of a path, return the state after it, exactly, or say why not.

Core: no IO.

No fuzz. A hunk that is not at its stated line is moved only to the one place that its whole old side fits; every
operation must change something. A patch applies whole or not at all, and a series stops at the first that does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import assert_never

from derive.canonical import escape
from derive.errors import InputErrors, Problem
from derive.patches.explain import ABSORBED, REFRESH, Places, Reason, difference, why_not
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
    reads,
    removes,
    split_lines,
    writes,
)
from derive.patches.place import Placed, place
from derive.patches.proof import Landed, prove_patch
from derive.trees.listing import DIRECTORY, Directory, Symlink, nar_key, parents

__all__ = [
    "Applied",
    "FileState",
    "Moved",
    "Read",
    "Refused",
    "State",
    "States",
    "Tried",
    "apply_patch",
    "apply_series",
    "try_patch",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A hunk that applied at another line than it says; for the log."""

    patch: str
    path: bytes
    hunk: int
    line: int
    offset: int

    @classmethod
    def of(cls, patch: str, landed: Landed) -> Moved:
        """Say of which patch a hunk landed elsewhere."""
        return cls(patch=patch, path=landed.path, hunk=landed.hunk, line=landed.before, offset=landed.offset)

    def __str__(self) -> str:
        return (
            f"{self.patch}: {escape(self.path)}: hunk {self.hunk} applied at line {self.line} (moved {self.offset:+d})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The net result: the state of every path that is no longer as it was (None: deleted), in NAR order.

    ``landed`` holds, for each patch, where its hunks landed: proved of each patch when it had been applied.
    """

    changes: Mapping[bytes, FileState | None]
    moved: tuple[Moved, ...]
    landed: tuple[tuple[Landed, ...], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A part of a patch that does not apply: an operation, or one hunk of it, counted from 1."""

    operation: int
    path: bytes
    hunk: int | None
    reason: Reason

    def problem(self, name: str) -> Problem:
        """Return it as a problem of the named patch."""
        where = f"{name}: {escape(self.path)}" + ("" if self.hunk is None else f": hunk {self.hunk}")
        return Problem(where=where, message=self.reason.message, detail=self.reason.detail, hint=self.reason.hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What came of one patch: with nothing refused, ``after`` is the state of every path that it writes or removes."""

    after: Mapping[bytes, FileState | None]
    landed: tuple[Landed, ...]
    refused: tuple[Refused, ...]


@dataclass(slots=True)
class States:
    """The states reached so far over those read: nothing is read twice, and nothing that no patch names.

    ``now`` holds what was written or removed; ``above`` how many files that were written lie below a path.
    """

    read: Read
    before: dict[bytes, State] = field(default_factory=dict)
    now: dict[bytes, FileState | None] = field(default_factory=dict)
    above: Counter[bytes] = field(default_factory=Counter)

    def original(self, path: bytes) -> State:
        """Return the state of a path before any patch."""
        if path not in self.before:
            self.before[path] = self.read(path)
        return self.before[path]

    def at(self, path: bytes) -> State:
        """Return the state of a path now."""
        state = self.now[path] if path in self.now else self.original(path)
        return DIRECTORY if state is None and self.above[path] else state

    def update(self, after: Mapping[bytes, FileState | None]) -> None:
        """Take in what one patch wrote and removed."""
        for path, state in after.items():
            step = (state is not None) - (self.now.get(path) is not None)
            if step:
                self.above.update(dict.fromkeys(_above(path), step))
            self.now[path] = state

    def changes(self) -> Mapping[bytes, FileState | None]:
        """Return every path that is no longer as it was, in NAR order."""
        changed = {path: self.now[path] for path in sorted(self.now, key=nar_key)}
        return MappingProxyType({path: state for path, state in changed.items() if state != self.original(path)})


@dataclass(slots=True)
class _Attempt:
    """One patch being applied: what it would write, and every reason why it may not."""

    at: Read
    operation: int = 0
    after: dict[bytes, FileState | None] = field(default_factory=dict)
    landed: list[Landed] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    def refuse(self, path: bytes, reason: Reason, *, hunk: int | None = None) -> None:
        self.refused.append(Refused(operation=self.operation, path=path, hunk=hunk, reason=reason))


def apply_patch(operations: Sequence[FileOperation], read: Read, *, name: str = "patch") -> Applied:
    """Apply the operations of one patch; see :func:`apply_series`."""
    return apply_series((operations,), read, names=(name,))


def apply_series(series: Sequence[Sequence[FileOperation]], read: Read, *, names: Sequence[str] = ()) -> Applied:
    """Apply patches in order, each to what those before it left, and prove of each that all of it landed.

    ``names`` is how errors call the patches, for each one or for none: they are no part of what is applied.

    Raises:
        InputErrors: with every failing hunk and operation of the first patch that fails.
        BuildFailed: when the proof fails, which is a fault of derive itself.
    """
    called = names or tuple(f"patch {number} of {len(series)}" for number in range(1, len(series) + 1))
    states = States(read)
    landed: list[tuple[Landed, ...]] = []
    for index, (name, operations) in enumerate(zip(called, series, strict=True)):
        tried = try_patch(operations, states.at)
        if tried.refused:
            problems = [refused.problem(name) for refused in tried.refused]
            raise InputErrors(_placed_in_series(problems, index, len(series)))
        prove_patch(name, operations, states.at, tried.after, tried.landed)
        states.update(tried.after)
        landed.append(tried.landed)
    moved = [Moved.of(name, one) for name, found in zip(called, landed, strict=True) for one in found if one.offset]
    return Applied(changes=states.changes(), moved=tuple(moved), landed=tuple(landed))


def try_patch(operations: Sequence[FileOperation], at: Read) -> Tried:
    """Apply one patch to the states that ``at`` gives, or say everything that is in its way."""
    attempt = _Attempt(at)
    gone = {path for path in map(removes, operations) if path is not None}
    attempt.after.update(dict.fromkeys(gone))
    results: list[tuple[int, bytes | None, FileState | None]] = []
    for index, operation in enumerate(operations):
        attempt.operation = index
        results.append((index, writes(operation), _result(attempt, operation, gone)))
    attempt.after.update((path, made) for _, path, made in results if path is not None and made is not None)
    for index, path, made in results:
        if path is not None and made is not None:
            attempt.operation = index
            if made == at(path):
                attempt.refuse(path, _NOTHING_CHANGED)
            elif at(path) is None:
                _refuse_below(attempt, path)
    return Tried(after=attempt.after, landed=tuple(attempt.landed), refused=tuple(attempt.refused))


def _refuse_below(attempt: _Attempt, path: bytes) -> None:
    """Refuse a new file below what is no folder."""
    for above in _above(path):
        state = attempt.after[above] if above in attempt.after else attempt.at(above)
        if isinstance(state, FileState | Symlink):
            attempt.refuse(path, Reason(message=f"{escape(above)}, which it lies below, is {_kind(state)}"))


def _placed_in_series(problems: Sequence[Problem], index: int, count: int) -> list[Problem]:
    if count == 1:
        return list(problems)
    note = f"series    {index} of {count} patches applied before this one"
    return [Problem(where=p.where, message=p.message, detail=(*p.detail, note), hint=p.hint) for p in problems]


def _result(attempt: _Attempt, operation: FileOperation, gone: set[bytes]) -> FileState | None:
    """Return what an operation writes; None when it only removes, or was refused."""
    source = reads(operation)
    before = FileState(contents=b"") if source is None else _existing(attempt, source, operation)
    if before is None:
        return None
    match operation:
        case Modify(path=path, hunks=hunks, executable=executable):
            return _changed(attempt, path, before, hunks, executable)
        case Create(path=path, contents=contents, executable=executable):
            made = FileState(contents=contents, executable=executable)
            return made if _is_free(attempt, path, made, gone) else None
        case Delete(path=path, contents=contents):
            if before.contents != contents:
                message = "the file to delete has other contents"
                attempt.refuse(path, Reason(message=message, detail=difference(contents, before.contents)))
            return None
        case Rename(new=new, hunks=hunks, executable=executable) | Copy(new=new, hunks=hunks, executable=executable):
            made_or_none = _changed(attempt, new, before, hunks, executable)
            return made_or_none if _is_free(attempt, new, made_or_none, gone) else None
        case SetExecutable(path=path, executable=executable):
            return _changed(attempt, path, before, (), executable)
        case _:
            assert_never(operation)


def _existing(attempt: _Attempt, path: bytes, operation: FileOperation) -> FileState | None:
    """Return the file that an operation starts from, or refuse."""
    state = attempt.at(path)
    if isinstance(state, FileState):
        return state
    if state is not None:
        attempt.refuse(path, Reason(message=f"is {_kind(state)}, not a file"))
        return None
    for above in _above(path):
        over = attempt.at(above)
        if over is not None and not isinstance(over, Directory):
            attempt.refuse(path, Reason(message=f"does not exist: {escape(above)} is {_kind(over)}"))
            return None
    target = writes(operation)
    if isinstance(operation, Delete):
        reason = Reason(message="already applied: the file to delete does not exist", hint=ABSORBED)
    elif isinstance(operation, Rename) and target is not None and isinstance(attempt.at(target), FileState):
        reason = Reason(message=f"already applied: does not exist, and {escape(target)} does", hint=ABSORBED)
    else:
        reason = Reason(message="does not exist", hint="a patch that creates a file says so with --- /dev/null")
    attempt.refuse(path, reason)
    return None


def _is_free(attempt: _Attempt, path: bytes, made: FileState | None, gone: set[bytes]) -> bool:
    """Whether a file may be made at a path: nothing is there, or this patch removes it."""
    state = attempt.at(path)
    if state is None or (path in gone and isinstance(state, FileState)):
        return True
    if made is not None and state == made:
        reason = Reason(message="already applied: the file exists with these contents", hint=ABSORBED)
    else:
        reason = Reason(message=f"exists already, as {_kind(state)}")
    attempt.refuse(path, reason)
    return False


def _changed(
    attempt: _Attempt, path: bytes, before: FileState, hunks: Sequence[Hunk], executable: bool | None
) -> FileState | None:
    """Return a file's state after its hunks and mode change, or refuse; ``path`` is where the result will be."""
    refused = len(attempt.refused)
    if executable is not None and executable == before.executable:
        message = f"already applied: is {'' if executable else 'not '}executable"
        attempt.refuse(path, Reason(message=message, hint=ABSORBED))
    contents = _apply_hunks(attempt, path, hunks, before.contents) if hunks else before.contents
    if hunks and contents == before.contents:
        attempt.refuse(path, _NOTHING_CHANGED)
    if contents is None or len(attempt.refused) > refused:
        return None
    return FileState(contents=contents, executable=before.executable if executable is None else executable)


def _apply_hunks(attempt: _Attempt, path: bytes, hunks: Sequence[Hunk], contents: bytes) -> bytes | None:
    """Return the contents after all hunks; refuse every hunk that has no place, and then return None."""
    lines = split_lines(contents)
    places = Places(lines)
    out: list[bytes] = []
    floor, drift, grown = 0, 0, 0
    refused = False
    for number, hunk in enumerate(hunks, 1):
        found = place(hunk, lines, floor=floor, drift=drift)
        if not isinstance(found, Placed):
            attempt.refuse(path, why_not(hunk, places, floor=floor, found=found), hunk=number)
            refused = True
            continue
        out += lines[floor : found.index]
        out += hunk.new
        floor, drift = found.index + len(hunk.old), found.offset
        attempt.landed.append(
            Landed(
                operation=attempt.operation,
                path=path,
                hunk=number,
                line=found.index + grown + 1,
                before=found.index + 1,
                offset=found.offset,
            )
        )
        grown += len(hunk.new) - len(hunk.old)
    out += lines[floor:]
    return None if refused else b"".join(out)


def _above(path: bytes) -> Iterator[bytes]:
    return (above for above in parents(path) if above)


def _kind(state: FileState | Symlink | Directory) -> str:
    match state:
        case FileState():
            return "a file"
        case Symlink():
            return "a symbolic link"
        case Directory():
            return "a folder"
        case _:
            assert_never(state)


_NOTHING_CHANGED = Reason(message="the operation applies, and changes nothing", hint=REFRESH)
