# SPDX-License-Identifier: Apache-2.0
"""The deflate streams of wheels that stand in a layer as they are: which ones, and what must be true of them.

Core: no IO of its own; it reads through the function that it is given.

What is carried follows from the archives and from the hashes of their unpacked trees, which the layer's derivation
names, and never from where a store happens to hold contents. So a patched, generated or byte-compiled file is never
carried: no archive has it. Specified on docs/formats/layer.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from derive.archives.names import DEFAULT_LIMITS, broken
from derive.archives.stream import Bytes
from derive.archives.zip import ZipEntry, close_entry, open_entry, read_directory
from derive.canonical import Digest
from derive.errors import expected_got
from derive.images.compressor import MEMBER_HEADER, trailer
from derive.images.pipeline import Piece
from derive.store.inflate import InflateError, inflate
from derive.trees.listing import File, Listing

Content: TypeAlias = tuple[Digest, int]
"""What a file holds: the SHA-256 of its contents, and their size in bytes."""

ReadBlob: TypeAlias = Callable[[Digest, int, int], Iterator[bytes]]
"""``read(blob, offset, size)`` yields exactly that slice, in pieces."""

_GATHERED = 1 << 20  # bytes: handing a small piece from thread to thread would cost as much as hashing it


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """An archive whose streams may be carried: its file name, its bytes, and the tree that it unpacks to."""

    name: str
    archive: Digest
    size: int
    members: Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One deflated entry of a wheel."""

    wheel: str
    archive: Digest
    entry: ZipEntry


def content_of(file: File) -> Content:
    """Return what decides whether a file is carried."""
    return file.sha256, file.size


def carry_map(wheels: Iterable[Wheel], least: int, read_blob: ReadBlob) -> dict[Content, Stream]:
    """Return the stream for each content of at least ``least`` bytes that one of the wheels has deflated.

    Where there are several, the first wheel's first one in the order of the archive.

    Raises:
        InputErrors, Corrupt: from the archives, and when a tree is not what its archive unpacks to.
    """
    found: dict[Content, Stream] = {}
    for wheel in wheels:
        for entry, file in _entries(wheel, read_blob):
            if entry.deflated and file.size >= least:
                found.setdefault(content_of(file), Stream(wheel=wheel.name, archive=wheel.archive, entry=entry))
    return found


def carried(stream: Stream, file: File, read_blob: ReadBlob) -> Iterator[Piece]:
    """Yield the gzip member around a carried stream, with what it holds; nothing is the last piece before all is true.

    Raises:
        Corrupt: when the contents have another size, CRC or SHA-256 than listed, or the archive another structure.
    """
    import deflate

    name, entry = stream.wheel, stream.entry
    data = Bytes(name, read_blob(stream.archive, entry.header, entry.room))
    head = open_entry(name, entry, data)
    hasher, crc, size = hashlib.sha256(), 0, 0
    members, contents, gathered = [MEMBER_HEADER], list[bytes](), 0
    try:
        for stored, plain in inflate(data.pieces(entry.stored)):
            if gathered >= _GATHERED:
                yield Piece(tuple(members), tuple(contents))
                members, contents, gathered = [], [], 0
            members.append(stored)
            contents.append(plain)
            gathered += len(stored) + len(plain)
            hasher.update(plain)
            crc = deflate.crc32(plain, crc)
            size += len(plain)
            if size > file.size:
                break
    except InflateError as error:
        raise broken(name, f"an entry whose data {error}", path=entry.name) from error
    got, wanted = (size, crc, hasher.hexdigest()), (file.size, entry.crc, file.sha256.hex)
    if got != wanted:
        detail = expected_got(*("{} bytes, CRC {:08x}, sha256:{}".format(*facts) for facts in (wanted, got)))
        raise broken(name, "an entry that is not what was unpacked of it", path=entry.name, detail=detail)
    close_entry(name, entry, data, entry.room - head - entry.stored)
    yield Piece((*members, trailer(crc, size)), tuple(contents), is_last=True)


def _entries(wheel: Wheel, read_blob: ReadBlob) -> Iterator[tuple[ZipEntry, File]]:
    """Yield each file's entry with what the unpacked tree says of it, after comparing the two trees as a whole."""

    def read(offset: int, size: int) -> Iterator[bytes]:
        return read_blob(wheel.archive, offset, size)

    entries = read_directory(wheel.name, read, wheel.size, DEFAULT_LIMITS)
    files = dict(wheel.members.files())
    for entry in entries:
        if entry.kind != "file":
            continue
        file = files.pop(entry.path, None)
        if file is None or file.size != entry.size:
            detail = expected_got(f"{entry.size} bytes", "no file" if file is None else f"{file.size} bytes")
            raise broken(wheel.name, "an unpacked tree that is not this archive's", path=entry.name, detail=detail)
        yield entry, file
    for path in files:
        raise broken(wheel.name, "an unpacked tree with a file that this archive lacks", path=path)
