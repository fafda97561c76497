# SPDX-License-Identifier: Apache-2.0
"""A patch that does not apply, part by part: what the source has already, what is left to do, and what is in the way.

Core: no IO.

A part is in the source when undoing it would apply there, exactly: nothing is taken for done because it looks alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from derive.patches.apply import Refused, Tried, try_patch
from derive.patches.explain import Places, why_not
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
    Tag,
    split_lines,
)
from derive.patches.place import Placed, place

_OPPOSITE: dict[Tag, Tag] = {"+": "-", "-": "+", " ": " "}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A part of a patch, where it is in a file: a hunk and its 1-based line, or an operation that has no hunks."""

    path: bytes
    hunk: int | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A patch's parts. ``left`` are operations that apply and do what the source has not yet, ``open`` their places."""

    absorbed: tuple[Place, ...]
    left: tuple[FileOperation, ...]
    open: tuple[Place, ...]
    refused: tuple[Refused, ...]


def parts_of(operations: Sequence[FileOperation], tried: Tried, at: Read) -> Parts:
    """Sort a patch that was tried, and refused, against the states that ``at`` gives."""
    sorter = _Sorter(at)
    for index, operation in enumerate(operations):
        refused = [one for one in tried.refused if one.operation == index]
        if not refused:
            sorter.keep(operation)
        elif not sorter.takes(index, operation):
            sorter.refused += refused
    left = tuple(sorter.left)
    if not sorter.refused:
        again = try_patch(left, at)
        sorter.refused += again.refused
    return Parts(absorbed=tuple(sorter.absorbed), left=left, open=tuple(sorter.open), refused=tuple(sorter.refused))


def reversed_hunk(hunk: Hunk, start: int) -> Hunk:
    """Return the hunk that undoes another, at a line of the file after it."""
    return Hunk(start, tuple(Line(_OPPOSITE[line.tag], line.content) for line in hunk.lines))


class _Sorter:
    """What has been sorted so far."""

    def __init__(self, at: Read) -> None:
        self._at = at
        self.absorbed: list[Place] = []
        self.left: list[FileOperation] = []
        self.open: list[Place] = []
        self.refused: list[Refused] = []

    def keep(self, operation: FileOperation) -> None:
        """Take an operation that applies as it is."""
        self.left.append(operation)
        self.open += _places(operation)

    def takes(self, index: int, operation: FileOperation) -> bool:
        """Sort an operation that was refused; False when nothing of it is in the source, and its reasons stand."""
        match operation:
            case Create(path=path, contents=contents, executable=executable):
                return self._whole(path, self._at(path) == FileState(contents=contents, executable=executable))
            case Delete(path=path):
                return self._whole(path, self._at(path) is None)
            case SetExecutable(path=path, executable=executable):
                state = self._at(path)
                return self._whole(path, isinstance(state, FileState) and state.executable == executable)
            case Modify(path=path, hunks=hunks, executable=executable):
                return self._file(index, path, hunks, executable)
            case Rename(old=old, new=new, hunks=hunks, executable=executable):
                moved = self._at(old) is None and isinstance(self._at(new), FileState)
                return self._whole(new, moved) and self._file(index, new, hunks, executable)
            case Copy(old=old, new=new, hunks=hunks, executable=executable):
                copied = isinstance(self._at(new), FileState) and self._is_copy(old, new, hunks)
                return self._whole(new, copied) and self._file(index, new, hunks, executable)
            case _:
                assert_never(operation)

    def _whole(self, path: bytes, done: bool) -> bool:
        if done:
            self.absorbed.append(Place(path=path))
        return done

    def _is_copy(self, old: bytes, new: bytes, hunks: Sequence[Hunk]) -> bool:
        """Whether what is at the new place shows that it was copied: the same contents, or a hunk of the patch."""
        state, source = self._at(new), self._at(old)
        if not isinstance(state, FileState) or not hunks:
            return isinstance(state, FileState) and isinstance(source, FileState) and state.contents == source.contents
        found = _sort_hunks(0, new, hunks, split_lines(state.contents))
        return any(isinstance(one, Place) for one in found)

    def _file(self, index: int, path: bytes, hunks: Sequence[Hunk], executable: bool | None) -> bool:
        state = self._at(path)
        if not isinstance(state, FileState):
            return False
        found = list(_sort_hunks(index, path, hunks, split_lines(state.contents)))
        self.absorbed += [one for one in found if isinstance(one, Place)]
        self.refused += [one for one in found if isinstance(one, Refused)]
        left = [one for one in found if isinstance(one, _Left)]
        self.open += [one.place for one in left]
        bit = executable
        if executable is not None and executable == state.executable:
            self.absorbed.append(Place(path=path))
            bit = None
        elif executable is not None:
            self.open.append(Place(path=path))
        if left:
            self.left.append(Modify(path=path, hunks=tuple(one.hunk for one in left), executable=bit))
        elif bit is not None:
            self.left.append(SetExecutable(path=path, executable=bit))
        return True


@dataclass(frozen=True, slots=True)
class _Left:
    """A hunk that applies, written for the very line at which it does."""

    place: Place
    hunk: Hunk


def _sort_hunks(
    index: int, path: bytes, hunks: Sequence[Hunk], lines: list[bytes]
) -> Iterator[Place | Refused | _Left]:
    """Yield what each hunk of a file is, going down the file as applying does."""
    places = Places(lines)
    floor = drift = grown = 0
    for number, hunk in enumerate(hunks, 1):
        stated = replace(hunk, start=hunk.start + grown if hunk.old else 0)
        forward = place(stated, lines, floor=floor, drift=drift)
        if isinstance(forward, Placed):
            at = Place(path=path, hunk=number, line=forward.index + 1)
            yield _Left(at, replace(hunk, start=forward.index + 1 if hunk.old else 0))
            floor, drift = forward.index + len(hunk.old), forward.offset
            continue
        undone = reversed_hunk(hunk, hunk.start + grown or int(bool(hunk.new)))
        back = place(undone, lines, floor=floor, drift=drift)
        index_or_none = back.index if isinstance(back, Placed) else _only(back.usable)
        if index_or_none is None:
            reason = why_not(stated, places, floor=floor, found=forward)
            yield Refused(operation=index, path=path, hunk=number, reason=reason)
            continue
        yield Place(path=path, hunk=number, line=index_or_none + 1)
        floor = index_or_none + len(hunk.new)
        drift = index_or_none + 1 - undone.start
        grown += len(hunk.new) - len(hunk.old)


def _only(usable: Sequence[int]) -> int | None:
    return usable[0] if len(usable) == 1 else None


def _places(operation: FileOperation) -> Iterator[Place]:
    match operation:
        case Modify(path=path, hunks=hunks, executable=executable):
            yield from (Place(path=path, hunk=number) for number in range(1, len(hunks) + 1))
            if executable is not None:
                yield Place(path=path)
        case Rename(new=path, hunks=hunks) | Copy(new=path, hunks=hunks):
            yield Place(path=path)
            yield from (Place(path=path, hunk=number) for number in range(1, len(hunks) + 1))
        case Create(path=path) | Delete(path=path) | SetExecutable(path=path):
            yield Place(path=path)
        case _:
            assert_never(operation)
