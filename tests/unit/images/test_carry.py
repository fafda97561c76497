# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import hashlib
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, DeriveError
from derive.images.carry import Content, Stream, Wheel, carried, carry_map, content_of
from derive.images.compressor import MEMBER_HEADER, trailer
from derive.images.encoding import Encoding
from derive.images.layer import write_layer
from derive.images.modes import ModeTable
from derive.images.pipeline import Piece
from derive.store.memory import MemoryStore
from derive.trees.listing import File, Listing
from derive.trees.pack import NewFile
from support.archives import Zip, put, said, zipped
from support.carrying import wheel, wheel_of
from support.layers import archive, blob, tree

TEXT = b"".join(b"%d squared is %d\n" % (n, n * n) for n in range(9000))
NOISE = hashlib.shake_128(b"noise").digest(80_000)
CARRYING = Encoding(name="gzip-members/2")


def deflated(data: bytes, level: int = 9) -> bytes:
    squeeze = zlib.compressobj(level, zlib.DEFLATED, -15)
    return squeeze.compress(data) + squeeze.flush()


def key(data: bytes) -> Content:
    return sha256(data), len(data)


def file(data: bytes) -> File:
    return File(executable=False, size=len(data), sha256=sha256(data))


def mapped(store: MemoryStore, *wheels: Wheel, least: int = 1) -> dict[Content, Stream]:
    return carry_map(wheels, least, store.read_blob)


def written(store: MemoryStore, stream: Stream, listed: File) -> bytes:
    return b"".join(part for piece in carried(stream, listed, store.read_blob) for part in piece.stored)


def test_a_member_is_the_header_the_stream_as_it_came_and_the_trailer() -> None:
    store = MemoryStore()
    stream = mapped(store, wheel(store, {b"a": TEXT}))[key(TEXT)]
    member = written(store, stream, file(TEXT))
    assert member == MEMBER_HEADER + deflated(TEXT) + trailer(zlib.crc32(TEXT), len(TEXT))
    assert gzip.decompress(member) == TEXT


def test_what_is_carried_is_what_a_wheel_has_deflated_from_the_least_size_on() -> None:
    store = MemoryStore()
    files = [Zip(name=b"a", data=b"x" * 999), Zip(name=b"b", data=b"x" * 1000), Zip(name=b"c", data=b"", deflate=True)]
    files += [Zip(name=b"d", data=b"stored" * 500, deflate=False), Zip(name=b"e/", mode=0o40755)]
    assert mapped(store, wheel_of(store, zipped(*files)), least=1000).keys() == {key(b"x" * 1000)}


def test_of_several_streams_of_one_content_the_first_wheels_first_is_carried() -> None:
    store = MemoryStore()
    twice = [Zip(name=name, data=TEXT, packed=deflated(TEXT, level)) for name, level in ((b"z", 1), (b"a", 9))]
    one = wheel_of(store, zipped(*twice), "one.whl")
    two = wheel(store, {b"b": TEXT, b"c": NOISE}, "two.whl")
    found = mapped(store, one, two)
    assert (found[key(TEXT)].wheel, found[key(TEXT)].entry.path) == ("one.whl", b"z")
    assert found[key(NOISE)].wheel == "two.whl"
    assert mapped(store, two, one)[key(TEXT)].wheel == "two.whl"


def test_where_a_store_holds_contents_decides_nothing() -> None:
    store = MemoryStore()
    it = wheel(store, {b"a": TEXT})
    nowhere = Listing.of({path: replace(entry, at=None) for path, entry in it.members.files()})
    assert mapped(store, replace(it, members=nowhere)) == mapped(store, it)


def with_entry(stream: Stream, **change: Any) -> Stream:
    return replace(stream, entry=replace(stream.entry, **change))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"crc": 1}, "a local header with another CRC"),
        ({"stored": 100}, "a local header with another size"),
        ({"name": b"b"}, "a local header unlike the central directory"),
        ({"header": 1}, "no local header where the central directory says"),
    ],
    ids=str,
)
def test_a_stream_that_lies_elsewhere_makes_no_last_piece(change: dict[str, Any], why: str) -> None:
    store = MemoryStore()
    stream = with_entry(mapped(store, wheel(store, {b"a": TEXT}))[key(TEXT)], **change)
    with pytest.raises(Corrupt, match=why):
        written(store, stream, file(TEXT))


@pytest.mark.parametrize(
    "listed",
    [
        File(executable=False, size=len(TEXT), sha256=sha256(b"other")),
        File(executable=False, size=len(TEXT) - 1, sha256=sha256(TEXT)),
        File(executable=False, size=len(TEXT) + 1, sha256=sha256(TEXT)),
    ],
    ids=["hash", "longer", "shorter"],
)
def test_contents_that_are_not_those_listed_make_no_last_piece(listed: File) -> None:
    store = MemoryStore()
    stream = mapped(store, wheel(store, {b"a": TEXT}))[key(TEXT)]
    pieces: list[Piece] = []
    with pytest.raises(Corrupt, match="an entry that is not what was unpacked of it"):
        pieces.extend(carried(stream, listed, store.read_blob))
    assert not any(piece.is_last for piece in pieces)


def altered(store: MemoryStore, it: Wheel, at: int) -> MemoryStore:
    """A store in which one byte of the wheel's first stream is another."""

    class Altered(MemoryStore):
        def read_blob(self, digest: Digest, offset: int = 0, size: int | None = None) -> Iterator[bytes]:
            for piece in store.read_blob(digest, offset, size):
                data = bytearray(piece)
                if digest == it.archive and offset <= at < offset + len(data):
                    data[at - offset] ^= 1
                yield bytes(data)

    other = Altered()
    other._blobs = store._blobs
    return other


@pytest.mark.parametrize("at", [40, 5000, 20_000])
def test_an_archive_that_a_disk_has_altered_makes_no_layer(at: int) -> None:
    store = MemoryStore()
    it = wheel(store, {b"a": TEXT})
    other = altered(store, it, at)
    before = set(store._blobs)
    with pytest.raises(Corrupt, match=r"entry|header"):
        write_layer(other, it.members, ModeTable(), CARRYING, wheels=[it])
    assert set(store._blobs) == before


ODD: dict[str, tuple[tuple[Zip, ...], str]] = {
    "encrypted": ((Zip(name=b"a", data=TEXT, flags=1),), "an encrypted entry"),
    "another method": ((Zip(name=b"a", data=TEXT, method=12),), "compressed with method 12"),
    "twice": ((Zip(name=b"a", data=TEXT), Zip(name=b"a", data=TEXT)), "the same path twice"),
    "overlapping": ((Zip(name=b"a", data=TEXT, stored=10**6),), "overlaps"),
    "64-bit sizes absent": ((Zip(name=b"a", data=TEXT, size=0xFFFFFFFF),), "without its 64-bit sizes"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_archive_that_no_reader_would_unpack_is_refused(name: str) -> None:
    entries, why = ODD[name]
    store = MemoryStore()
    data = zipped(*entries)
    it = Wheel(name="demo.whl", archive=put(store, data), size=len(data), members=tree(store, {b"a": TEXT}))
    with pytest.raises(DeriveError) as caught:
        mapped(store, it)
    assert why in said(caught.value)


SAME = Zip(name=b"a", data=TEXT)
WIDE = struct.pack("<2H2Q", 1, 16, len(TEXT), len(deflated(TEXT)))
DESCRIPTOR = struct.pack("<3L", zlib.crc32(TEXT), len(deflated(TEXT)), len(TEXT))


@pytest.mark.parametrize(
    "entry",
    [
        replace(SAME, flags=8, descriptor=b"PK\7\10" + DESCRIPTOR),
        replace(SAME, flags=8, descriptor=DESCRIPTOR),
        replace(SAME, stored=0xFFFFFFFF, size=0xFFFFFFFF, extra=WIDE, local_extra=WIDE),
        replace(SAME, local_extra=struct.pack("<2H", 0x5455, 9) + bytes(9)),
        replace(SAME, mode=0o100755),
    ],
    ids=["descriptor", "descriptor without magic", "64-bit sizes", "a longer local header", "executable"],
)
def test_a_stream_is_found_exactly_whatever_stands_around_it(entry: Zip) -> None:
    store = MemoryStore()
    it = wheel_of(store, zipped(entry, Zip(name=b"b", data=b"next"), wide=True))
    stream = mapped(store, it)[key(TEXT)]
    assert written(store, stream, file(TEXT))[10:-8] == deflated(TEXT)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (replace(SAME, local_name=b"b"), "a local header unlike the central directory"),
        (replace(SAME, local_flags=2), "a local header unlike the central directory"),
        (replace(SAME, local_method=0), "a local header unlike the central directory"),
        (replace(SAME, local_crc=7), "a local header with another CRC"),
        (replace(SAME, local_size=7), "a local header with another size"),
        (replace(SAME, flags=8, descriptor=bytes(12)), "a data descriptor unlike the central directory"),
        (replace(SAME, after=Zip(name=b"h").local()), "an entry that the central directory does not name"),
        (replace(SAME, packed=deflated(TEXT) + b"\0"), "an entry whose data has bytes after the end"),
        (replace(SAME, packed=deflated(TEXT)[:-3]), "an entry whose data is cut short"),
        (replace(SAME, packed=b"\xff" * 90), "an entry whose data cannot be inflated"),
        (replace(SAME, packed=deflated(TEXT + b"more")), "an entry that is not what was unpacked of it"),
        (replace(SAME, crc=1, local_crc=1), "an entry that is not what was unpacked of it"),
    ],
)
def test_an_entry_that_says_two_things_is_refused_when_it_is_carried(entry: Zip, why: str) -> None:
    store = MemoryStore()
    data = zipped(entry)
    it = Wheel(name="demo.whl", archive=put(store, data), size=len(data), members=tree(store, {b"a": TEXT}))
    with pytest.raises(Corrupt, match=why):
        write_layer(store, it.members, ModeTable(), CARRYING, wheels=[it])


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({}, "an unpacked tree that is not this archive's"),
        ({b"b": TEXT}, "an unpacked tree that is not this archive's"),
        ({b"a": TEXT + b"more"}, "an unpacked tree that is not this archive's"),
        ({b"a/b": TEXT}, "an unpacked tree that is not this archive's"),
        ({b"a": TEXT, b"b": b""}, "an unpacked tree with a file that this archive lacks"),
    ],
)
def test_a_tree_that_is_not_the_archives_is_refused(members: dict[bytes, bytes], why: str) -> None:
    store = MemoryStore()
    it = replace(wheel(store, {b"a": TEXT}), members=tree(store, members))
    with pytest.raises(Corrupt, match=why):
        mapped(store, it)


def test_a_tree_with_other_contents_of_the_same_size_is_refused_once_they_would_be_carried() -> None:
    store = MemoryStore()
    other = b"!" + TEXT[1:]
    listing = tree(store, {b"a": other})
    it = replace(wheel(store, {b"a": TEXT}), members=listing)
    with pytest.raises(Corrupt, match="not what was unpacked"):
        write_layer(store, listing, ModeTable(), CARRYING, wheels=[it])


def test_a_patched_file_is_compressed_and_its_neighbour_carried() -> None:
    store = MemoryStore()
    it = wheel(store, {b"a": TEXT, b"b": TEXT + b"other"})
    listing = tree(store, {b"lib/a": b"# patched\n" + TEXT, b"lib/b": NewFile(True, [TEXT + b"other"])})
    layer = write_layer(store, listing, ModeTable(), CARRYING, wheels=[it])
    data = blob(store, layer.blob)
    assert gzip.decompress(data) == archive(store, listing)
    assert deflated(TEXT + b"other") in data
    assert deflated(TEXT) not in data


def test_without_wheels_or_without_carrying_the_blob_is_that_of_the_first_encoding() -> None:
    store = MemoryStore()
    it = wheel(store, {b"a": TEXT, b"b": NOISE})
    plain = write_layer(store, it.members, ModeTable(), Encoding())
    assert write_layer(store, it.members, ModeTable(), CARRYING) == plain
    assert write_layer(store, it.members, ModeTable(), Encoding(), wheels=[it]) == plain
    carrying = write_layer(store, it.members, ModeTable(), CARRYING, wheels=[it])
    assert (carrying.diff_id, carrying.blob != plain.blob) == (plain.diff_id, True)


def test_a_large_stream_is_carried_in_bounded_pieces() -> None:
    store = MemoryStore()
    data = bytes(5_000_000) + NOISE * 30
    stream = mapped(store, wheel(store, {b"a": data}))[key(data)]
    pieces = list(carried(stream, file(data), store.read_blob))
    assert len(pieces) > 4
    assert [piece.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert max(sum(map(len, piece.stored + piece.plain)) for piece in pieces) < 2_000_000
    assert b"".join(part for piece in pieces for part in piece.plain) == data


def test_a_file_with_other_permissions_is_still_what_the_wheel_has() -> None:
    assert content_of(replace(file(TEXT), executable=True)) == content_of(file(TEXT))
