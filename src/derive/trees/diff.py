# SPDX-License-Identifier: Apache-2.0
"""What moved between two trees, path by path, and where two streams of bytes first part.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from derive.trees.listing import Entry, File, Listing, Symlink, nar_key

Kind: TypeAlias = Literal["type", "executable", "target", "contents"]


@dataclass(frozen=True, slots=True)
class Added:
    """A path that only the second tree has."""

    path: bytes
    entry: Entry


@dataclass(frozen=True, slots=True)
class Removed:
    """A path that only the first tree has."""

    path: bytes
    entry: Entry


@dataclass(frozen=True, slots=True)
class Changed:
    """A path that both have, and one fact of it that differs; a file may differ in its execute bit and in contents."""

    path: bytes
    kind: Kind
    before: Entry
    after: Entry


Change: TypeAlias = Added | Removed | Changed


def diff(before: Listing, after: Listing) -> tuple[Change, ...]:
    """Return every difference in NAR order; empty exactly when the trees are equal."""
    changes: list[Change] = []
    for path in sorted(before.keys() | after.keys(), key=nar_key):
        old, new = before.get(path), after.get(path)
        if old is None and new is not None:
            changes.append(Added(path, new))
        elif new is None and old is not None:
            changes.append(Removed(path, old))
        elif old is not None and new is not None:
            changes.extend(Changed(path, kind, old, new) for kind in _kinds(old, new))
    return tuple(changes)


def _kinds(old: Entry, new: Entry) -> Iterator[Kind]:
    if type(old) is not type(new):
        yield "type"
    elif isinstance(old, Symlink) and old != new:
        yield "target"
    elif isinstance(old, File) and isinstance(new, File):
        if old.executable != new.executable:
            yield "executable"
        if (old.size, old.sha256) != (new.size, new.sha256):
            yield "contents"


def first_difference(before: Iterable[bytes], after: Iterable[bytes]) -> int | None:
    """Return the offset in bytes at which two streams first differ, or None when they are equal.

    Where one is a beginning of the other, the offset is the shorter one's length. Chunks may be cut anywhere.
    """
    offset = 0
    left, right = iter(before), iter(after)
    ours, theirs = memoryview(b""), memoryview(b"")
    while True:
        ours, theirs = ours or _next(left), theirs or _next(right)
        size = min(len(ours), len(theirs))
        if size == 0:
            return None if len(ours) == len(theirs) else offset
        if ours[:size] != theirs[:size]:
            return offset + _first(ours[:size], theirs[:size])
        offset += size
        ours, theirs = ours[size:], theirs[size:]


def _next(chunks: Iterator[bytes]) -> memoryview:
    return memoryview(next((chunk for chunk in chunks if chunk), b""))


def _first(ours: memoryview, theirs: memoryview) -> int:
    """Return where two views of one length, which differ, first do: by halving."""
    low, high = 0, len(ours)
    while high - low > 1:
        middle = (low + high) // 2
        if ours[low:middle] == theirs[low:middle]:
            low = middle
        else:
            high = middle
    return low
