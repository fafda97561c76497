# SPDX-License-Identifier: Apache-2.0
"""How a tree travels: large contents as blobs of their own, small ones in packs that other trees are likely to share.

Core: no IO.

A pack ends where the hash of a file's contents says so, not after so many bytes: two trees that differ in one file have
all their packs in common but one. Contents that lie in the store as a deflate stream travel as that stream.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from derive.canonical import Digest
from derive.trees.listing import Entry, File, Listing, Location

LARGE = 1 << 20
"""Bytes from which on contents are a blob of their own: their SHA-256 names it, wherever they came from."""
LARGEST_PACK = 4 << 20
_CUT = 48
_SMALLEST_GAIN = 10
_WORTH_PACKING = 128


@dataclass(frozen=True, slots=True)
class Group:
    """Contents that travel in one blob, in this order, each once; one large file, or several small ones."""

    files: tuple[File, ...]

    @property
    def is_large(self) -> bool:
        """Say whether it is one large file, which is never packed."""
        return len(self.files) == 1 and _stored(self.files[0]) >= LARGE

    @property
    def size(self) -> int:
        """Bytes as they lie in the store."""
        return sum(map(_stored, self.files))


def groups_of(listing: Listing) -> tuple[Group, ...]:
    """Cut a tree's contents into groups, in NAR order."""
    seen: set[Digest] = set()
    small: list[File] = []
    packed = 0
    found: list[Group] = []
    for _, file in listing.files():
        if file.sha256 in seen:
            continue
        seen.add(file.sha256)
        size = _stored(file)
        if size >= LARGE:
            found.append(Group((file,)))
            continue
        if packed + size > LARGEST_PACK:
            found.append(Group(tuple(small)))
            small, packed = [], 0
        small.append(file)
        packed += size
        if int(file.sha256.hex[:4], 16) % _CUT == 0:
            found.append(Group(tuple(small)))
            small, packed = [], 0
    if small:
        found.append(Group(tuple(small)))
    return tuple(found)


def pack(parts: Sequence[tuple[File, bytes]]) -> tuple[bytes, tuple[tuple[int, int, str], ...]]:
    """Write contents one after another, each with the bytes that the store has of it.

    Returns:
        The pack, and of each file its offset, its size there, and its method.
    """
    body = bytearray()
    places: list[tuple[int, int, str]] = []
    for file, data in parts:
        assert file.at is not None
        stored, method = data, str(file.at.method)
        if method == "raw" and len(data) >= _WORTH_PACKING:
            squeezed = zlib.compress(data, 6, -15)
            if len(squeezed) * _SMALLEST_GAIN <= len(data) * (_SMALLEST_GAIN - 1):
                stored, method = squeezed, "deflate"
        places.append((len(body), len(stored), method))
        body += stored
    return bytes(body), tuple(places)


def placed(listing: Listing, places: Mapping[Digest, Location]) -> Listing:
    """Return a tree whose files lie where ``places``, by the hash of their contents, say."""
    return Listing.of({path: _at(entry, places) for path, entry in listing.items()})


def contents_size(listing: Listing) -> int:
    """Return the bytes of a tree's contents, each counted once."""
    return sum({file.sha256: file.size for _, file in listing.files()}.values())


def sizes_bound(size_bytes: int) -> int:
    """Return the most bytes that an output of so many bytes of contents may take to bring: the listing is no content.

    A registry that serves more than that serves something else.
    """
    return size_bytes + (64 << 20)


def _stored(file: File) -> int:
    return file.at.size if file.at is not None else file.size


def _at(entry: Entry, places: Mapping[Digest, Location]) -> Entry:
    return replace(entry, at=places[entry.sha256]) if isinstance(entry, File) else entry
