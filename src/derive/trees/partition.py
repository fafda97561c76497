# SPDX-License-Identifier: Apache-2.0
"""A tree cut into trees that share no file: each leaf stands in exactly one, with the folders above it.

Core: no IO.

A leaf is a file, a link, or a folder in which nothing is. Leaves alone decide a tree: any other folder is above one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from derive.trees.listing import EMPTY, Directory, Entry, Listing


def leaves(listing: Listing) -> Iterator[tuple[bytes, Entry]]:
    """Yield the leaves of a tree in NAR order; the root of an empty tree is none."""
    waiting: tuple[bytes, Entry] | None = None
    for path, entry in listing.items():
        if waiting is not None and not path.startswith(waiting[0] + b"/"):
            yield waiting
        waiting = None
        if not isinstance(entry, Directory):
            yield path, entry
        elif path:
            waiting = path, entry  # empty, unless what comes next lies in it
    if waiting is not None:
        yield waiting


def partition(listing: Listing, place: Callable[[bytes, Entry], str], names: Collection[str]) -> dict[str, Listing]:
    """Return the trees into which ``place`` puts the leaves, one for each of ``names``, the empty ones among them.

    Raises:
        KeyError: when a leaf is put into none of these.
    """
    found: dict[str, list[tuple[bytes, Entry]]] = {name: [] for name in names}
    for path, entry in leaves(listing):
        found[place(path, entry)].append((path, entry))
    return {name: Listing.of(entries) for name, entries in found.items()}


def without(listing: Listing, elsewhere: Mapping[bytes, Entry]) -> Listing:
    """Return a tree without the leaves that another tree has at their paths, and without folders that held only those.

    A folder beside a folder is nothing that only one tree may have.
    """

    def stays(path: bytes, entry: Entry) -> bool:
        return path not in elsewhere or (isinstance(entry, Directory) and isinstance(elsewhere[path], Directory))

    kept = [(path, entry) for path, entry in leaves(listing) if stays(path, entry)]
    return Listing.of(kept) if kept else EMPTY


def given_twice(parts: Iterable[Listing]) -> Listing:
    """Return the files and links that several parts give, all alike; what they give differently is left to each."""
    once: dict[bytes, Entry] = {}
    twice: dict[bytes, Entry] = {}
    for part in parts:
        for path, entry in part.items():
            if isinstance(entry, Directory):
                continue
            if path not in once:
                once[path] = entry
            elif once[path] == entry:
                twice[path] = entry
    return Listing.of(twice)
