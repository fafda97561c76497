# SPDX-License-Identifier: Apache-2.0
"""An ordered list of entries becomes a tar stream: a dumb writer that fixes time, owner names, order and padding.

Core: no IO. Contents are references that the caller reads.

The bytes are specified on docs/formats/layer.md: ustar headers, a pax header only where ustar cannot hold a fact.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from derive.canonical import EPOCH, escape
from derive.images.modes import Attributes, ModeTable
from derive.trees.listing import Directory, Entry, File, Symlink, check_path, nar_key

BLOCK = 512
END = b"\0" * (2 * BLOCK)
"""What closes an archive. No padding to a record of 20 blocks: a layer is read as a stream, never from a tape."""

_NAME = 100
_PREFIX = 155
_MAX_SIZE = 8**11  # the size field holds eleven octal digits
_PAX_NAME = b"././@PaxHeader"  # a name with a process id would differ between runs
_HEADER = struct.Struct("100s8s8s8s12s12s8sc100s8s32s32s8s8s155s12x")
_NO_DEVICE = b"0000000\0"
_MTIME = b"%011o\0" % EPOCH
_BLANK_SUM = b" " * 8
_MAGIC = b"ustar\x0000"


@dataclass(frozen=True, slots=True)
class Header:
    """The header blocks of an entry, the extended ones first."""

    path: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a file with at least one byte, which its header announced; ``padding`` follows them."""

    path: bytes
    file: File

    @property
    def padding(self) -> bytes:
        """Zeros up to a whole block."""
        return b"\0" * (-self.file.size % BLOCK)


@dataclass(frozen=True, slots=True)
class End:
    """The two zero blocks after the last entry."""


Piece: TypeAlias = Header | Contents | End


def headers(entries: Iterable[tuple[bytes, Entry]], modes: ModeTable) -> Iterator[Piece]:
    """Yield the pieces of a tar archive of these entries, which come in NAR order; the root folder has no header.

    Raises:
        ValueError: on the same path twice, an entry out of order or without its parent, an illegal path, a root that
            is no folder.
    """
    before: bytes | None = None
    folders = {b""}
    for path, entry in entries:
        check_path(path)
        key = nar_key(path)
        if before is not None and key <= before:
            what = "the same path twice" if key == before else "out of order"
            raise ValueError(f"{what}: {escape(path)}")
        before = key
        if path == b"":
            if not isinstance(entry, Directory):
                raise ValueError("a tar archive needs a tree whose root is a folder")
            continue
        if path.rpartition(b"/")[0] not in folders:
            raise ValueError(f"no folder above {escape(path)}")
        if isinstance(entry, Directory):
            folders.add(path)
        yield Header(path, header(path, entry, modes.attributes(path, entry)))
        if isinstance(entry, File) and entry.size:
            yield Contents(path, entry)
    yield End()


def stream(
    entries: Iterable[tuple[bytes, Entry]], modes: ModeTable, read: Callable[[File], Iterable[bytes]]
) -> Iterator[bytes]:
    """Yield the bytes of a tar archive; contents pass through as ``read`` gives them.

    Raises:
        ValueError: as :func:`headers`, and when ``read`` gives more or fewer bytes than the entry states.
    """
    for piece in headers(entries, modes):
        match piece:
            case Header():
                yield piece.data
            case Contents(path, file):
                seen = 0
                for chunk in read(file):
                    seen += len(chunk)
                    yield chunk
                if seen != file.size:
                    raise ValueError(f"{escape(path)}: {seen} bytes read, {file.size} listed")
                yield piece.padding
            case End():
                yield END
            case _:
                assert_never(piece)


def header(path: bytes, entry: Entry, attributes: Attributes) -> bytes:
    """Return the header blocks of one entry, with a pax header before them where one is needed."""
    size, target, kind = 0, b"", b"0"
    match entry:
        case Directory():
            path, kind = path + b"/", b"5"
        case Symlink(target):
            kind = b"2"
        case File():
            size = entry.size
        case _:
            assert_never(entry)
    records: dict[bytes, bytes] = {}
    split = _split(path)
    if split is None:
        records[b"path"] = path
        split = path[:_NAME], b""
    if len(target) > _NAME or not target.isascii():
        records[b"linkpath"] = target
    if size >= _MAX_SIZE:
        records[b"size"] = b"%d" % size
        size = 0
    block = _block(split, kind=kind, size=size, target=target[:_NAME], attributes=attributes)
    return _pax(records) + block if records else block


def _split(path: bytes) -> tuple[bytes, bytes] | None:
    """Return (name, prefix) as ustar holds them, the prefix as short as can be; None when ustar cannot."""
    if not path.isascii():
        return None
    if len(path) <= _NAME:
        return path, b""
    at = path.find(b"/", len(path) - _NAME - 1)
    if 0 < at <= _PREFIX and at < len(path) - 1:
        return path[at + 1 :], path[:at]
    return None


def _pax(records: dict[bytes, bytes]) -> bytes:
    """Return an extended header: its own block, then its records in the order of their keywords."""
    if any(not _is_utf8(value) for value in records.values()):
        records[b"hdrcharset"] = b"BINARY"  # else a reader may take the bytes for UTF-8
    body = b"".join(_record(key, records[key]) for key in sorted(records))
    block = _block((_PAX_NAME, b""), kind=b"x", size=len(body), target=b"", attributes=Attributes(0o644, 0, 0))
    return block + body + b"\0" * (-len(body) % BLOCK)


def _record(key: bytes, value: bytes) -> bytes:
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest)
    while length != len(rest) + len(str(length)):  # the length counts its own digits
        length = len(rest) + len(str(length))
    return b"%d" % length + rest


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _block(split: tuple[bytes, bytes], *, kind: bytes, size: int, target: bytes, attributes: Attributes) -> bytes:
    name, prefix = split
    block = bytearray(
        _HEADER.pack(
            name,
            b"%07o\0" % attributes.mode,
            b"%07o\0" % attributes.uid,
            b"%07o\0" % attributes.gid,
            b"%011o\0" % size,
            _MTIME,
            _BLANK_SUM,
            kind,
            target,
            _MAGIC,
            b"",  # no user name: a reader would look it up on its own machine
            b"",
            _NO_DEVICE,
            _NO_DEVICE,
            prefix,
        )
    )
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)
