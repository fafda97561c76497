# SPDX-License-Identifier: Apache-2.0
"""A patched tree is the old listing with a few entries replaced: nothing untouched is read, copied or hashed.

Core: no IO of its own; it reads and writes through the store that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from derive.canonical import sha256
from derive.patches.apply import Moved, apply_series
from derive.patches.model import FileOperation, FileState, Read, State
from derive.patches.proof import prove_tree
from derive.store.protocol import Store, read_all
from derive.trees.listing import Entry, File, Listing, parents
from derive.trees.pack import Member, NewFile, add_members


def patch_tree(
    store: Store, tree: Listing, series: Sequence[Sequence[FileOperation]], *, names: Sequence[str] = ()
) -> tuple[Listing, tuple[Moved, ...]]:
    """Return the tree after a series, located in the store and not yet registered, and the hunks that moved.

    ``names`` is how errors call the patches. A folder that a deletion leaves empty goes with its last file.

    Raises:
        InputErrors: with every failing hunk and operation of the first patch that does not apply.
        BuildFailed: when the result does not show every hunk, which is a fault of derive itself.
    """
    applied = apply_series(series, reader(store, tree), names=names)
    after = patched_listing(store, tree, applied.changes)
    prove_tree(tree, after, applied.changes)
    return after, applied.moved


def reader(store: Store, tree: Listing) -> Read:
    """Return what gives the state of each path of a stored tree."""

    def read(path: bytes) -> State:
        entry = tree.get(path)
        if not isinstance(entry, File):
            return entry
        return FileState(contents=read_all(store, entry), executable=entry.executable)

    return read


def patched_listing(store: Store, tree: Listing, changes: Mapping[bytes, FileState | None]) -> Listing:
    """Return a tree with files replaced, added or removed; their contents are written into one blob of the store."""
    entries: dict[bytes, Entry] = dict(tree)
    members: list[tuple[bytes, Member]] = []
    for path, state in changes.items():
        before = tree.get(path)
        if state is None:
            entries.pop(path, None)
        elif isinstance(before, File) and before.sha256 == sha256(state.contents):
            entries[path] = replace(before, executable=state.executable)
        else:
            members.append((path, NewFile(state.executable, (state.contents,))))
    if members:
        entries.update((path, entry) for path, entry in add_members(store, members).files())
    for folder in _emptied(tree, entries, changes):
        del entries[folder]
    return Listing.of(entries)


def _emptied(tree: Listing, entries: Mapping[bytes, Entry], changes: Mapping[bytes, FileState | None]) -> set[bytes]:
    """Return the folders that held something before, and nothing now."""
    suspects = {above for path, state in changes.items() if state is None for above in parents(path) if above}
    if not suspects:
        return set()
    kept = {above for path, entry in entries.items() if path not in suspects for above in parents(path)}
    return {folder for folder in suspects if folder in tree and folder not in kept}
