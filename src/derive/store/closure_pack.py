# SPDX-License-Identifier: Apache-2.0
"""Where the contents of a closure's trees lie in its file: in what was fetched, else in one new pack for each tree.

Core: no IO of its own; it reads through the store that it is given.

A store places contents as they came. Here they are placed anew, so that the same closure gives the same bytes from any
store, and nothing but the closure leaves it: a pack of the store may hold a file that no tree of the closure has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from derive.canonical import Digest
from derive.store.closure import Sized
from derive.store.protocol import Store
from derive.trees.listing import Entry, File, Listing, Location


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A blob made of contents one after another, each as it lies in the store."""

    blob: Sized
    parts: tuple[File, ...]

    def read(self, store: Store) -> Iterator[bytes]:
        """Yield the pack's bytes."""
        for part in self.parts:
            yield from store.read(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Trees whose files lie in the artifacts and packs of a closure, and those packs."""

    listings: Mapping[Digest, Listing]
    packs: tuple[Pack, ...]


def place(store: Store, trees: Mapping[Digest, Listing], artifacts: AbstractSet[Digest]) -> Placed:
    """Place the contents of trees; ``artifacts`` are blobs that the closure holds anyway.

    A file that one of the trees has inside an artifact is read from there in all of them. Every other file goes into
    the pack of the first tree that has it: trees in the order of their digests, files in NAR order, each contents once.
    """
    places = _in_artifacts(trees, artifacts)
    packs: list[Pack] = []
    listings: dict[Digest, Listing] = {}
    for tree in sorted(trees):
        new: dict[Digest, File] = {}
        for _, file in trees[tree].files():
            if file.sha256 not in places:
                new.setdefault(file.sha256, file)
        if new:
            pack = _pack(store, tuple(new.values()))
            packs.append(pack)
            offset = 0
            for file in pack.parts:
                places[file.sha256] = Location(pack.blob.digest, offset, file.size)
                offset += file.size
        listings[tree] = Listing.of({path: _at(entry, places) for path, entry in trees[tree].items()})
    return Placed(listings=listings, packs=tuple(packs))


def _in_artifacts(trees: Mapping[Digest, Listing], artifacts: AbstractSet[Digest]) -> dict[Digest, Location]:
    found: dict[Digest, Location] = {}
    for listing in trees.values():
        for _, file in listing.files():
            at = file.at
            if at is None or at.blob not in artifacts:
                continue
            known = found.get(file.sha256)
            if known is None or _order(at) < _order(known):
                found[file.sha256] = at
    return found


def _order(at: Location) -> tuple[str, int, int, str]:
    return at.blob.hex, at.offset, at.size, at.method


def _pack(store: Store, parts: tuple[File, ...]) -> Pack:
    hasher = hashlib.sha256()
    size = 0
    for part in parts:
        for piece in store.read(part):
            hasher.update(piece)
            size += len(piece)
    return Pack(blob=Sized(digest=Digest(hasher.hexdigest()), size=size), parts=parts)


def _at(entry: Entry, places: Mapping[Digest, Location]) -> Entry:
    return replace(entry, at=places[entry.sha256]) if isinstance(entry, File) else entry
