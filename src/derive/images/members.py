# SPDX-License-Identifier: Apache-2.0
"""A tar stream cut at places that its content decides, each segment one gzip member; a carried file is one too.

Core: no IO. Worker threads compress and inflate, and decide neither a byte nor the order.

Where the cuts lie is specified on docs/formats/layer.md. A segment is a function of the entries in it, so a changed
file leaves the members of distant files as they were.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias, assert_never

from derive.canonical import escape
from derive.errors import Corrupt, expected_got
from derive.images.carry import Content, ReadBlob, Stream, carried, content_of
from derive.images.compressor import check_compressor, member
from derive.images.encoding import SEGMENT
from derive.images.pipeline import Piece, in_order
from derive.images.tar import END, Contents, End, Header
from derive.images.tar import Piece as TarPiece
from derive.trees.listing import File

LARGE = SEGMENT // 2
"""A file of this many bytes or more has segments of its own."""

_ONE_IN = 64
_NONE: Mapping[Content, Stream] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Carried:
    """The contents of a file whose stream is carried over."""

    file: File
    stream: Stream


Segment: TypeAlias = bytes | Carried
"""What becomes one gzip member."""


def segments(
    pieces: Iterable[TarPiece], read: Callable[[File], Iterable[bytes]], carry: Mapping[Content, Stream] = _NONE
) -> Iterator[Segment]:
    """Cut a tar stream; the segments joined are the stream. Holds at most one segment and what ``read`` gives at once.

    The contents of a file that is in ``carry`` are not read.

    Raises:
        Corrupt: when ``read`` gives more or fewer bytes than the entry states.
    """
    gathered = bytearray()
    unit = bytearray()  # the header of an entry, then its contents: never cut apart unless large or carried
    follows = False  # whether the unit begins with the padding of what was carried, which goes with the next entry
    for piece in pieces:
        match piece:
            case Header(path, data):
                if not follows:
                    yield from _join(gathered, unit)
                    if gathered and _cut_before(path):
                        yield _taken(gathered)
                unit += data
                follows = False
            case Contents(path, file) if (stream := carry.get(content_of(file))) is not None:
                yield from _join(gathered, unit)
                yield _taken(gathered)
                yield Carried(file, stream)
                unit += piece.padding
                follows = True
            case Contents(path, file) if file.size >= LARGE:
                yield from _join(gathered, unit)
                yield _taken(gathered)
                yield from _steps(_exactly(path, file, read(file)), piece.padding)
            case Contents(path, file):
                for chunk in _exactly(path, file, read(file)):
                    unit += chunk
                unit += piece.padding
            case End():
                if not follows:
                    yield from _join(gathered, unit)
                unit += END
            case _:
                assert_never(piece)
    yield from _join(gathered, unit)
    if gathered:
        yield _taken(gathered)


def members(cut: Iterable[Segment], level: int, read_blob: ReadBlob, *, jobs: int) -> Iterator[Piece]:
    """Yield the gzip members of segments, in order, piece by piece, made by ``jobs`` threads with a bounded look-ahead.

    Raises:
        HostRefuses: when the compressor at hand is not the pinned one.
        Corrupt: when what a carried stream holds is not what is listed.
    """

    def made(segment: Segment) -> Iterator[Piece]:
        match segment:
            case Carried(file, stream):
                yield from carried(stream, file, read_blob)
            case bytes():
                yield Piece((member(segment, level),), (segment,), is_last=True)
            case _:
                assert_never(segment)

    check_compressor(level)
    return in_order(map(made, cut), jobs=jobs)


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
