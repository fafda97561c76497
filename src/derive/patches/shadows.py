# SPDX-License-Identifier: Apache-2.0
"""Which patches leave no trace at the end of their series, because later ones undo or overwrite all that they do.

Core: no IO.

Every line that a patch writes is followed to the end of the series; nothing is compared by likeness. What cannot be
told for certain counts as a trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby
from typing import Literal, TypeAlias, assert_never

from derive.patches.apply import States, try_patch
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
    hunks_of,
    reads,
    removes,
    split_lines,
    writes,
)
from derive.patches.proof import Landed

Fate: TypeAlias = Literal["alive", "undone", "overwritten"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    """A patch without a trace. ``by`` are the later patches that saw to it; ``undone``: they put back what was."""

    by: tuple[int, ...]
    undone: bool


@dataclass(slots=True, eq=False)
class _File:
    """A file through renames: a number for each of its lines. Two are one only when they are the same object."""

    lines: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edit:
    """Lines that one patch replaced: ``base`` are the file's lines after it, ``start`` to ``end`` the new ones."""

    base: Sequence[int]
    start: int
    end: int
    removed: tuple[bytes, ...]
    file: _File


@dataclass(slots=True)
class _Trace:
    """What one patch did, each with the file that it did it to."""

    edits: list[_Edit] = field(default_factory=list)
    bits: list[tuple[_File, bool]] = field(default_factory=list)
    made: list[_File] = field(default_factory=list)
    moved: list[tuple[bytes, bytes, _File]] = field(default_factory=list)
    deleted: list[tuple[bytes, FileState]] = field(default_factory=list)


def shadows(series: Sequence[Sequence[FileOperation]], read: Read) -> Mapping[int, Shadow]:
    """Return the patches without a trace by their index; each must apply to what those before it left."""
    touched = [{path for one in patch for path in (reads(one), writes(one), removes(one)) if path} for patch in series]
    if not any(mine & theirs for at, mine in enumerate(touched) for theirs in touched[at + 1 :]):
        return {}
    follower = _Follower(read)
    for index, operations in enumerate(series):
        follower.follow(index, operations)
    return dict(follower.shadows())


class _Follower:
    """The files that a series touches, and where each of their lines came from and went."""

    def __init__(self, read: Read) -> None:
        self._states = States(read)
        self._numbers = count()
        self._files: dict[bytes, _File] = {}
        self._traces: dict[int, _Trace] = {}
        self._writer: dict[int, int] = {}
        self._remover: dict[int, int] = {}
        self._last: dict[_File, int] = {}
        self._flipper: dict[_File, int] = {}

    def follow(self, index: int, operations: Sequence[FileOperation]) -> None:
        """Take in what the next patch does."""
        tried = try_patch(operations, self._states.at)
        before = {path: self._file(path) for one in operations if (path := reads(one)) is not None}
        lines = {path: file.lines for path, file in before.items()}
        self._traces[index] = _Trace()
        after: dict[bytes, _File | None] = {path: None for one in operations if (path := removes(one)) is not None}
        for number, operation in enumerate(operations):
            places = [one for one in tried.landed if one.operation == number]
            made = self._made(index, operation, before, lines, places)
            path = writes(operation)
            if path is not None and made is not None:
                after[path] = made
        self._files.update((path, file) for path, file in after.items() if file is not None)
        for path in [path for path, file in after.items() if file is None]:
            del self._files[path]
        self._states.update(tried.after)

    def _file(self, path: bytes) -> _File:
        if path not in self._files:
            self._files[path] = _File([next(self._numbers) for _ in self._lines(path)])
        return self._files[path]

    def _lines(self, path: bytes) -> list[bytes]:
        state = self._states.at(path)
        return split_lines(state.contents) if isinstance(state, FileState) else []

    def _made(
        self,
        index: int,
        operation: FileOperation,
        before: Mapping[bytes, _File],
        lines: Mapping[bytes, list[int]],
        places: Sequence[Landed],
    ) -> _File | None:
        """Return the file that an operation leaves, and note what it did."""
        trace = self._traces[index]
        file: _File
        match operation:
            case Create(contents=contents):
                file = _File([self._new(index) for _ in split_lines(contents)])
                trace.made.append(file)
                return file
            case Delete(path=path):
                state = self._states.at(path)
                assert isinstance(state, FileState)
                trace.deleted.append((path, state))
                self._last[before[path]] = index
                self._remove(index, before[path].lines)
                return None
            case Modify() | SetExecutable():
                file = before[operation.path]
            case Rename(old=old, new=new):
                file = before[old]
                trace.moved.append((old, new, file))
            case Copy(old=old):
                file = _File(lines[old])
                trace.made.append(file)
            case _:
                assert_never(operation)
        self._last[file] = index
        if operation.executable is not None:
            trace.bits.append((file, operation.executable))
            self._flipper[file] = index
        self._edit(index, file, hunks_of(operation), places)
        return file

    def _edit(self, index: int, file: _File, hunks: Sequence[Hunk], places: Sequence[Landed]) -> None:
        base: list[int] = []
        found: list[tuple[int, int, tuple[bytes, ...]]] = []
        at = 0
        for hunk, place in zip(hunks, places, strict=True):
            base += file.lines[at : place.before - 1]
            at = place.before - 1
            for kept, group in groupby(hunk.lines, key=lambda line: line.tag == " "):
                lines = list(group)
                removed = tuple(line.content for line in lines if line.tag != "+")
                if kept:
                    base += file.lines[at : at + len(lines)]
                else:
                    self._remove(index, file.lines[at : at + len(removed)])
                    new = [self._new(index) for line in lines if line.tag == "+"]
                    found.append((len(base), len(base) + len(new), removed))
                    base += new
                at += len(removed)
        # A new list each time: what earlier patches did is told by the lists that they left.
        file.lines = base + file.lines[at:]
        self._traces[index].edits += [
            _Edit(base=file.lines, start=start, end=end, removed=removed, file=file) for start, end, removed in found
        ]

    def _new(self, index: int) -> int:
        number = next(self._numbers)
        self._writer[number] = index
        return number

    def _remove(self, index: int, lines: Sequence[int]) -> None:
        self._remover.update(dict.fromkeys(lines, index))

    def shadows(self) -> Iterator[tuple[int, Shadow]]:
        """Yield the patches whose traces are gone."""
        ending = _Ending(self._states, self._files, self._writer, self._remover, self._last, self._flipper)
        for index, trace in self._traces.items():
            fates = list(ending.fates(trace))
            by = {who for _, all_of_them in fates for who in all_of_them if who > index}
            if by and all(fate != "alive" for fate, _ in fates):
                yield index, Shadow(by=tuple(sorted(by)), undone=all(fate == "undone" for fate, _ in fates))


class _Ending:
    """The end of a series: which lines are left, and where."""

    def __init__(
        self,
        states: States,
        files: Mapping[bytes, _File],
        writer: Mapping[int, int],
        remover: Mapping[int, int],
        last: Mapping[_File, int],
        flipper: Mapping[_File, int],
    ) -> None:
        self._states = states
        self._paths = {file: path for path, file in files.items()}
        self._writer = writer
        self._remover = remover
        self._last = last
        self._flipper = flipper
        self._homes: dict[int, _File] = {}
        self._places: dict[_File, dict[int, int]] = {}
        for file in self._paths:
            self._places[file] = {line: at for at, line in enumerate(file.lines)}
            self._homes.update(dict.fromkeys(file.lines, file))

    def fates(self, trace: _Trace) -> Iterator[tuple[Fate, set[int]]]:
        """Yield what became of each thing that a patch did, and through which patches."""
        for made in trace.made:
            yield ("alive" if made in self._paths else "undone"), self._who(made)
        for old, new, file in trace.moved:
            now = self._paths.get(file)
            yield ("alive" if now == new else "undone" if now == old else "overwritten"), self._who(file)
        for file, bit in trace.bits:
            state = self._states.at(self._paths[file]) if file in self._paths else None
            same = isinstance(state, FileState) and state.executable == bit
            yield (
                ("overwritten" if state is None else "alive" if same else "undone"),
                {self._last[file] if state is None else self._flipper[file]},
            )
        for path, before in trace.deleted:
            state = self._states.at(path)
            if not isinstance(state, FileState):
                yield "alive", set()
                continue
            by = {self._writer[line] for file, at in self._paths.items() if at == path for line in file.lines}
            yield ("undone" if state == before else "overwritten"), by
        for edit in trace.edits:
            yield self._edited(edit)

    def _who(self, file: _File) -> set[int]:
        return {self._last[file]} if file in self._last else set()

    def _edited(self, edit: _Edit) -> tuple[Fate, set[int]]:
        written = edit.base[edit.start : edit.end]
        if any(line in self._homes for line in written):
            return "alive", set()
        by = {self._remover[line] for line in written if line in self._remover}
        if edit.file not in self._paths and edit.file in self._last:
            return "overwritten", by | self._who(edit.file)
        between = self._between(edit)
        if between is None:
            return "alive", set()
        restored = self._restored(edit.removed, *between, by)
        if restored is not None:
            return "undone", by | restored
        if written:
            return "overwritten", by
        around = [*edit.base[max(edit.start - 1, 0) : edit.start], *edit.base[edit.end : edit.end + 1]]
        if len(around) == 2 and not any(line in self._homes for line in around):
            return "overwritten", {self._remover[line] for line in around}
        return "alive", set()

    def _restored(
        self, removed: Sequence[bytes], lines: Sequence[bytes], numbers: Sequence[int], by: set[int]
    ) -> set[int] | None:
        """Return who put lines back among those at their place, None when they are not.

        Other lines may have come there too, but not from those who took the new lines out or put the old ones back:
        they would have replaced them.
        """
        for at in range(len(lines) - len(removed) + 1):
            if list(lines[at : at + len(removed)]) == list(removed):
                back = {self._writer[one] for one in numbers[at : at + len(removed)] if one in self._writer}
                others = [*numbers[:at], *numbers[at + len(removed) :]]
                if not any(self._writer.get(one) in by | back for one in others):
                    return back
        return None

    def _between(self, edit: _Edit) -> tuple[list[bytes], list[int]] | None:
        """Return the lines now, and their numbers, between the nearest lines around an edit that are left."""
        places = self._places.get(edit.file)
        if places is None:
            return None
        before = next((places[line] for line in reversed(edit.base[: edit.start]) if line in places), -1)
        after = next((places[line] for line in edit.base[edit.end :] if line in places), len(edit.file.lines))
        state = self._states.at(self._paths[edit.file])
        lines = split_lines(state.contents) if isinstance(state, FileState) else []
        return lines[before + 1 : after], edit.file.lines[before + 1 : after]
