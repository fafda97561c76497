# SPDX-License-Identifier: Apache-2.0
"""Which patches of two series are one patch: those that say the same, then those of one name, then those that look it.

Core: no IO.

Two patches look like one when they share lines that they change, or change the same lines of one file. That they stand
at one place of the two series, or touch one file, says nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeAlias, assert_never

from derive.canonical import Digest
from derive.patches.model import Copy, Create, Delete, FileOperation, Hunk, Modify, Rename, SetExecutable, hunks_of

_ALIKE = 0.5
_LONGEST = 4000  # characters of a hunk that are compared one by one


@dataclass(frozen=True, slots=True)
class Numbered:
    """A patch of a series: its name there, its number from 1, what it does, and the digest of that.

    ``label`` is the name that the project's files tell, if they do.
    """

    name: str
    number: int
    key: Digest
    operations: tuple[FileOperation, ...]
    label: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two states of one patch; ``moved`` when it has another place among the patches that both series have."""

    before: Numbered
    after: Numbered
    moved: bool


def pairs(old: Sequence[Numbered], new: Sequence[Numbered]) -> tuple[Pair, ...]:
    """Return the patches that both series have, in the order of the second."""
    left, right = ({one.number: one for one in side} for side in (old, new))
    found: dict[int, Numbered] = {}
    for likeness in (_in_order, _of_one_key, _of_one_name, _of_one_look):
        for one, two in likeness(tuple(left.values()), tuple(right.values())):
            if one.number in left and two.number in right:
                found[two.number] = left.pop(one.number)
                del right[two.number]
    stay = _rising([found[number].number for number in sorted(found)])
    return tuple(
        Pair(found[two.number], two, found[two.number].number not in stay) for two in new if two.number in found
    )


_Sides: TypeAlias = Iterable[tuple[Numbered, Numbered]]


def _in_order(old: Sequence[Numbered], new: Sequence[Numbered]) -> _Sides:
    keys = [one.key for one in old], [two.key for two in new]
    for a, b, size in SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks():
        yield from zip(old[a : a + size], new[b : b + size], strict=True)


def _of_one_key(old: Sequence[Numbered], new: Sequence[Numbered]) -> _Sides:
    return [(one, two) for two in new for one in old if one.key == two.key]


def _of_one_name(old: Sequence[Numbered], new: Sequence[Numbered]) -> _Sides:
    return [(one, two) for two in new for one in old if one.label and one.label == two.label]


def _of_one_look(old: Sequence[Numbered], new: Sequence[Numbered]) -> _Sides:
    looks = [_look(one) for one in old], [_look(two) for two in new]
    found = [(_likeness(looks[0][a], looks[1][b]), one, two) for b, two in enumerate(new) for a, one in enumerate(old)]
    alike = sorted((item for item in found if item[0] >= _ALIKE), key=lambda item: -item[0])
    return [(one, two) for _, one, two in alike]


@dataclass(frozen=True, slots=True)
class _Piece:
    """The changed lines of a hunk: of which file, from which old line to which, and their text."""

    path: bytes
    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class _Look:
    """What a patch does, in parts that may be found in another: lines by file and sign, whole files, places."""

    lines: Counter[tuple[bytes, str, bytes]]
    files: frozenset[tuple[object, ...]]
    pieces: tuple[_Piece, ...]


def _look(patch: Numbered) -> _Look:
    lines: Counter[tuple[bytes, str, bytes]] = Counter()
    files: set[tuple[object, ...]] = set()
    pieces: list[_Piece] = []
    for operation in patch.operations:
        match operation:
            case Create(path=path, contents=contents):
                files.add(("create", path))
                lines.update((path, "+", line) for line in _telling(contents.split(b"\n")))
            case Delete(path=path, contents=contents):
                files.add(("delete", path))
                lines.update((path, "-", line) for line in _telling(contents.split(b"\n")))
            case SetExecutable(path=path):
                files.add(("bit", path))
            case Modify(path=path, hunks=hunks):
                files |= set() if hunks else {("bit", path)}
                pieces += [_piece(path, hunk) for hunk in hunks]
            case Rename(old=old, new=path, hunks=hunks) | Copy(old=old, new=path, hunks=hunks):
                files.add((type(operation).__name__, old, path))
                pieces += [_piece(path, hunk) for hunk in hunks]
            case _:
                assert_never(operation)
        for hunk in hunks_of(operation):
            for tag in ("-", "+"):
                texts = [line.content for line in hunk.lines if line.tag == tag]
                lines.update((path, tag, text) for text in _telling(texts))
    return _Look(lines, frozenset(files), tuple(pieces))


def _telling(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that hold a word: a bracket alone is in every patch."""
    return (line.strip() for line in lines if any(letter > 127 or chr(letter).isalnum() for letter in line))


def _piece(path: bytes, hunk: Hunk) -> _Piece:
    changed = [line for line in hunk.lines if line.tag != " "]
    first = hunk.start + hunk.leading
    last = hunk.start + len(hunk.old) - hunk.trailing
    text = "".join(line.tag + line.content.decode("latin-1") for line in changed)
    return _Piece(path, first, last, text[:_LONGEST])


def _likeness(one: _Look, two: _Look) -> float:
    """Return how sure it is that two patches are one, from 0 to 1."""
    least = min(one.lines.total(), two.lines.total())
    shared = (one.lines & two.lines).total() / least if least else 0.0
    if shared >= _ALIKE:
        return shared
    if one.files & two.files:
        return _ALIKE
    return max((_alike(a, b) for a in one.pieces for b in two.pieces), default=0.0)


def _alike(one: _Piece, two: _Piece) -> float:
    """Return how alike the changes of the same lines of one file are."""
    if one.path != two.path or max(one.first, two.first) > min(one.last, two.last):
        return 0.0
    return SequenceMatcher(None, one.text, two.text, autojunk=False).ratio()


def _rising(numbers: Sequence[int]) -> frozenset[int]:
    """Return the members of a longest rising part of some numbers: the fewest others have moved."""
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for number in numbers:
        place = bisect_left(ends, number)
        before[number] = ends[place - 1] if place else None
        ends[place : place + 1] = [number]
    found: set[int] = set()
    last = ends[-1] if ends else None
    while last is not None:
        found.add(last)
        last = before[last]
    return frozenset(found)
