# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import random
import zlib

import pytest

from derive.store.inflate import WINDOW, InflateError, inflate

TEXT = hashlib.shake_128(b"text").hexdigest(3000).encode() * 3


def deflated(data: bytes, level: int = 6) -> bytes:
    squeeze = zlib.compressobj(level, zlib.DEFLATED, -15)
    return squeeze.compress(data) + squeeze.flush()


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 100, WINDOW, 3 * WINDOW])
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(3_000_000), hashlib.shake_128(b"n").digest(900_000)], ids=len)
def test_a_stream_comes_as_it_is_and_as_what_it_holds_in_bounded_pieces(data: bytes, size: int) -> None:
    stream = deflated(data)
    given = pieces(stream, size) if len(stream) < 100_000 or size > 100 else [stream]
    found = list(inflate(given))
    assert b"".join(stored for stored, _ in found) == stream
    assert b"".join(plain for _, plain in found) == data
    assert max(len(part) for pair in found for part in pair) <= WINDOW


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (b"", "is cut short"),
        (deflated(TEXT)[:-1], "is cut short"),
        (deflated(TEXT)[:100], "is cut short"),
        (deflated(TEXT) + b"\0", "has bytes after the end"),
        (deflated(TEXT) * 2, "has bytes after the end"),
        (b"\xff\xff\xff", "cannot be inflated: Error -3 while decompressing data: invalid block type"),
    ],
)
@pytest.mark.parametrize("size", [1, 100_000])
def test_a_stream_that_does_not_end_with_its_bytes_is_refused(stream: bytes, why: str, size: int) -> None:
    with pytest.raises(InflateError, match=why):
        list(inflate(pieces(stream, size)))


def test_what_zlib_refuses_is_refused() -> None:
    source = random.Random(1)
    for _ in range(400):
        stream = bytearray(deflated(TEXT[: source.randrange(1, 400)], source.randrange(10)))
        stream[source.randrange(len(stream))] ^= 1 << source.randrange(8)
        inflater = zlib.decompressobj(wbits=-15)
        try:
            wanted: bytes | None = inflater.decompress(bytes(stream))
            if not inflater.eof or inflater.unused_data:
                wanted = None
        except zlib.error:
            wanted = None
        try:
            found: bytes | None = b"".join(plain for _, plain in inflate([bytes(stream)]))
        except InflateError:
            found = None
        assert found == wanted
