# SPDX-License-Identifier: Apache-2.0
"""New trees from members: contents are written once, into a pack blob, and the listing points into it.

Core: no IO of its own; it writes through the store that it is given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from derive.canonical import Digest
from derive.store.protocol import Store
from derive.trees.listing import Directory, Entry, File, Listing, Location, Symlink


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is not in the store yet: its contents are consumed once, in order."""

    executable: bool
    chunks: Iterable[bytes]


Member = File | Symlink | Directory | NewFile
"""What a reader of archives yields for a path; a File is one whose location is known already."""


def add_members(store: Store, members: Iterable[tuple[bytes, Member]]) -> Listing:
    """Write the contents of all new files into one pack blob, and return the located listing.

    Members are consumed in the order given, each file's chunks before the next member is asked for, so that a
    stream can feed them. No tree is registered; see ``Store.add_listing``.
    """
    entries: dict[bytes, Entry] = {}
    placed: list[tuple[bytes, bool, int, int, Digest]] = []
    with store.blob_writer() as writer:
        for path, member in members:
            if isinstance(member, NewFile):
                start = writer.size
                hasher = hashlib.sha256()
                for chunk in member.chunks:
                    hasher.update(chunk)
                    writer.write(chunk)
                placed.append((path, member.executable, start, writer.size - start, Digest(hasher.hexdigest())))
            elif path in entries:
                raise ValueError(f"the same path twice: {path!r}")
            else:
                entries[path] = member
        pack = writer.commit() if placed else None
    for path, executable, offset, size, digest in placed:
        if path in entries or pack is None:
            raise ValueError(f"the same path twice: {path!r}")
        entries[path] = File(executable, size, digest, Location(pack, offset, size))
    return Listing.of(entries)
