# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import bz2
import gzip
import lzma
import random
from collections.abc import Callable, Iterator

import pytest

from derive.archives.stream import Bytes, compression_of, decompressed
from derive.errors import Corrupt, DeriveError, InputErrors
from derive.store.protocol import CHUNK
from support.archives import said

TEXT = random.Random(1).randbytes(300_000) + bytes(3 << 20)
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": lambda data: gzip.compress(data, 1, mtime=0),
    "xz": lambda data: lzma.compress(data, preset=0),
    "bz2": lambda data: bz2.compress(data, 1),
}
COMPRESSED = [name for name in PACKERS if name != "plain"]


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def plain(data: bytes, size: int = CHUNK, limit: int = 1 << 30) -> bytes:
    return b"".join(decompressed("x.tar", pieces(data, size), limit))


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("size", [CHUNK, 997])
def test_what_was_packed_comes_out(name: str, size: int) -> None:
    assert plain(PACKERS[name](TEXT), size) == TEXT


@pytest.mark.parametrize("name", PACKERS)
def test_no_piece_is_larger_than_a_mebibyte(name: str) -> None:
    packed = PACKERS[name](bytes(20 << 20))
    assert max(len(piece) for piece in decompressed("x.tar", pieces(packed, CHUNK), 1 << 30)) <= CHUNK


@pytest.mark.parametrize("name", COMPRESSED)
def test_streams_that_follow_each_other_are_one_and_zeros_may_pad_the_end(name: str) -> None:
    pack = PACKERS[name]
    assert plain(pack(b"one") + pack(b"two") + bytes(512)) == b"onetwo"


@pytest.mark.parametrize("name", COMPRESSED)
@pytest.mark.parametrize("cut", [1, 5, 2000])
def test_a_stream_that_is_cut_short_is_refused(name: str, cut: int) -> None:
    with pytest.raises(Corrupt) as caught:
        plain(PACKERS[name](TEXT)[:-cut])
    assert "cut short" in said(caught.value)


@pytest.mark.parametrize("name", COMPRESSED)
def test_something_else_after_the_end_is_refused(name: str) -> None:
    with pytest.raises(Corrupt) as caught:
        plain(PACKERS[name](b"text") + b"trailing junk that is no stream at all")
    assert "cannot be decoded" in said(caught.value)


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_damaged_stream_is_refused(name: str) -> None:
    packed = bytearray(PACKERS[name](TEXT))
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(Corrupt):
        plain(bytes(packed))


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_bomb_is_refused_before_it_has_come_out(name: str) -> None:
    out: list[int] = []
    bomb = pieces(PACKERS[name](bytes(40 << 20)), 4096)
    with pytest.raises(InputErrors) as caught:
        out.extend(len(piece) for piece in decompressed("x.tar", bomb, 8 << 20))
    assert sum(out) <= 8 << 20
    assert "unpacks to more than 8388608 bytes" in said(caught.value)


def test_zstd_is_refused_by_name() -> None:
    with pytest.raises(InputErrors) as caught:
        plain(b"\x28\xb5\x2f\xfd" + bytes(20))
    assert "zst" in said(caught.value)


def test_an_xz_stream_that_needs_much_memory_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 << 20}]
    packed = bytearray(lzma.compress(b"text", filters=filters))
    with pytest.raises(InputErrors) as caught:
        plain(bytes(packed))
    assert "memory" in said(caught.value)


def test_an_error_of_the_source_is_not_taken_for_a_damaged_archive() -> None:
    def failing() -> Iterator[bytes]:
        yield gzip.compress(TEXT)[:1000]
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        b"".join(decompressed("x.tar", failing(), 1 << 30))


def test_the_compression_is_known_by_its_first_bytes() -> None:
    assert [compression_of(pack(b"x")[:6]) for pack in PACKERS.values()] == [None, "gz", "xz", "bz2"]


def test_exact_reads_cross_pieces_and_count() -> None:
    stream = Bytes("x.tar", iter([b"ab", b"", b"cde", b"f"]))
    assert (stream.exactly(3), stream.position) == (b"abc", 3)
    assert list(stream.pieces(2)) == [b"de"]
    assert not stream.at_end()
    assert b"".join(stream.rest()) == b"f"
    assert stream.at_end()
    assert stream.position == 6


def test_a_read_beyond_the_end_says_what_is_missing() -> None:
    with pytest.raises(DeriveError) as caught:
        Bytes("x.tar", iter([b"ab"])).exactly(5)
    assert "missing   3 bytes" in said(caught.value)
