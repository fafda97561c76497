# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.canonical import sha256
from derive.store.memory import MemoryStore
from derive.store.protocol import CHUNK, located, read_all
from derive.trees.listing import DIRECTORY, File, Listing, Location, Symlink
from derive.trees.pack import NewFile, add_members


def test_a_file_is_read_whole_across_chunks() -> None:
    store = MemoryStore()
    data = bytes(CHUNK) + b"end"
    file = add_members(store, [(b"a", NewFile(executable=False, chunks=[data]))])[b"a"]
    assert isinstance(file, File)
    assert read_all(store, file) == data


def test_the_files_of_a_listing_are_given_with_their_places() -> None:
    at = Location(sha256(b"pack"), 1, 2)
    file = File(executable=False, size=2, sha256=sha256(b"ab"), at=at)
    listing = Listing.of([(b"a/b", file), (b"c", Symlink(b"a")), (b"d", DIRECTORY)])
    assert list(located(listing)) == [(b"a/b", file, at)]


def test_a_file_without_a_place_is_named() -> None:
    listing = Listing.of({b"a/b": File(executable=False, size=0, sha256=sha256(b""))})
    with pytest.raises(ValueError, match="a/b"):
        list(located(listing))
