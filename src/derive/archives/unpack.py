# SPDX-License-Identifier: Apache-2.0
"""Archives of the store become listings in the store; nothing is laid out on disk, and memory stays constant.

Core: no IO of its own; it reads and writes through the store that it is given.

A tar's contents are written once, into one pack. A zip's stay in the zip: its files are located as slices of it, stored
or deflated, so that a wheel costs no space beside the one that was fetched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from derive.archives.deb import read_deb
from derive.archives.identity import Expected
from derive.archives.names import (
    DEFAULT_LIMITS,
    Admission,
    Limits,
    LinkRule,
    Stripper,
    broken,
    check_links,
    link_target,
    refused,
)
from derive.archives.notes import Note, Replaced, below, mode_note, to_text
from derive.archives.stream import Bytes, decompressed
from derive.archives.tar import HardLink, TarMember, read_tar
from derive.archives.zip import ZipEntry, close_entry, open_entry, read_directory
from derive.canonical import Digest, escape
from derive.errors import expected_got
from derive.store.inflate import InflateError, inflate
from derive.store.protocol import Store
from derive.trees.listing import DIRECTORY, Directory, Entry, File, Listing, ListingError, Location, Symlink
from derive.trees.pack import NewFile, add_members

_Shape: TypeAlias = Symlink | Directory | bytes
"""What stands at a path while its archive is read; bytes are the key of a file in the pack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """A tree whose contents are in the store, and what of the archive it does not keep."""

    listing: Listing
    notes: tuple[Note, ...]


def unpack_tar(
    store: Store,
    blob: Digest,
    *,
    name: str,
    strip: int = 0,
    links: LinkRule = "inside",
    limits: Limits = DEFAULT_LIMITS,
) -> Unpacked:
    """Unpack a tar archive, plain or compressed; ``name`` is what errors call it, ``strip`` drops leading folders.

    Raises:
        InputErrors: for members that no archive may hold, by name.
        Corrupt: when the archive is damaged or cut short.
        Missing: when the blob is not in the store.
    """
    notes: list[Note] = []
    shapes: dict[bytes, _Shape] = {}
    stream = _open_tar(store, blob, 0, store.blob_size(blob), name, limits)
    members = read_tar(name, stream, notes, limits=limits, strip=strip)
    packed = add_members(store, _gather(name, b"files", members, shapes, notes, limits))
    entries = _entries(name, shapes, packed, links)
    return Unpacked(listing=_listing(name, entries), notes=_ordered(notes))


def unpack_sdist(
    store: Store, blob: Digest, *, name: str, expected: Expected | None = None, limits: Limits = DEFAULT_LIMITS
) -> Unpacked:
    """Unpack a source distribution without its one top folder; its PKG-INFO must state what is expected.

    Raises:
        InputErrors: as :func:`unpack_tar`, and when it is another artifact than expected.
        Corrupt: when the archive is damaged or cut short.
    """
    from derive.wheels.metadata import check_sdist

    unpacked = unpack_tar(store, blob, name=name, strip=1, limits=limits)
    if expected is not None:
        check_sdist(name, store, unpacked.listing, expected)
    return unpacked


def unpack_deb(
    store: Store, blob: Digest, *, name: str, expected: Expected | None = None, limits: Limits = DEFAULT_LIMITS
) -> Unpacked:
    """Unpack a .deb into ``control/``, ``data/`` and the file ``notes``, which lists what the tree does not keep.

    Raises:
        InputErrors: for members that no archive may hold, and when it is another package than expected.
        Corrupt: when it is no .deb of format 2.0, damaged, or cut short.
    """
    from derive.debian.control import check_control

    parts = read_deb(name, lambda offset, size: b"".join(store.read_blob(blob, offset, size)), store.blob_size(blob))
    trees: list[tuple[bytes, dict[bytes, _Shape], list[Note]]] = []
    streams: list[Iterator[tuple[bytes, NewFile]]] = []
    for prefix, part in ((b"control", parts.control), (b"data", parts.data)):
        shapes: dict[bytes, _Shape] = {}
        notes: list[Note] = []
        stream = _open_tar(store, blob, part.offset, part.size, name, limits)
        members = read_tar(name, stream, notes, limits=limits)
        streams.append(_gather(name, prefix, members, shapes, notes, limits))
        trees.append((prefix, shapes, notes))

    def all_notes() -> Iterator[Note]:
        return (below(prefix, note) for prefix, _, notes in trees for note in notes)

    def note_file() -> Iterator[tuple[bytes, NewFile]]:
        # Asked for last, when every note has been taken.
        yield b"notes", NewFile(executable=False, chunks=[to_text(all_notes())])

    packed = add_members(store, chain(*streams, note_file()))
    entries: dict[bytes, Entry] = {b"notes": packed[b"notes"]}
    for prefix, shapes, _ in trees:
        entries[prefix] = DIRECTORY
        for path, entry in _entries(name, shapes, packed, "root").items():
            entries[prefix + b"/" + path if path else prefix] = entry
    listing = _listing(name, entries)
    check_control(name, store, listing, expected)
    return Unpacked(listing=listing, notes=_ordered(all_notes()))


def unpack_zip(store: Store, blob: Digest, *, name: str, strip: int = 0, limits: Limits = DEFAULT_LIMITS) -> Unpacked:
    """Unpack a zip; files stay where they lie in it. Symbolic links may lead anywhere inside the tree.

    Raises:
        InputErrors: for entries that no archive may hold, by name.
        Corrupt: when the archive is damaged, cut short or ambiguous.
    """
    return _unpack_zip(store, blob, name=name, strip=strip, limits=limits)


def unpack_wheel(
    store: Store, blob: Digest, *, name: str, expected: Expected | None = None, limits: Limits = DEFAULT_LIMITS
) -> Unpacked:
    """Unpack a wheel; files stay where they lie in it. A wheel holds no links.

    Raises:
        InputErrors: as :func:`unpack_zip`, and when it is another artifact than expected.
        Corrupt: when the archive is damaged, cut short or ambiguous.
    """
    from derive.wheels.metadata import check_wheel

    unpacked = _unpack_zip(store, blob, name=name, strip=0, limits=limits)
    for path, entry in unpacked.listing.items():
        if isinstance(entry, Symlink):
            raise refused(name, path, "a symbolic link in a wheel")
    if expected is not None:
        check_wheel(name, store, unpacked.listing, expected)
    return unpacked


def _open_tar(store: Store, blob: Digest, offset: int, size: int, name: str, limits: Limits) -> Bytes:
    return Bytes(name, decompressed(name, store.read_blob(blob, offset, size), limits.allowed(size)))


def _gather(
    name: str,
    prefix: bytes,
    members: Iterable[tuple[bytes, TarMember]],
    shapes: dict[bytes, _Shape],
    notes: list[Note],
    limits: Limits,
) -> Iterator[tuple[bytes, NewFile]]:
    """Pass files on to the pack under numbers, and note in ``shapes`` what stands where: the last one given."""
    admit = Admission(name, limits)
    count = 0
    for path, member in members:
        admit(path)
        shape: _Shape
        match member:
            case NewFile():
                shape = b"%s/%d" % (prefix, count)
                count += 1
                yield shape, member
            case HardLink(target):
                shape = _linked(name, path, target, shapes)
            case Symlink() | Directory():
                shape = member
        before = shapes.get(path)
        if before is not None and isinstance(before, Directory) != isinstance(shape, Directory):
            raise refused(name, path, "a path that is both a folder and something else")
        if before is not None and not isinstance(before, Directory):
            notes.append(Replaced(path))
        shapes[path] = shape


def _linked(name: str, path: bytes, target: bytes, shapes: Mapping[bytes, _Shape]) -> _Shape:
    shape = shapes.get(target)
    if shape is None:
        raise refused(name, path, f"a hard link to {escape(target)}, which is not before it in the archive")
    if isinstance(shape, Directory):
        raise refused(name, path, f"a hard link to the folder {escape(target)}")
    return shape


def _entries(name: str, shapes: Mapping[bytes, _Shape], packed: Listing, rule: LinkRule) -> dict[bytes, Entry]:
    links = {path: shape.target for path, shape in shapes.items() if isinstance(shape, Symlink)}
    check_links(name, shapes, links, rule)
    return {path: packed[shape] if isinstance(shape, bytes) else shape for path, shape in shapes.items()}


def _listing(name: str, entries: Mapping[bytes, Entry]) -> Listing:
    try:
        return Listing.of(entries)
    except ListingError as error:
        raise refused(name, None, str(error)) from error


def _ordered(notes: Iterable[Note]) -> tuple[Note, ...]:
    return tuple(sorted(set(notes), key=lambda note: (note.path, repr(note))))


def _unpack_zip(store: Store, blob: Digest, *, name: str, strip: int, limits: Limits) -> Unpacked:
    entries: dict[bytes, Entry] = {}
    notes: list[Note] = []
    stripper = Stripper(name, strip)
    admit = Admission(name, limits)

    def read(offset: int, size: int) -> Iterator[bytes]:
        return store.read_blob(blob, offset, size)

    for entry in read_directory(name, read, store.blob_size(blob), limits):
        found = _zip_entry(name, entry, blob, Bytes(name, read(entry.header, entry.room)))
        path = stripper(entry.path, folder=entry.kind == "folder")
        if path is None:
            continue
        admit(path)
        entries[path] = found
        note = mode_note(path, entry.mode, folder=entry.kind == "folder") if entry.mode & 0o7777 else None
        if note is not None and entry.kind != "link":
            notes.append(note)
    links = {path: entry.target for path, entry in entries.items() if isinstance(entry, Symlink)}
    check_links(name, entries, links, "inside")
    return Unpacked(listing=_listing(name, entries), notes=_ordered(notes))


def _zip_entry(name: str, entry: ZipEntry, blob: Digest, stream: Bytes) -> Entry:
    import deflate  # its CRC-32 takes a fifth of zlib's time

    head = open_entry(name, entry, stream)
    hasher = hashlib.sha256()
    crc = 0
    size = 0
    target = b""
    for piece in _inflated(name, entry, stream):
        hasher.update(piece)
        crc = deflate.crc32(piece, crc)
        size += len(piece)
        if size > entry.size:
            raise broken(name, "an entry that is longer than it says", path=entry.name)
        if entry.kind == "link":
            target = link_target(name, entry.name, target + piece)
    if (size, crc) != (entry.size, entry.crc):
        detail = expected_got(f"{entry.size} bytes, CRC {entry.crc:08x}", f"{size} bytes, CRC {crc:08x}")
        raise broken(name, "an entry that is not what its header says", path=entry.name, detail=detail)
    close_entry(name, entry, stream, entry.room - head - entry.stored)
    match entry.kind:
        case "folder":
            return DIRECTORY
        case "link":
            return Symlink(link_target(name, entry.name, target))
        case "file":
            at = Location(blob, entry.header + head, entry.stored, "deflate" if entry.deflated else "raw")
            return File(bool(entry.mode & 0o100), size, Digest(hasher.hexdigest()), at)


def _inflated(name: str, entry: ZipEntry, stream: Bytes) -> Iterator[bytes]:
    """Yield an entry's contents; its deflate stream must end with its data, not before and not after."""
    pieces = stream.pieces(entry.stored)
    if not entry.deflated:
        yield from pieces
        return
    try:
        for _, plain in inflate(pieces):
            yield plain
    except InflateError as error:
        raise broken(name, f"an entry whose data {error}", path=entry.name) from error
