# SPDX-License-Identifier: Apache-2.0
"""The encoding ``gzip-members/1``: a tar stream cut at places that its content decides, each segment one gzip member.

Core: no IO. Worker threads compress, and decide neither a byte nor the order.

Where the cuts lie, the member's header and the compressor's settings are specified on docs/formats/layer.md. A segment
is a function of the entries in it, so a changed file leaves the members of distant files as they were.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import assert_never

from derive.canonical import Json, escape
from derive.errors import Corrupt, HostRefuses, expected_got
from derive.images.documents import fields, integer, items, text
from derive.images.tar import END, Contents, End, Header, Piece
from derive.trees.listing import File

TAG = "layer-encoding/1"
NAME = "gzip-members/1"
COMPRESSOR = "libdeflate"
DISTRIBUTION = "deflate==0.9.0"
MEDIA_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"

SEGMENT = 1 << 20
"""Bytes of tar stream in the largest segment."""

LARGE = SEGMENT // 2
"""A file of this many bytes or more has segments of its own."""

_ONE_IN = 64
MEMBER_HEADER = b"\x1f\x8b\x08\x00\0\0\0\0\x00\xff"
"""Deflate, no flags and so no name, time 0, XFL 0, OS 255: nothing of the machine or the hour."""

_LEVELS = range(1, 13)
_KNOWN_ANSWERS = {
    1: "22037e8cef51f1136bcdb3346a5cce35321a51575c7d608fa51dd0f46097e97d",
    2: "e94bd1f9945a9cd0c7c9143e597fbe409324e8bafe55694d3e53bfdd290e5892",
    3: "9f0f68dbc94a1645d78379697752bd82578631667881a75d63d59bd44d5d35d7",
    4: "7313673f509bfb0148cd4dc1e7462d98049e807ca7ef31d645c7733d857205a0",
    5: "8c4b0c17b43b77465c8dc2dda6f6f2092f64645ed99dd98a7a5e237995b773ff",
    6: "756fa7a5f2551fbc017d5acb15a56d7647a1ff8da06eb19b452059058ab42c64",
    7: "4168c349cb81f47bb2d646ae62fe21976510ff8806f3d32c8e53e45132fc3d0c",
    8: "8f437fc3058f8c0d87e1db7d78289f9013f0e35c023af0c04bba2c899df14738",
    9: "8f437fc3058f8c0d87e1db7d78289f9013f0e35c023af0c04bba2c899df14738",
    10: "ee49591e6d5b933768e4e08de58a998312e114e34d7bf8dd8b7493a72cdfd695",
    11: "ad1c176f1ac9901247e7c9b65730d831985a5ab88ff8fe8fb3f29fa04f888b99",
    12: "6a3b299251fdf506bf7bbb5aadabc873fb7170626616e4b79fb033d6c01e427f",
}
"""By level: the SHA-256 of the known text as one gzip member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How a layer's tar is stored: everything that decides a byte of the blob, given the tar.

    ``level`` is libdeflate's, 1 to 12.
    """

    name: str = NAME
    compressor: str = COMPRESSOR
    level: int = 6

    def __post_init__(self) -> None:
        if self.name != NAME or self.compressor != COMPRESSOR:
            raise ValueError(f"unknown layer encoding: {self.name} by {self.compressor}")
        if self.level not in _LEVELS:
            raise ValueError(f"{COMPRESSOR} has levels 1 to 12, not {self.level}")

    @property
    def media_type(self) -> str:
        """The media type of a layer in this encoding."""
        return MEDIA_TYPE

    def to_document(self) -> dict[str, Json]:
        """Return the encoding as the part of a derivation that it is.

        The compressor stands there by what it makes of a known text: its wheel has another hash on each platform.
        """
        return {
            "derive": TAG,
            "name": self.name,
            "compressor": self.compressor,
            "level": self.level,
            "known-answer": f"sha256:{_KNOWN_ANSWERS[self.level]}",
            "segment": SEGMENT,
            "carry": [],
        }

    @classmethod
    def from_document(cls, document: Json) -> Encoding:
        """Read what :meth:`to_document` wrote; raises ValueError on anything else, carried streams among it."""
        keys = ("name", "compressor", "level", "known-answer", "segment", "carry")
        found = fields(document, tag=TAG, keys=keys)
        if items(found, "carry"):
            raise ValueError(f"{NAME} carries no compressed streams over")
        encoding = cls(name=text(found, "name"), compressor=text(found, "compressor"), level=integer(found, "level"))
        if encoding.to_document() != document:
            raise ValueError(f"{TAG}: another compressor or segment size than this program has")
        return encoding


def segments(pieces: Iterable[Piece], read: Callable[[File], Iterable[bytes]]) -> Iterator[bytes]:
    """Cut a tar stream; the segments joined are the stream. Holds at most one segment and what ``read`` gives at once.

    Raises:
        Corrupt: when ``read`` gives more or fewer bytes than the entry states.
    """
    gathered = bytearray()
    unit = bytearray()  # the header of an entry, then its contents: never cut apart unless large
    for piece in pieces:
        match piece:
            case Header(path, data):
                yield from _join(gathered, unit)
                if gathered and _cut_before(path):
                    yield _taken(gathered)
                unit += data
            case Contents(path, file) if file.size >= LARGE:
                yield from _join(gathered, unit)
                yield _taken(gathered)
                yield from _steps(_exactly(path, file, read(file)), piece.padding)
            case Contents(path, file):
                for chunk in _exactly(path, file, read(file)):
                    unit += chunk
                unit += piece.padding
            case End():
                yield from _join(gathered, unit)
                unit += END
            case _:
                assert_never(piece)
    yield from _join(gathered, unit)
    if gathered:
        yield _taken(gathered)


def members(cut: Iterable[bytes], encoding: Encoding, *, jobs: int) -> Iterator[bytes]:
    """Compress each segment as one gzip member, in order, with ``jobs`` threads and a bounded look-ahead.

    Raises:
        HostRefuses: when the compressor at hand is not the pinned one.
    """
    from concurrent.futures import Future, ThreadPoolExecutor

    check_compressor(encoding.level)
    ahead = 2 * max(jobs, 1)
    pending: deque[Future[bytes]] = deque()
    pool = ThreadPoolExecutor(max(jobs, 1), thread_name_prefix="member")
    try:
        for segment in cut:
            pending.append(pool.submit(member, segment, encoding.level))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def member(segment: bytes, level: int) -> bytes:
    """Return one gzip member."""
    import deflate

    body = deflate.deflate_compress(segment, level)
    tail = deflate.crc32(segment).to_bytes(4, "little") + (len(segment) & 0xFFFFFFFF).to_bytes(4, "little")
    return b"".join((MEMBER_HEADER, body, tail))


def known_text() -> bytes:
    """Return 64 KiB that any programmer can make again: decimal numbers, noise, a byte pattern, and repeats of all."""
    numbers = b" ".join(b"%d" % (n * n) for n in range(4000))[:16384]
    noise = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(512))
    pattern = bytes(n * n % 251 for n in range(16384))
    repeats = b"".join(part[at : at + 97] for at in range(0, 16384, 97) for part in (numbers, noise, pattern))[:16384]
    return numbers + noise + pattern + repeats


@cache
def check_compressor(level: int) -> None:
    """Compress the known text and compare: a compressor that gives other bytes would give other digests.

    Raises:
        HostRefuses: when the bytes differ.
    """
    got = hashlib.sha256(member(known_text(), level)).hexdigest()
    if got != _KNOWN_ANSWERS[level]:
        raise HostRefuses(
            "the compressor is not the pinned one",
            detail=expected_got(f"sha256:{_KNOWN_ANSWERS[level]}", f"sha256:{got}"),
            hint=f"install {DISTRIBUTION} from its wheel into this environment",
        )


def _cut_before(path: bytes) -> bool:
    """Say whether an entry begins a segment by its name alone: one in 64 does, so cuts fall into step again."""
    return zlib.crc32(path) % _ONE_IN == 0


def _join(gathered: bytearray, unit: bytearray) -> Iterator[bytes]:
    """Move the unit to what is gathered, which is yielded first where both together would pass the limit."""
    if gathered and len(gathered) + len(unit) > SEGMENT:
        yield _taken(gathered)
    gathered += unit
    unit.clear()


def _taken(buffer: bytearray) -> bytes:
    taken = bytes(buffer)
    buffer.clear()
    return taken


def _steps(chunks: Iterable[bytes], padding: bytes) -> Iterator[bytes]:
    """Cut the contents of a large file every ``SEGMENT`` bytes from its start; the padding goes with the last step."""
    step = bytearray()
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            if len(step) == SEGMENT:
                yield _taken(step)
            room = SEGMENT - len(step)
            step += view[:room]
            view = view[room:]
    yield _taken(step) + padding


def _exactly(path: bytes, file: File, chunks: Iterable[bytes]) -> Iterator[bytes]:
    seen = 0
    for chunk in chunks:
        seen += len(chunk)
        yield chunk
    if seen != file.size:
        raise Corrupt(f"the contents of {escape(path)} have another size", detail=expected_got(file.size, seen))
