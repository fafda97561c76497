# SPDX-License-Identifier: Apache-2.0
"""A raw deflate stream, inflated piece by piece; it must end with its bytes, not before and not after.

Core: no IO.

By zlib-ng, which refuses what zlib refuses, says so in the same words, and takes half of its time. It decides no byte:
whatever is inflated is hashed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

WINDOW = 1 << 18
"""Bytes in the largest piece that goes in or comes out: what is hashed next is still in the processor's cache."""

_RAW = -15


class InflateError(ValueError):
    """Bytes that are no deflate stream, or not one only; the message says how."""


def inflate(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the stream as it is, each piece with the first bytes that come of it; what else comes of it comes alone.

    Raises:
        InflateError: when the stream is damaged, cut short, or followed by something.
    """
    from zlib_ng import zlib_ng

    inflater = zlib_ng.decompressobj(wbits=_RAW)
    try:
        for piece in pieces:
            for start in range(0, len(piece), WINDOW):
                stored = piece if len(piece) <= WINDOW else piece[start : start + WINDOW]
                yield stored, inflater.decompress(stored, WINDOW)
                while rest := inflater.unconsumed_tail:
                    yield b"", inflater.decompress(rest, WINDOW)
        while not inflater.eof and (last := inflater.decompress(b"", WINDOW)):
            yield b"", last
    except zlib_ng.error as error:  # type: ignore[misc]  # its stub has an instance there
        raise InflateError(f"cannot be inflated: {error}") from error
    if not inflater.eof:
        raise InflateError("is cut short")
    if inflater.unused_data:
        raise InflateError("has bytes after the end")
