# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest

from derive.canonical import sha256
from derive.store.memory import MemoryStore
from derive.store.protocol import read_all
from derive.trees.listing import DIRECTORY, File, ListingError, Location, Symlink
from derive.trees.pack import Member, NewFile, add_members
from support.folders import ODD, members_of


def new(*chunks: bytes, executable: bool = False) -> NewFile:
    return NewFile(executable, chunks)


def test_contents_stand_in_one_pack_in_the_order_given() -> None:
    store = MemoryStore()
    listing = add_members(store, [(b"b", new(b"be", b"e")), (b"a", new(b"a")), (b"c/d", new())])
    pack = sha256(b"beea")
    assert store.has_blob(pack)
    assert {path: file.at for path, file in listing.files()} == {
        b"a": Location(pack, 3, 1),
        b"b": Location(pack, 0, 3),
        b"c/d": Location(pack, 4, 0),
    }


def test_each_file_gets_its_size_its_hash_and_its_bit() -> None:
    listing = add_members(MemoryStore(), [(b"a", new(b"te", b"xt", executable=True))])
    assert listing[b"a"] == File(executable=True, size=4, sha256=sha256(b"text"))


def test_a_tree_of_everything_reads_back() -> None:
    store = MemoryStore()
    listing = add_members(store, members_of(ODD))
    for path, entry in ODD.items():
        found = listing[path]
        if isinstance(found, File):
            assert read_all(store, found) == entry.data  # type: ignore[union-attr]
        else:
            assert found == entry


def test_a_file_whose_place_is_known_is_not_written_again() -> None:
    store = MemoryStore()
    known = File(executable=False, size=1, sha256=sha256(b"x"), at=Location(sha256(b"other"), 9, 1))
    listing = add_members(store, [(b"a", known), (b"b", new(b"x"))])
    found = listing[b"a"]
    assert isinstance(found, File)
    assert found.at == known.at
    assert store.has_blob(sha256(b"x"))


def test_no_pack_is_made_without_new_files() -> None:
    store = MemoryStore()
    listing = add_members(store, [(b"a", DIRECTORY), (b"b", Symlink(b"a"))])
    assert list(listing) == [b"", b"a", b"b"]
    assert not store.has_blob(sha256(b""))


def test_each_file_is_consumed_before_the_next_member_is_asked_for() -> None:
    stream = iter([b"1", b"2", b"3", b"4"])

    def take(count: int) -> Iterator[bytes]:
        for _ in range(count):
            yield next(stream)

    def members() -> Iterator[tuple[bytes, Member]]:
        yield b"a", NewFile(executable=False, chunks=take(3))
        assert next(stream) == b"4"

    listing = add_members(MemoryStore(), members())
    assert listing[b"a"] == File(executable=False, size=3, sha256=sha256(b"123"))


@pytest.mark.parametrize(
    "pair",
    [
        (new(b"1"), new(b"2")),
        (new(b"1"), DIRECTORY),
        (DIRECTORY, new(b"1")),
        (DIRECTORY, Symlink(b"x")),
        (new(b"1"), File(executable=False, size=0, sha256=sha256(b""), at=Location(sha256(b""), 0, 0))),
    ],
)
def test_a_path_given_twice_is_refused(pair: tuple[Member, Member]) -> None:
    with pytest.raises(ValueError, match="twice"):
        add_members(MemoryStore(), [(b"a", pair[0]), (b"a", pair[1])])


def test_a_path_outside_a_tree_is_refused() -> None:
    with pytest.raises(ListingError):
        add_members(MemoryStore(), [(b"../a", new(b"x"))])


def test_a_stream_that_fails_leaves_no_pack() -> None:
    store = MemoryStore()

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise OSError("the stream broke")

    with pytest.raises(OSError, match="broke"):
        add_members(store, [(b"a", new(b"")), (b"b", NewFile(executable=False, chunks=broken()))])
    assert not store.has_blob(sha256(b"half"))
