# SPDX-License-Identifier: Apache-2.0
"""Patches applied to values: given the state of a path, return the state after it, exactly, or say why not.

Core: no IO.

No fuzz. A hunk that is not at its stated line is moved only to the one place that its whole old side fits; every
operation must change something. A patch applies whole or not at all, and a series stops at the first that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias, assert_never

from derive.canonical import escape
from derive.errors import InputErrors, Problem
from derive.patches.explain import REFRESH, Reason, difference, why_not
from derive.patches.model import (
    Copy,
    Create,
    Delete,
    FileOperation,
    Hunk,
    Modify,
    Rename,
    SetExecutable,
    reads,
    removes,
    split_lines,
    writes,
)
from derive.patches.place import Placed, place
from derive.trees.listing import DIRECTORY, Directory, Symlink, nar_key, parents


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """A regular file: its contents and owner-execute bit."""

    contents: bytes
    executable: bool = False


State: TypeAlias = FileState | Symlink | Directory | None
"""What is at a path; None when nothing is."""

Read: TypeAlias = Callable[[bytes], State]
"""Gives the state of a path before the series. Symbolic links are not followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A hunk that applied at another line than it says; for the log."""

    patch: str
    path: bytes
    hunk: int
    line: int
    offset: int

    def __str__(self) -> str:
        return (
            f"{self.patch}: {escape(self.path)}: hunk {self.hunk} applied at line {self.line} (moved {self.offset:+d})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The net result: the state of every path that is no longer as it was (None: deleted), in NAR order."""

    changes: Mapping[bytes, FileState | None]
    moved: tuple[Moved, ...]


@dataclass(slots=True)
class _States:
    """The states reached so far over those read: nothing is read twice, and nothing that no patch names."""

    read: Read
    before: dict[bytes, State] = field(default_factory=dict)
    now: dict[bytes, FileState | None] = field(default_factory=dict)

    def original(self, path: bytes) -> State:
        if path not in self.before:
            self.before[path] = self.read(path)
        return self.before[path]

    def at(self, path: bytes) -> State:
        state = self.now[path] if path in self.now else self.original(path)
        if state is None and any(p.startswith(path + b"/") and self.now[p] is not None for p in self.now):
            return DIRECTORY
        return state

    def changes(self) -> Mapping[bytes, FileState | None]:
        changed = {path: self.now[path] for path in sorted(self.now, key=nar_key)}
        return MappingProxyType({path: state for path, state in changed.items() if state != self.original(path)})


@dataclass(slots=True)
class _Attempt:
    """One patch being applied: what it would write, and every reason why it may not."""

    name: str
    states: _States
    after: dict[bytes, FileState | None] = field(default_factory=dict)
    moved: list[Moved] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, path: bytes, reason: Reason, *, hunk: int | None = None) -> None:
        where = f"{self.name}: {escape(path)}" + ("" if hunk is None else f": hunk {hunk}")
        self.problems.append(Problem(where=where, message=reason.message, detail=reason.detail, hint=reason.hint))


def apply_patch(operations: Sequence[FileOperation], read: Read, *, name: str = "patch") -> Applied:
    """Apply the operations of one patch; see :func:`apply_series`."""
    return apply_series((operations,), read, names=(name,))


def apply_series(series: Sequence[Sequence[FileOperation]], read: Read, *, names: Sequence[str] = ()) -> Applied:
    """Apply patches in order, each to what those before it left.

    ``names`` is how errors call the patches, for each one or for none: they are no part of what is applied.

    Raises:
        InputErrors: with every failing hunk and operation of the first patch that fails.
    """
    called = names or tuple(f"patch {number} of {len(series)}" for number in range(1, len(series) + 1))
    states = _States(read)
    moved: list[Moved] = []
    for index, (name, operations) in enumerate(zip(called, series, strict=True)):
        attempt = _Attempt(name, states)
        _try(attempt, operations)
        if attempt.problems:
            raise InputErrors(_placed_in_series(attempt.problems, index, len(series)))
        states.now.update(attempt.after)
        moved += attempt.moved
    return Applied(changes=states.changes(), moved=tuple(moved))


def _placed_in_series(problems: Sequence[Problem], index: int, count: int) -> list[Problem]:
    if count == 1:
        return list(problems)
    note = f"series    {index} of {count} patches applied before this one"
    return [Problem(where=p.where, message=p.message, detail=(*p.detail, note), hint=p.hint) for p in problems]


def _try(attempt: _Attempt, operations: Sequence[FileOperation]) -> None:
    gone = {path for path in map(removes, operations) if path is not None}
    results = [(writes(operation), _result(attempt, operation, gone)) for operation in operations]
    attempt.after.update(dict.fromkeys(gone))
    for path, made in results:
        if path is None or made is None:
            continue
        attempt.after[path] = made
        if made == attempt.states.at(path):
            attempt.refuse(path, _NOTHING_CHANGED)
    new = [path for path, made in attempt.after.items() if made is not None and attempt.states.at(path) is None]
    for path in new:
        for above in _above(path):
            state = attempt.after[above] if above in attempt.after else attempt.states.at(above)
            if isinstance(state, FileState | Symlink):
                attempt.refuse(path, Reason(message=f"{escape(above)}, which it lies below, is {_kind(state)}"))


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
    state = attempt.states.at(path)
    if isinstance(state, FileState):
        return state
    if state is not None:
        attempt.refuse(path, Reason(message=f"is {_kind(state)}, not a file"))
        return None
    for above in _above(path):
        over = attempt.states.at(above)
        if over is not None and not isinstance(over, Directory):
            attempt.refuse(path, Reason(message=f"does not exist: {escape(above)} is {_kind(over)}"))
            return None
    target = writes(operation)
    if isinstance(operation, Delete):
        reason = Reason(message="already applied: the file to delete does not exist", hint=_ABSORBED)
    elif isinstance(operation, Rename) and target is not None and isinstance(attempt.states.at(target), FileState):
        reason = Reason(message=f"already applied: does not exist, and {escape(target)} does", hint=_ABSORBED)
    else:
        reason = Reason(message="does not exist", hint="a patch that creates a file says so with --- /dev/null")
    attempt.refuse(path, reason)
    return None


def _is_free(attempt: _Attempt, path: bytes, made: FileState | None, gone: set[bytes]) -> bool:
    """Whether a file may be made at a path: nothing is there, or this patch removes it."""
    state = attempt.states.at(path)
    if state is None or (path in gone and isinstance(state, FileState)):
        return True
    if made is not None and state == made:
        reason = Reason(message="already applied: the file exists with these contents", hint=_ABSORBED)
    else:
        reason = Reason(message=f"exists already, as {_kind(state)}")
    attempt.refuse(path, reason)
    return False


def _changed(
    attempt: _Attempt, path: bytes, before: FileState, hunks: Sequence[Hunk], executable: bool | None
) -> FileState | None:
    """Return a file's state after its hunks and mode change, or refuse; ``path`` is where the result will be."""
    refused = len(attempt.problems)
    if executable is not None and executable == before.executable:
        message = f"already applied: is {'' if executable else 'not '}executable"
        attempt.refuse(path, Reason(message=message, hint=_ABSORBED))
    contents = _apply_hunks(attempt, path, hunks, before.contents) if hunks else before.contents
    if hunks and contents == before.contents:
        attempt.refuse(path, _NOTHING_CHANGED)
    if contents is None or len(attempt.problems) > refused:
        return None
    return FileState(contents=contents, executable=before.executable if executable is None else executable)


def _apply_hunks(attempt: _Attempt, path: bytes, hunks: Sequence[Hunk], contents: bytes) -> bytes | None:
    """Return the contents after all hunks; refuse every hunk that has no place, and then return None."""
    lines = split_lines(contents)
    out: list[bytes] = []
    floor, drift = 0, 0
    refused = False
    for number, hunk in enumerate(hunks, 1):
        found = place(hunk, lines, floor=floor, drift=drift)
        if not isinstance(found, Placed):
            attempt.refuse(path, why_not(hunk, lines, floor=floor, found=found), hunk=number)
            refused = True
            continue
        out += lines[floor : found.index]
        out += hunk.new
        floor, drift = found.index + len(hunk.old), found.offset
        if found.offset:
            line = found.index + 1
            attempt.moved.append(Moved(patch=attempt.name, path=path, hunk=number, line=line, offset=found.offset))
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


_ABSORBED = "delete the patch from the series if the source has absorbed it"
_NOTHING_CHANGED = Reason(message="the operation applies, and changes nothing", hint=REFRESH)
