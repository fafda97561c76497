# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from derive.canonical import sha256
from derive.errors import Corrupt
from derive.store.listings import blobs_of, dump_listing, load_listing
from derive.store.memory import MemoryStore
from derive.trees.listing import DIRECTORY, EMPTY, File, Listing, Location, Symlink
from derive.trees.nar import single
from derive.trees.pack import add_members
from support.folders import ODD, members_of

PACK, WHEEL = sha256(b"pack"), sha256(b"wheel")
MIXED = Listing.of(
    [
        (b"a", File(executable=True, size=3, sha256=sha256(b"abc"), at=Location(PACK, 5, 3))),
        (b"b/caf\xe9", File(executable=False, size=9, sha256=sha256(b"d"), at=Location(WHEEL, 40, 7, "deflate"))),
        (b"c", Symlink(b"50%\n")),
        (b"d", File(executable=False, size=0, sha256=sha256(b""), at=Location(PACK, 8, 0))),
        (b"e", DIRECTORY),
    ]
)


def at(listing: Listing) -> dict[bytes, Location | None]:
    return {path: file.at for path, file in listing.files()}


@pytest.mark.parametrize(
    "listing",
    [MIXED, EMPTY, single(Symlink(b"x")), MIXED.below(b"a"), add_members(MemoryStore(), members_of(ODD))],
    ids=["mixed", "empty", "link", "file", "odd"],
)
def test_a_listing_comes_back_with_its_locations_and_its_order(listing: Listing) -> None:
    loaded = load_listing(dump_listing(listing), "x")
    assert list(loaded.items()) == list(listing.items())
    assert at(loaded) == at(listing)


def test_the_file_is_this_text() -> None:
    assert json.loads(dump_listing(MIXED)) == {
        "derive": "listing/1",
        "blobs": [PACK.hex, WHEEL.hex],
        "entries": [
            [""],
            ["a", 1, 3, sha256(b"abc").hex, 0, 5, 3, "raw"],
            ["b"],
            ["b/caf%E9", 0, 9, sha256(b"d").hex, 1, 40, 7, "deflate"],
            ["c", "50%25%0A"],
            ["d", 0, 0, sha256(b"").hex, 0, 8, 0, "raw"],
            ["e"],
        ],
    }


def test_the_file_does_not_depend_on_the_order_in_which_entries_were_given() -> None:
    assert dump_listing(Listing.of(reversed(list(MIXED.items())))) == dump_listing(MIXED)


def test_a_file_that_lies_nowhere_cannot_be_kept() -> None:
    with pytest.raises(ValueError, match="no location"):
        dump_listing(single(File(executable=False, size=0, sha256=sha256(b""))))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"blobs":["zz"],"entries":[]}',
        b'{"blobs":[],"entries":[[]]}',
        b'{"blobs":[],"entries":[[1]]}',
        b'{"blobs":[],"entries":[["%41"]]}',
        b'{"blobs":[],"entries":[["a",0,1,"%s",0,0,1,"raw"]]}' % PACK.hex.encode(),
        b'{"blobs":[],"entries":[["a",0,1]]}',
        dump_listing(MIXED)[:-20],
    ],
    ids=lambda data: repr(data[:30]),
)
def test_anything_else_is_corrupt_and_names_the_tree_and_the_next_step(data: bytes) -> None:
    with pytest.raises(Corrupt, match="listing of tree 0123abc") as caught:
        load_listing(data, "0123abc")
    assert "remove that listing file" in str(caught.value.hint)


def test_the_blobs_of_a_listing_are_named_once() -> None:
    assert blobs_of(MIXED) == {PACK, WHEEL}
    assert blobs_of(EMPTY) == frozenset()
