# SPDX-License-Identifier: Apache-2.0
"""Compressed bytes in, plain bytes out, in pieces and within limits; trailing junk and truncation are refused.

Core: no IO.

The readers are the standard library's zlib, bz2 and lzma. Zstd is refused by name: no archive of Debian trixie's, no
wheel and no sdist uses it, and its Python reader takes a truncated stream for a whole one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from derive.archives.names import broken, refused
from derive.store.protocol import CHUNK

_XZ_MEMORY = 128 << 20  # bytes; xz -9 needs 65 MiB, and the engine is to stay under 300 MB
_MAGICS = ((b"\x1f\x8b", "gz"), (b"\xfd7zXZ\0", "xz"), (b"BZh", "bz2"), (b"\x28\xb5\x2f\xfd", "zst"))


class _Decoder(Protocol):
    """One compressed stream: what zlib, bz2 and lzma have in common, made alike."""

    def decode(self, data: bytes) -> bytes:
        """Return at most ``CHUNK`` bytes; give ``b""`` to go on with what was held back."""

    @property
    def needs_input(self) -> bool: ...
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


class _Gzip:
    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    def decode(self, data: bytes) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, CHUNK)

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data


class _Xz:
    def __init__(self) -> None:
        import lzma

        self._inner = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    def decode(self, data: bytes) -> bytes:
        return self._inner.decompress(data, CHUNK)

    @property
    def needs_input(self) -> bool:
        return self._inner.needs_input

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data


class _Bzip2:
    def __init__(self) -> None:
        import bz2

        self._inner = bz2.BZ2Decompressor()

    def decode(self, data: bytes) -> bytes:
        return self._inner.decompress(data, CHUNK)

    @property
    def needs_input(self) -> bool:
        return self._inner.needs_input

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data


def compression_of(head: bytes) -> str | None:
    """Name the compression that the first six bytes announce: gz, xz, bz2, zst, or None for plain bytes."""
    return next((name for magic, name in _MAGICS if head.startswith(magic)), None)


def decompressed(archive: str, pieces: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """Yield the plain bytes of a stream, in pieces of at most 1 MiB; the compression is found by its first bytes.

    Raises:
        InputErrors: when more than ``limit`` bytes come out, the stream is zstd, or an xz stream needs too much memory.
        Corrupt: when the stream is damaged, cut short, or followed by something else.
    """
    total = 0
    for piece in _plain(archive, pieces):
        total += len(piece)
        if total > limit:
            raise refused(archive, None, f"an archive that unpacks to more than {limit} bytes")
        yield piece


def _plain(archive: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    source = iter(pieces)
    head = b""
    for piece in source:
        head += piece
        if len(head) >= 6:
            break
    match compression_of(head):
        case None:
            yield from _chunked(head, source)
        case "gz":
            yield from _streams(archive, _Gzip, _chunked(head, source))
        case "xz":
            yield from _streams(archive, _Xz, _chunked(head, source))
        case "bz2":
            yield from _streams(archive, _Bzip2, _chunked(head, source))
        case other:
            hint = "repack it as .tar.xz, or lock another file of this upstream"
            raise refused(archive, None, f"an archive compressed with {other}, which is not read here", hint=hint)


def _chunked(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if head:
        yield head
    yield from rest


def _streams(archive: str, decoder: Callable[[], _Decoder], source: Iterator[bytes]) -> Iterator[bytes]:
    """Decode one stream after another; zero bytes may pad the end, and nothing else may follow."""
    current: _Decoder | None = None
    for piece in source:
        data = piece
        while True:
            if current is None or current.eof:
                data = data.lstrip(b"\0") if current else data
                if not data:
                    break
                current = decoder()
            yield _decode(archive, current, data)
            data = current.unused_data if current.eof else b""
            if not data and (current.eof or current.needs_input):
                break
    while current and not current.eof and (plain := _decode(archive, current, b"")):
        yield plain
    if not current or not current.eof:
        raise broken(archive, "a compressed archive that is cut short")


def _decode(archive: str, decoder: _Decoder, data: bytes) -> bytes:
    try:
        return decoder.decode(data)
    except (zlib.error, OSError, ValueError) as error:
        raise broken(archive, f"a compressed archive that cannot be decoded: {error}") from error
    except Exception as error:
        if type(error).__name__ != "LZMAError":  # imported late, with its decoder
            raise
        if "memory" in str(error).lower():
            why = f"an xz stream that needs more than {_XZ_MEMORY >> 20} MiB of memory"
            raise refused(archive, None, why) from error
        raise broken(archive, f"a compressed archive that cannot be decoded: {error}") from error


class Bytes:
    """Exact reads over a stream of pieces; it never holds more than one piece and the bytes asked for."""

    def __init__(self, archive: str, pieces: Iterator[bytes]) -> None:
        self._archive = archive
        self._pieces = pieces
        self._held = memoryview(b"")
        self.position = 0

    def exactly(self, size: int) -> bytes:
        """Return the next ``size`` bytes.

        Raises:
            Corrupt: when the stream ends before.
        """
        if size <= len(self._held):
            taken, self._held = self._held[:size], self._held[size:]
            self.position += size
            return bytes(taken)
        return b"".join(self.pieces(size))

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the next ``size`` bytes in pieces.

        Raises:
            Corrupt: when the stream ends before.
        """
        left = size
        while left:
            if not self._held and not self._fill():
                raise broken(self._archive, "an archive that is cut short", detail=[f"missing   {left} bytes"])
            taken = self._held[:left]
            self._held = self._held[len(taken) :]
            left -= len(taken)
            self.position += len(taken)
            yield bytes(taken)

    def skip(self, size: int) -> None:
        """Pass over ``size`` bytes."""
        for _ in self.pieces(size):
            pass

    def at_end(self) -> bool:
        """Say whether nothing is left."""
        return not self._held and not self._fill()

    def rest(self) -> Iterator[bytes]:
        """Yield everything that is left."""
        while not self.at_end():
            taken, self._held = self._held, memoryview(b"")
            self.position += len(taken)
            yield bytes(taken)

    def _fill(self) -> bool:
        for piece in self._pieces:
            if piece:
                self._held = memoryview(piece)
                return True
        return False
