# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator

import pytest

from derive.archives.names import DEFAULT_LIMITS, Limits
from derive.archives.stream import Bytes
from derive.archives.zip import ZipEntry, close_entry, open_entry, read_directory
from derive.errors import DeriveError
from support.archives import Zip, said, zipped

A = Zip(name=b"a", data=b"alpha" * 50)
B = Zip(name=b"b", data=b"beta", deflate=False)


def entries(data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[ZipEntry, ...]:
    """Read the directory and every local header."""

    def read(offset: int, size: int) -> Iterator[bytes]:
        yield data[offset : offset + size]

    found = read_directory("x.zip", read, len(data), limits)
    for entry in found:
        stream = Bytes("x.zip", iter([data[entry.header : entry.header + entry.room]]))
        head = open_entry("x.zip", entry, stream)
        stream.skip(entry.stored)
        close_entry("x.zip", entry, stream, entry.room - head - entry.stored)
    return found


def refusal(data: bytes, limits: Limits = DEFAULT_LIMITS) -> str:
    with pytest.raises(DeriveError) as caught:
        entries(data, limits)
    return said(caught.value)


def descriptor(entry: Zip, layout: str, magic: bytes) -> bytes:
    packed = len(zipped(entry)) and zlib.compressobj(9, zlib.DEFLATED, -15)
    assert packed
    stored = len(packed.compress(entry.data) + packed.flush())
    return magic + struct.pack(layout, zlib.crc32(entry.data), stored, len(entry.data))


def test_entries_come_in_the_order_in_which_they_lie() -> None:
    found = entries(zipped(A, B, Zip(name=b"d/", mode=0o40755)))
    assert [(e.path, e.kind, e.deflated, e.size) for e in found] == [
        (b"a", "file", True, 250),
        (b"b", "file", False, 4),
        (b"d", "folder", False, 0),
    ]


def test_an_archive_of_nothing_and_one_with_a_comment_read() -> None:
    assert entries(zipped()) == ()
    assert len(entries(zipped(A, comment=b"hello"))) == 1


def test_64_bit_ends_and_sizes_read() -> None:
    wide = struct.pack("<2H2Q", 1, 16, 250, len(zlib.compress(A.data, 9)) - 6)
    entry = Zip(name=b"a", data=A.data, local_extra=wide, local_size=0xFFFFFFFF)
    assert [e.size for e in entries(zipped(entry, B, wide=True))] == [250, 4]


def test_64_bit_sizes_of_the_central_directory_read() -> None:
    stored = len(zlib.compress(A.data, 9)) - 6
    wide = struct.pack("<2H2Q", 1, 16, 250, stored)
    full = 0xFFFFFFFF
    entry = Zip(name=b"a", data=A.data, extra=wide, size=full, stored=full, local_extra=wide)
    assert [(e.size, e.stored) for e in entries(zipped(entry))] == [(250, stored)]


@pytest.mark.parametrize("layout", ["<LLL", "<LQQ"])
@pytest.mark.parametrize("magic", [b"PK\x07\x08", b""])
def test_sizes_after_the_data_are_read_in_every_form(layout: str, magic: bytes) -> None:
    entry = Zip(name=b"a", data=A.data, flags=8, descriptor=descriptor(A, layout, magic))
    assert len(entries(zipped(entry, B))) == 2


def test_what_python_writes_to_a_pipe_reads() -> None:
    class Pipe(io.BytesIO):
        """A file that cannot be gone back in, so that sizes come after the data."""

        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise OSError("a pipe")

        def tell(self) -> int:
            raise OSError("a pipe")

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ä/b", b"x" * 1000)
        archive.writestr("c", b"")
    assert [e.path for e in entries(pipe.getvalue())] == ["ä/b".encode(), b"c"]


def test_an_entry_without_a_valid_date_reads() -> None:
    """A wheel of files from 1970 may state month and day zero."""
    assert len(entries(zipped(Zip(name=b"a", data=b"x", date=0)))) == 1


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (Zip(name=b"/a"), "absolute"),
        (Zip(name=b"../a"), "climbs out"),
        (Zip(name=b"a//b"), "empty or ."),
        (Zip(name=b""), "without a name"),
        (Zip(name=b"a\0b"), "zero byte"),
        (Zip(name=b"a\\b"), "backslash"),
        (Zip(name=b"\xe4"), "neither ASCII nor marked as UTF-8"),
        (Zip(name=b"\xe4", flags=0x800), "neither ASCII nor marked as UTF-8"),
        (Zip(name=b"a", extra=struct.pack("<2HBL", 0x7075, 6, 1, 0) + b"b"), "two names"),
        (Zip(name=b"a", flags=1), "encrypted"),
        (Zip(name=b"a", flags=0x40), "encrypted"),
        (Zip(name=b"a", flags=0x2000), "encrypted"),
        (Zip(name=b"a", flags=0x20), "unknown flags 0x0020"),
        (Zip(name=b"a", data=b"x", method=12), "method 12"),
        (Zip(name=b"a", data=b"x", method=0, size=5), "two sizes"),
        (Zip(name=b"d/", data=b"x", mode=0o40755), "a folder that carries contents"),
        (Zip(name=b"d/", mode=0o100644), "a folder by name or by mode"),
        (Zip(name=b"d", mode=0o40755), "a folder by name or by mode"),
        (Zip(name=b"l/", mode=0o120777), "a folder by name or by mode"),
        (Zip(name=b"a", mode=0o020644), "a device, fifo or socket"),
        (Zip(name=b"a", mode=0o060644), "a device, fifo or socket"),
        (Zip(name=b"a", mode=0o010644), "a device, fifo or socket"),
        (Zip(name=b"a", mode=0o140644), "a device, fifo or socket"),
        (Zip(name=b".", mode=0o100644), "named as a folder"),
        (Zip(name=b"a", data=b"x", local_name=b"b"), "a local header unlike the central directory"),
        (Zip(name=b"a", data=b"x", local_flags=2), "a local header unlike the central directory"),
        (Zip(name=b"a", data=b"x", local_method=0), "a local header unlike the central directory"),
        (Zip(name=b"a", data=b"x", local_size=2), "a local header with another size"),
        (Zip(name=b"a", data=b"x", local_crc=2), "a local header with another CRC"),
        (Zip(name=b"a", data=b"x", flags=8, local_size=7), "a local header with another size"),
        (Zip(name=b"a", data=b"x", flags=8), "a data descriptor unlike"),
        (Zip(name=b"a", data=b"x", flags=8, descriptor=bytes(16)), "a data descriptor unlike"),
        (Zip(name=b"a", data=b"x", local_size=0xFFFFFFFF), "without its 64-bit sizes"),
        (Zip(name=b"a", data=b"x", size=0xFFFFFFFF), "without its 64-bit sizes"),
        (Zip(name=b"a", data=b"x", extra=b"\1\0\xff\0abcd"), "an extra field that cannot be read"),
        (Zip(name=b"a", data=b"x", header=3), "before the first entry"),
        (Zip(name=b"a", data=b"x", after=Zip(name=b"h", data=b"hidden").local()), "does not name"),
    ],
)
def test_an_entry_that_no_archive_may_hold_is_refused_by_name(entry: Zip, why: str) -> None:
    text = refusal(zipped(entry))
    assert why in text
    assert text.startswith("x.zip")


def test_the_same_path_twice_is_refused() -> None:
    assert "the same path twice" in refusal(zipped(A, Zip(name=b"a", data=b"other")))
    assert "the same path twice" in refusal(zipped(Zip(name=b"a"), Zip(name=b"a/", mode=0o40755)))
    assert "the same path twice" in refusal(zipped(Zip(name=b"a"), Zip(name=b"./a")))


def test_entries_that_share_bytes_are_refused() -> None:
    """Many names for one deflated stream are how a small zip holds petabytes."""
    assert "overlaps" in refusal(zipped(A, Zip(name=b"b", data=A.data, header=0)))
    kernel = Zip(name=b"b", data=b"x" * 100, deflate=False)
    quoted = Zip(name=b"a", data=kernel.local(), deflate=False)
    assert "overlaps" in refusal(zipped(quoted, Zip(name=b"b", data=b"x" * 100, deflate=False, header=31)))


def test_a_longer_local_extra_field_may_not_push_the_data_into_the_next_entry() -> None:
    wide = Zip(name=b"a", data=b"x" * 40, deflate=False)
    body = bytearray(zipped(wide, B))
    body[28:30] = (200).to_bytes(2, "little")
    assert refusal(bytes(body))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a zip archive"),
        (b"PK\5\6", "not a zip archive"),
        (zipped(A)[:-1], "not a zip archive"),
        (zipped(A) + b"junk", "not a zip archive"),
        (zipped(A, before=b"#!/bin/sh\n"), "before the first entry"),
        (zipped(A, hidden=B.local()), "does not name"),
        (zipped(A, comment=zipped()), "two ends"),
    ],
)
def test_what_is_no_single_zip_archive_is_refused(data: bytes, why: str) -> None:
    assert why in refusal(data)


@pytest.mark.parametrize(
    ("offset", "value", "why"),
    [
        (4, 1, "several parts"),
        (8, 1, "several parts"),
        (12, 1, "does not reach its end"),
        (16, 1, "does not reach its end"),
    ],
)
def test_an_end_record_that_lies_is_refused(offset: int, value: int, why: str) -> None:
    data = bytearray(zipped(A, B))
    data[len(data) - 22 + offset] = value
    assert why in refusal(bytes(data))


def test_more_entries_than_there_are_is_cut_short() -> None:
    data = bytearray(zipped(A, B))
    data[-14] = data[-12] = 3
    assert "cut short" in refusal(bytes(data)) or "too short" in refusal(bytes(data))


def test_fewer_entries_than_there_are_is_refused() -> None:
    data = bytearray(zipped(A, B))
    data[-14] = data[-12] = 1
    assert "belong to no entry" in refusal(bytes(data))


def test_two_ends_that_differ_are_refused() -> None:
    data = bytearray(zipped(A, B, wide=True))
    data[-12] = 1
    assert "two ends differ" in refusal(bytes(data))


def test_a_64_bit_end_out_of_place_is_refused() -> None:
    data = bytearray(zipped(A, B, wide=True))
    data[-22 - 20 + 8] ^= 1
    assert "out of place" in refusal(bytes(data))


def test_sizes_beyond_the_limits_are_refused_before_anything_is_inflated() -> None:
    bomb = Zip(name=b"a", data=b"x", size=1 << 31)
    assert "unpacks to 2147483648 bytes" in refusal(zipped(bomb))
    assert "2 members, more than 1" in refusal(zipped(A, B), Limits(entries=1))
