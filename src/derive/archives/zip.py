# SPDX-License-Identifier: Apache-2.0
"""Zip archives whose central directory and local headers must tell one story; contents stay where they lie.

Core: no IO. Bytes come from the function that the caller gives.

Python's own reader is not used: it believes the central directory alone, so that two readers of one archive may see two
trees. Understood on docs/builders/unpack.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from derive.archives.names import Limits, broken, member_path, refused
from derive.archives.stream import Bytes
from derive.errors import Corrupt, expected_got

ReadPieces: TypeAlias = Callable[[int, int], Iterator[bytes]]
"""``read(offset, size)`` yields exactly that slice of the archive, in pieces of at most 1 MiB."""

Kind: TypeAlias = Literal["file", "folder", "link"]

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_END_MAGIC = b"PK\x05\x06"
_LOCAL_MAGIC = b"PK\x03\x04"
_ENCRYPTED = 0x2041  # traditional, strong, and hidden headers
_DESCRIPTOR = 0x0008
_UTF8 = 0x0800
_KNOWN_FLAGS = _DESCRIPTOR | _UTF8 | 0x0006  # and the two hints on how hard deflate tried
_LINK, _FOLDER, _FILE = 0o120000, 0o040000, 0o100000
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_DESCRIPTOR_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipEntry:
    """One entry of the central directory. Sizes and offsets in bytes; ``stored`` is the size in the archive."""

    path: bytes
    name: bytes
    kind: Kind
    mode: int
    flags: int
    deflated: bool
    crc: int
    stored: int
    size: int
    header: int
    room: int
    """Bytes from the local header to the next entry's, or to the central directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Directory:
    offset: int
    size: int
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Central:
    """A central header with what belongs to it."""

    name: bytes
    flags: int
    method: int
    crc: int
    stored: int
    size: int
    header: int
    attributes: int


def read_directory(archive: str, read: ReadPieces, size: int, limits: Limits) -> tuple[ZipEntry, ...]:
    """Return the entries of a zip of ``size`` bytes, in the order in which they lie in it.

    Raises:
        InputErrors: for an entry that no archive may hold, or sizes beyond the limits, by name.
        Corrupt: when it is no zip archive, is cut short, or its entries overlap.
    """
    directory = _find_directory(archive, read, size)
    if directory.entries > limits.entries:
        raise refused(archive, None, f"an archive of {directory.entries} members, more than {limits.entries}")
    stream = Bytes(archive, read(directory.offset, directory.size))
    found = [_central(archive, stream) for _ in range(directory.entries)]
    if not stream.at_end():
        raise broken(archive, "a central directory with bytes that belong to no entry")
    total = sum(entry.size for entry in found)
    if total > limits.allowed(size):
        raise refused(archive, None, f"an archive that unpacks to {total} bytes, more than {limits.allowed(size)}")
    found.sort(key=lambda entry: entry.header)
    ends = [entry.header for entry in found[1:]] + [directory.offset] * bool(found)
    if (found[0].header if found else directory.offset) != 0:
        raise broken(archive, "bytes before the first entry of a zip archive")
    entries = tuple(_entry(archive, entry, end, limits) for entry, end in zip(found, ends, strict=True))
    _refuse_duplicates(archive, entries)
    return entries


def open_entry(archive: str, entry: ZipEntry, stream: Bytes) -> int:
    """Read an entry's local header, from a stream that starts there; returns its length in bytes.

    Raises:
        Corrupt: when it does not say what the central directory says.
    """
    header = _LOCAL.unpack(stream.exactly(_LOCAL.size))
    magic, _, flags, method, _, _, crc, stored, size, name_size, extra_size = header
    if magic != _LOCAL_MAGIC:
        raise broken(archive, "no local header where the central directory says", path=entry.name)
    name = stream.exactly(name_size)
    extra = _extras(archive, entry.name, stream.exactly(extra_size))
    if _FULL32 in (stored, size):
        wide = extra.get(1, b"")
        if len(wide) < 16:
            raise broken(archive, "a local header without its 64-bit sizes", path=entry.name)
        size, stored = struct.unpack_from("<2Q", wide)
    central, local = (entry.name, entry.flags, 8 if entry.deflated else 0), (name, flags, method)
    if local != central:
        detail = expected_got(central, local)
        raise broken(archive, "a local header unlike the central directory", path=entry.name, detail=detail)
    later = (0,) if flags & _DESCRIPTOR else ()
    for what, got, wanted in (("CRC", crc, entry.crc), ("size", stored, entry.stored), ("size", size, entry.size)):
        if got not in (wanted, *later):
            detail = expected_got(wanted, got)
            raise broken(archive, f"a local header with another {what}", path=entry.name, detail=detail)
    length: int = _LOCAL.size + name_size + extra_size
    if length + entry.stored > entry.room:
        raise _overlap(archive, entry.name)
    return length


def close_entry(archive: str, entry: ZipEntry, stream: Bytes, left: int) -> None:
    """Check what follows an entry's data: its descriptor if it has one, and no entry that the directory hides.

    ``left`` is how many bytes there are before the next entry.
    """
    after = stream.exactly(min(left, _DESCRIPTOR_BYTES + 4))
    if entry.flags & _DESCRIPTOR:
        forms = [
            magic + struct.pack(layout, entry.crc, entry.stored, entry.size)
            for magic in (b"PK\x07\x08", b"")
            for layout in ("<LQQ", "<LLL")
            if layout == "<LQQ" or max(entry.stored, entry.size) <= _FULL32
        ]
        form = next((form for form in forms if after.startswith(form)), None)
        if form is None:
            raise broken(archive, "a data descriptor unlike the central directory", path=entry.name)
        after = after[len(form) :]
    if after.startswith(_LOCAL_MAGIC):
        raise broken(archive, "an entry that the central directory does not name", path=entry.name)


def _find_directory(archive: str, read: ReadPieces, size: int) -> _Directory:
    end, fields = _find_end(archive, read, size)
    disk, first_disk, here, entries, directory_size, offset = fields
    found = _wide_end(archive, read, end)
    stop = end
    if found is None:
        if disk or first_disk or here != entries:
            raise broken(archive, "a zip archive in several parts")
        found = _Directory(offset=offset, size=directory_size, entries=entries)
    else:
        stop -= _LOCATOR64.size + _END64.size
        pairs = ((entries, found.entries), (directory_size, found.size), (offset, found.offset))
        if any(small not in (large, _FULL16, _FULL32) for small, large in pairs):
            raise broken(archive, "a zip archive whose two ends differ")
    if found.offset + found.size != stop:
        detail = expected_got(stop, found.offset + found.size)
        raise broken(archive, "a zip archive whose directory does not reach its end", detail=detail)
    if found.entries * _CENTRAL.size > found.size:
        raise broken(archive, "a central directory that is too short for its entries")
    return found


def _find_end(archive: str, read: ReadPieces, size: int) -> tuple[int, tuple[int, ...]]:
    """Return where the end record starts, and its numbers; a comment that holds another end is refused."""
    tail_size = min(size, _END.size + _FULL16)
    tail = b"".join(read(size - tail_size, tail_size))
    places = []
    place = tail.rfind(_END_MAGIC)
    while place >= 0:
        whole = place + _END.size <= tail_size
        if whole and place + _END.size + int.from_bytes(tail[place + 20 : place + 22], "little") == tail_size:
            places.append(place)
        place = tail.rfind(_END_MAGIC, 0, place)
    if len(places) != 1:
        raise broken(archive, "a zip archive with two ends" if places else "not a zip archive, or cut short")
    return size - tail_size + places[0], _END.unpack_from(tail, places[0])[1:7]


def _wide_end(archive: str, read: ReadPieces, end: int) -> _Directory | None:
    """Return what the 64-bit end of the directory says, when there is one right before the other."""
    start = end - _LOCATOR64.size
    if start < _END64.size:
        return None
    magic, disk, offset, disks = _LOCATOR64.unpack(b"".join(read(start, _LOCATOR64.size)))
    if magic != b"PK\x06\x07":
        return None
    if disk or disks > 1 or offset != start - _END64.size:
        raise broken(archive, "a 64-bit end of a zip archive that is out of place")
    fields = _END64.unpack(b"".join(read(offset, _END64.size)))
    magic, rest, _, _, disk, first_disk, here, entries, size, directory = fields
    if magic != b"PK\x06\x06" or rest != _END64.size - 12 or disk or first_disk or here != entries:
        raise broken(archive, "a 64-bit end of a zip archive that cannot be read")
    return _Directory(offset=directory, size=size, entries=entries)


def _central(archive: str, stream: Bytes) -> _Central:
    fields = _CENTRAL.unpack(stream.exactly(_CENTRAL.size))
    magic, _, _, flags, method, _, _, crc, stored, size, name_size, extra_size, comment_size = fields[:13]
    disk, _, attributes, header = fields[13:]
    if magic != b"PK\x01\x02":
        raise broken(archive, "a central directory that cannot be read")
    name = stream.exactly(name_size)
    extra = _extras(archive, name, stream.exactly(extra_size))
    stream.skip(comment_size)
    wide = extra.get(1, b"")
    values = []
    for value in (size, stored, header):
        if value != _FULL32:
            values.append(value)
            continue
        if len(wide) < 8:
            raise broken(archive, "a central header without its 64-bit sizes", path=name)
        values.append(int.from_bytes(wide[:8], "little"))
        wide = wide[8:]
    if disk not in (0, _FULL16):
        raise broken(archive, "a zip archive in several parts", path=name)
    _check_name(archive, name, flags, extra.get(0x7075))
    return _Central(
        name=name,
        flags=flags,
        method=method,
        crc=crc,
        size=values[0],
        stored=values[1],
        header=values[2],
        attributes=attributes,
    )


def _extras(archive: str, name: bytes, data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    start = 0
    while start + 4 <= len(data):
        kind, length = struct.unpack_from("<2H", data, start)
        if start + 4 + length > len(data) or (kind in (1, 0x7075) and kind in found):
            raise broken(archive, "an extra field that cannot be read", path=name)
        found[kind] = data[start + 4 : start + 4 + length]
        start += 4 + length
    return found


def _check_name(archive: str, name: bytes, flags: int, unicode_path: bytes | None) -> None:
    if b"\\" in name:
        raise refused(archive, name, "a backslash in a zip entry's name")
    if not name.isascii():
        try:
            name.decode("utf-8" if flags & _UTF8 else "ascii")
        except UnicodeDecodeError as error:
            raise refused(archive, name, "a name that is neither ASCII nor marked as UTF-8") from error
    if unicode_path is not None and unicode_path[5:] != name:
        raise refused(archive, name, "an entry with two names")


def _entry(archive: str, central: _Central, end: int, limits: Limits) -> ZipEntry:
    name, flags = central.name, central.flags
    if flags & _ENCRYPTED:
        raise refused(archive, name, "an encrypted entry")
    if flags & ~_KNOWN_FLAGS:
        raise refused(archive, name, f"an entry with unknown flags {flags:#06x}")
    if central.method not in (0, 8):
        raise refused(archive, name, f"an entry compressed with method {central.method}, neither stored nor deflate")
    if central.method == 0 and central.stored != central.size:
        raise broken(archive, "a stored entry with two sizes", path=name)
    room = end - central.header
    if room < _LOCAL.size + len(name) + central.stored:
        raise _overlap(archive, name)
    path = member_path(archive, name, limits)
    kind = _kind(archive, central)
    if not path and kind != "folder":
        raise refused(archive, name, "a member that is named as a folder and is none")
    return ZipEntry(
        path=path,
        name=name,
        kind=kind,
        mode=central.attributes >> 16,
        flags=flags,
        deflated=central.method == 8,
        crc=central.crc,
        stored=central.stored,
        size=central.size,
        header=central.header,
        room=room,
    )


def _kind(archive: str, central: _Central) -> Kind:
    kind = central.attributes >> 16 & 0o170000
    folder = central.name.endswith(b"/")
    if folder and kind in (0, _FOLDER):
        if central.size:
            raise refused(archive, central.name, "a folder that carries contents")
        return "folder"
    if not folder and kind in (0, _FILE):
        return "file"
    if not folder and kind == _LINK:
        return "link"
    if kind in (_FOLDER, _FILE, _LINK):
        raise refused(archive, central.name, "an entry that is a folder by name or by mode, and not by both")
    raise refused(archive, central.name, "a device, fifo or socket in an archive")


def _overlap(archive: str, name: bytes) -> Corrupt:
    return broken(archive, "an entry that overlaps the next", path=name)


def _refuse_duplicates(archive: str, entries: tuple[ZipEntry, ...]) -> None:
    seen: set[bytes] = set()
    for entry in entries:
        if entry.path in seen:
            raise refused(archive, entry.name, "the same path twice in a zip archive")
        seen.add(entry.path)
