# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.canonical import Digest, sha256
from derive.store.closure_pack import Placed, place
from derive.store.memory import MemoryStore
from derive.trees.listing import File, Listing
from derive.trees.pack import NewFile, add_members

Files = Mapping[bytes, bytes]


def tree(store: MemoryStore, files: Files, *, backwards: bool = False) -> Listing:
    members = [(path, NewFile(executable=False, chunks=[data])) for path, data in files.items()]
    return add_members(store, reversed(members) if backwards else members)


def placed(*trees: Files, backwards: bool = False, artifacts: frozenset[Digest] = frozenset()) -> Placed:
    store = MemoryStore()
    listings = [tree(store, files, backwards=backwards) for files in trees]
    found = place(store, {store.add_listing(one): one for one in listings}, artifacts)
    for pack in found.packs:
        data = b"".join(pack.read(store))
        assert sha256(data) == pack.blob.digest
        assert len(data) == pack.blob.size
        _add(store, data)
    for digest, listing in found.listings.items():
        assert store.add_listing(listing) == digest
    return found


def _add(store: MemoryStore, data: bytes) -> None:
    with store.blob_writer() as writer:
        writer.write(data)
        writer.commit()


def test_how_a_store_packed_its_trees_decides_no_byte() -> None:
    files = {b"a": b"one", b"b/c": b"two", b"z": b""}
    assert placed(files).packs[0].blob == placed(files, backwards=True).packs[0].blob


def test_each_contents_is_held_once() -> None:
    found = placed({b"a": b"same", b"b": b"same", b"c": b"other"}, {b"x": b"same"})
    assert sum(pack.blob.size for pack in found.packs) == len(b"same") + len(b"other")


def test_nothing_but_the_trees_is_held() -> None:
    store = MemoryStore()
    whole = tree(store, {b"secret": b"secret", b"public": b"public"})
    part = Listing.of({b"public": whole[b"public"]})
    found = place(store, {store.add_listing(part): part}, frozenset())
    assert b"".join(found.packs[0].read(store)) == b"public"


def test_contents_in_an_artifact_are_read_from_there_in_every_tree() -> None:
    store = MemoryStore()
    packed = tree(store, {b"a": b"text", b"b": b"more"})
    (_, first), _ = packed.files()
    assert first.at is not None
    copy = tree(store, {b"copy": b"text", b"own": b"own"})
    trees = {store.add_listing(one): one for one in (packed, copy)}
    found = place(store, trees, frozenset([first.at.blob]))
    assert [pack.blob.size for pack in found.packs] == [len(b"own")]
    moved = found.listings[store.add_listing(copy)][b"copy"]
    assert isinstance(moved, File)
    assert moved.at == first.at


def test_a_tree_without_contents_needs_no_pack() -> None:
    assert placed({}).packs == ()


def test_a_tree_of_empty_files_alone_is_held() -> None:
    assert [pack.blob for pack in placed({b"a": b"", b"b": b""}).packs] != []


NAMES = st.sampled_from([b"a", b"b", b"c/d", b"c/e", b"\xff"])
FILES = st.dictionaries(NAMES, st.binary(max_size=4), max_size=5)


@given(st.lists(FILES, max_size=4), st.randoms(use_true_random=False))
def test_the_order_in_which_trees_were_made_decides_no_byte(trees: list[dict[bytes, bytes]], random: object) -> None:
    turned = list(trees)
    random.shuffle(turned)  # type: ignore[attr-defined]
    first, second = placed(*trees), placed(*turned, backwards=True)
    assert [pack.blob for pack in first.packs] == [pack.blob for pack in second.packs]
    assert [_places(one) for one in first.listings.values()] == [_places(one) for one in second.listings.values()]


def _places(listing: Listing) -> list[object]:
    return [(path, file.at) for path, file in listing.files()]


def test_contents_that_cannot_be_read_are_told() -> None:
    store = MemoryStore()
    listing = Listing.of({b"a": File(executable=False, size=1, sha256=sha256(b"x"))})
    with pytest.raises(Exception, match="location"):
        place(store, {sha256(b""): listing}, frozenset())
