# SPDX-License-Identifier: Apache-2.0
"""What every store keeps to: one suite, each backend."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, Missing
from derive.store.local import LocalStore
from derive.store.memory import MemoryStore
from derive.store.protocol import CHUNK, Store, read_all
from derive.trees.listing import DIRECTORY, EMPTY, Entry, File, Listing, Location, Method, Symlink
from derive.trees.nar import nar_digest, single
from derive.trees.pack import NewFile, add_members
from support.folders import ODD, members_of

ABSENT = sha256(b"never added")


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
    else:
        with LocalStore(tmp_path / "store") as local:
            yield local


def add_blob(store: Store, data: bytes) -> Digest:
    with store.blob_writer() as writer:
        writer.write(data)
        return writer.commit()


def blob(store: Store, digest: Digest) -> bytes:
    return b"".join(store.read_blob(digest))


def in_blob(
    store: Store,
    stored: bytes,
    contents: bytes,
    method: Method = "raw",
    *,
    before: bytes = b"",
    size: int | None = None,
    listed: int | None = None,
) -> File:
    """Store ``before + stored + b'after'`` and return the file said to lie in the middle of it."""
    digest = add_blob(store, before + stored + b"after")
    at = Location(digest, len(before), len(stored) if size is None else size, method)
    return File(executable=False, size=len(contents) if listed is None else listed, sha256=sha256(contents), at=at)


def deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


def bits(size: int) -> bytes:
    """Return bytes that do not repeat and do not compress, the same every time."""
    seed = b"".join(sha256(b"%d" % index).hex.encode() for index in range(64))
    return (seed * (size // len(seed) + 1))[:size]


# Blobs


def test_a_committed_blob_reads_back_under_its_hash(store: Store) -> None:
    digest = add_blob(store, b"contents")
    assert digest == sha256(b"contents")
    assert store.has_blob(digest)
    assert store.blob_size(digest) == 8
    assert blob(store, digest) == b"contents"


def test_a_blob_may_be_empty(store: Store) -> None:
    with store.blob_writer() as writer:
        assert writer.commit() == sha256(b"")
    assert blob(store, sha256(b"")) == b""
    assert store.blob_size(sha256(b"")) == 0


@pytest.mark.parametrize(
    "piece", [b"abc", bytearray(b"abc"), memoryview(b"xabcx")[1:4]], ids=["bytes", "array", "view"]
)
def test_a_blob_is_written_in_pieces_of_any_kind_of_bytes(store: Store, piece: bytes | bytearray | memoryview) -> None:
    with store.blob_writer() as writer:
        writer.write(piece)
        writer.write(b"")
        writer.write(piece)
        assert writer.size == 6
        assert writer.commit() == sha256(b"abcabc")


def test_a_piece_may_be_reused_by_its_owner_after_the_write(store: Store) -> None:
    piece = bytearray(b"first")
    with store.blob_writer() as writer:
        writer.write(piece)
        piece[:] = b"later"
        writer.write(piece)
        digest = writer.commit()
    assert blob(store, digest) == b"firstlater"


def test_adding_the_same_bytes_again_changes_nothing(store: Store) -> None:
    assert add_blob(store, b"same") == add_blob(store, b"same")
    assert blob(store, sha256(b"same")) == b"same"


def test_two_writers_of_the_same_bytes_both_succeed(store: Store) -> None:
    with store.blob_writer() as one, store.blob_writer() as other:
        one.write(b"same")
        other.write(b"same")
        assert one.commit() == other.commit()
    assert blob(store, sha256(b"same")) == b"same"


def test_nothing_is_visible_before_the_commit(store: Store) -> None:
    with store.blob_writer() as writer:
        writer.write(b"contents")
        assert not store.has_blob(sha256(b"contents"))
        writer.commit()
        assert store.has_blob(sha256(b"contents"))


def test_leaving_without_a_commit_drops_the_bytes(store: Store) -> None:
    with store.blob_writer() as writer:
        writer.write(b"contents")
    assert not store.has_blob(sha256(b"contents"))
    with contextlib.suppress(RuntimeError), store.blob_writer() as writer:
        writer.write(b"contents")
        raise RuntimeError("the source broke")
    assert not store.has_blob(sha256(b"contents"))


def test_bytes_that_are_not_the_expected_ones_are_refused_and_not_kept(store: Store) -> None:
    with store.blob_writer() as writer:
        writer.write(b"wrong")
        with pytest.raises(Corrupt) as caught:
            writer.commit(sha256(b"right"))
    assert caught.value.detail == (f"expected  {sha256(b'right')}", f"got       {sha256(b'wrong')}")
    assert not store.has_blob(sha256(b"wrong"))
    assert not store.has_blob(sha256(b"right"))


def test_expected_bytes_are_kept(store: Store) -> None:
    with store.blob_writer() as writer:
        writer.write(b"right")
        assert writer.commit(sha256(b"right")) == sha256(b"right")
    assert store.has_blob(sha256(b"right"))


def test_an_absent_blob_is_said_to_be_missing(store: Store) -> None:
    assert not store.has_blob(ABSENT)
    with pytest.raises(Missing):
        store.blob_size(ABSENT)
    with pytest.raises(Missing):
        store.blob_path(ABSENT)
    with pytest.raises(Missing):
        blob(store, ABSENT)
    with pytest.raises(Missing):
        list(store.read_blob(ABSENT, 0, 1))


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 7])
def test_a_blob_of_any_size_comes_in_pieces_of_at_most_a_chunk(store: Store, size: int) -> None:
    data = bits(size)
    pieces = list(store.read_blob(add_blob(store, data)))
    assert b"".join(pieces) == data
    assert all(0 < len(piece) <= CHUNK for piece in pieces)


@pytest.mark.parametrize(
    ("offset", "size"),
    [(0, 0), (0, 1), (5, 0), (CHUNK - 1, 2), (CHUNK, CHUNK), (1, CHUNK), (1, 2 * CHUNK), (3, None), (3 * CHUNK, None)],
)
def test_a_slice_is_the_bytes_of_that_slice(store: Store, offset: int, size: int | None) -> None:
    data = bits(3 * CHUNK)
    got = b"".join(store.read_blob(add_blob(store, data), offset, size))
    assert got == data[offset:] if size is None else got == data[offset : offset + size]


def test_a_slice_beyond_the_end_is_corrupt(store: Store) -> None:
    digest = add_blob(store, b"12345")
    with pytest.raises(Corrupt, match="ends early"):
        list(store.read_blob(digest, 3, 3))


# Files in blobs


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_a_file_inside_a_blob_reads_back_raw(store: Store, size: int) -> None:
    data = bits(size)
    file = in_blob(store, data, data, before=b"before")
    pieces = list(store.read(file))
    assert b"".join(pieces) == data
    assert all(0 < len(piece) <= CHUNK for piece in pieces)


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
@pytest.mark.parametrize("kind", ["dense", "zeros"])
def test_a_file_inside_a_blob_reads_back_deflated(store: Store, size: int, kind: str) -> None:
    data = bytes(size) if kind == "zeros" else (os.urandom(CHUNK) * 4)[:size]
    file = in_blob(store, deflate(data), data, "deflate", before=b"before")
    pieces = list(store.read(file))
    assert b"".join(pieces) == data
    assert all(0 < len(piece) <= CHUNK for piece in pieces)


@pytest.mark.parametrize("listed", [0, 3, 5, 10**9])
@pytest.mark.parametrize("method", ["raw", "deflate"])
def test_contents_of_another_size_than_listed_are_corrupt(store: Store, method: Method, listed: int) -> None:
    stored = deflate(b"text") if method == "deflate" else b"text"
    file = in_blob(store, stored, b"text", method, listed=listed)
    with pytest.raises(Corrupt):
        read_all(store, file)


@pytest.mark.parametrize("cut", [1, 2])
def test_a_deflate_stream_that_stops_early_is_corrupt(store: Store, cut: int) -> None:
    stored = deflate(b"text" * 10)
    file = in_blob(store, stored, b"text" * 10, "deflate", size=len(stored) - cut)
    with pytest.raises(Corrupt):
        read_all(store, file)


def test_bytes_that_are_no_deflate_stream_are_corrupt(store: Store) -> None:
    with pytest.raises(Corrupt, match="cannot be read"):
        read_all(store, in_blob(store, b"\xff\xff\xff\xff", b"text", "deflate"))


def test_bytes_after_the_end_of_a_deflate_stream_are_corrupt(store: Store) -> None:
    stored = deflate(b"text")
    file = in_blob(store, stored, b"text", "deflate", size=len(stored) + 2)
    with pytest.raises(Corrupt):
        read_all(store, file)


@pytest.mark.parametrize("size", [0, 1])
def test_a_file_without_a_place_or_a_blob_is_missing(store: Store, size: int) -> None:
    with pytest.raises(Missing):
        read_all(store, File(executable=False, size=size, sha256=ABSENT))
    at = Location(ABSENT, 0, size)
    with pytest.raises(Missing):
        read_all(store, File(executable=False, size=size, sha256=ABSENT, at=at))


# Trees


def locations(listing: Listing) -> dict[bytes, Location | None]:
    return {path: file.at for path, file in listing.files()}


def test_a_tree_of_everything_comes_back_with_its_locations(store: Store) -> None:
    listing = add_members(store, members_of(ODD))
    digest = store.add_listing(listing)
    assert digest == nar_digest(listing, lambda _, file: store.read(file))
    assert store.has_tree(digest)
    assert store.listing(digest) == listing
    assert locations(store.listing(digest)) == locations(listing)


def test_a_tree_does_not_depend_on_how_its_contents_are_kept(store: Store) -> None:
    raw = Listing.of({b"a": in_blob(store, b"text", b"text", before=b"x")})
    packed = Listing.of({b"a": in_blob(store, deflate(b"text"), b"text", "deflate", before=b"yy")})
    assert store.add_listing(raw) == store.add_listing(packed)


def test_a_tree_with_deflated_contents_comes_back_with_its_locations(store: Store) -> None:
    listing = Listing.of({b"a/b": in_blob(store, deflate(b"text"), b"text", "deflate", before=b"yy")})
    digest = store.add_listing(listing)
    assert locations(store.listing(digest)) == locations(listing)
    file = store.listing(digest)[b"a/b"]
    assert isinstance(file, File)
    assert read_all(store, file) == b"text"


@pytest.mark.parametrize(
    "entry", [DIRECTORY, Symlink(b"caf\xe9/.."), NewFile(executable=True, chunks=[b"one file"])], ids=["d", "l", "f"]
)
def test_a_tree_may_be_one_entry(store: Store, entry: Entry | NewFile) -> None:
    listing = add_members(store, [(b"", entry)])
    digest = store.add_listing(listing)
    assert dict(store.listing(digest)) == dict(listing)
    assert store.has_tree(digest)


def test_a_tree_without_contents_needs_no_blob(store: Store) -> None:
    digest = store.add_listing(EMPTY)
    assert store.has_tree(digest)
    assert store.add_listing(single(DIRECTORY)) == digest


def test_a_tree_is_kept_as_it_was_first_added(store: Store) -> None:
    first = Listing.of({b"a": in_blob(store, b"text", b"text", before=b"1")})
    second = Listing.of({b"a": in_blob(store, b"text", b"text", before=b"2")})
    digest = store.add_listing(first)
    assert store.add_listing(second) == digest
    assert locations(store.listing(digest)) == locations(first)


def test_an_absent_tree_is_said_to_be_missing(store: Store) -> None:
    assert not store.has_tree(ABSENT)
    with pytest.raises(Missing):
        store.listing(ABSENT)


@pytest.mark.parametrize("size", [0, 4])
def test_a_tree_whose_blob_is_missing_is_refused(store: Store, size: int) -> None:
    at = Location(ABSENT, 0, size)
    listing = Listing.of({b"a": File(executable=False, size=size, sha256=sha256(bytes(size)), at=at)})
    with pytest.raises(Missing):
        store.add_listing(listing)
    assert not store.has_tree(nar_digest(listing, lambda _, __: [bytes(size)]))


def test_a_tree_with_a_file_that_lies_nowhere_is_refused(store: Store) -> None:
    listing = Listing.of({b"a": File(executable=False, size=4, sha256=sha256(b"text"))})
    with pytest.raises(Missing):
        store.add_listing(listing)


def test_a_tree_whose_contents_have_another_size_is_refused(store: Store) -> None:
    with pytest.raises(Corrupt):
        store.add_listing(Listing.of({b"a": in_blob(store, b"text", b"text", listed=3)}))


# Threads


def test_threads_reading_at_once_each_get_their_bytes(store: Store) -> None:
    files = [in_blob(store, b"%d" % i * 40, b"%d" % i * 40, before=b"b%d" % i) for i in range(270)]
    large = bits(3 * CHUNK + 1)
    files += [in_blob(store, large, large), in_blob(store, deflate(large), large, "deflate")]

    def check(turn: int) -> bool:
        order = files[turn * 90 :] + files[: turn * 90]
        return all(sha256(read_all(store, file)) == file.sha256 for file in order)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(check, range(4)))
