# SPDX-License-Identifier: Apache-2.0
"""Tar archives read strictly, as a stream: ustar, pax and GNU long names; members in the order of the archive.

Core: no IO.

Python's own reader is not used: it takes a damaged header for the end of the archive, reads names of any length into
memory, and differs between the Python versions that the engine runs on. Understood on docs/builders/unpack.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from derive.archives.names import Limits, Stripper, broken, link_target, member_path, refused
from derive.archives.notes import Dropped, Note, mode_note
from derive.archives.stream import Bytes
from derive.canonical import escape
from derive.trees.listing import DIRECTORY, Directory, Symlink
from derive.trees.pack import NewFile

BLOCK = 512
_ZEROS = bytes(BLOCK)
_POSIX, _GNU = b"ustar\x00" + b"00", b"ustar  \x00"
_HEADER_BYTES = 1 << 20  # the largest pax header or long name; Linux paths have 4096
_ATTRIBUTES = 64
_KEY_BYTES = 512
_REFUSED = {
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a fifo",
    b"S": "a sparse file",
    b"D": "an incremental dump's folder",
    b"M": "a continuation of another volume",
    b"V": "a volume header",
    b"X": "an extended header of Solaris",
}
_EXTENDED = (b"L", b"K", b"x", b"g")
_XATTRS = ("SCHILY.xattr.", "LIBARCHIVE.xattr.", "RHT.security.", "SCHILY.acl.", "SCHILY.fflags")
_SPARSE = ("GNU.sparse.", "SCHILY.realsize", "SUN.holesdata")
_GLOBAL_REFUSED = frozenset(("path", "linkpath", "size"))


@dataclass(frozen=True, slots=True)
class HardLink:
    """Another name for a file that stands earlier in the same archive."""

    target: bytes


TarMember: TypeAlias = NewFile | Symlink | Directory | HardLink


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    name: bytes
    mode: int
    size: int
    kind: bytes
    link: bytes


@dataclass(slots=True, kw_only=True)
class _Pending:
    """What extended headers have said about the member to come."""

    name: bytes | None = None
    link: bytes | None = None
    size: int | None = None
    attributes: tuple[str, ...] = ()
    seen: bool = False


class _Contents:
    """A member's bytes, read from the stream when iterated; :meth:`finish` passes over what nobody read."""

    def __init__(self, stream: Bytes, size: int) -> None:
        self._stream = stream
        self.left = size
        self._padding = -size % BLOCK

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream.pieces(self.left):
            self.left -= len(piece)
            yield piece

    def finish(self) -> None:
        self._stream.skip(self.left + self._padding)
        self.left = self._padding = 0


def read_tar(
    archive: str, stream: Bytes, notes: list[Note], *, limits: Limits, strip: int = 0
) -> Iterator[tuple[bytes, TarMember]]:
    """Yield the members of an uncompressed tar stream; a file's contents are to be read before the next member.

    What a tree cannot keep is appended to ``notes``.

    Raises:
        InputErrors: for a member that no archive may hold, by name.
        Corrupt: when the bytes are no tar archive, or it is cut short.
    """
    stripper = Stripper(archive, strip)
    pending = _Pending()
    count = 0
    while (block := stream.exactly(BLOCK)) != _ZEROS:
        header = _parse(archive, block, stream.position - BLOCK)
        if header.kind in _EXTENDED:
            _extend(archive, pending, header, stream)
            continue
        count += 1
        if count > limits.entries:
            raise refused(archive, None, f"an archive of more than {limits.entries} members")
        contents = _Contents(stream, header.size if pending.size is None else pending.size)
        path, member = _member(archive, header, pending, contents, limits)
        kept = stripper(path, folder=isinstance(member, Directory))
        if isinstance(member, HardLink):
            member = HardLink(stripper(member.target, folder=False) or b"")
        if kept is not None:
            notes += _notes(kept, header.mode, member, pending.attributes)
            yield kept, member
        contents.finish()
        pending = _Pending()
    if pending.seen:
        raise broken(archive, "an extended header that no member follows")
    for piece in stream.rest():
        if piece.strip(b"\0"):
            raise broken(archive, "bytes after the end of a tar archive")


def _parse(archive: str, block: bytes, offset: int) -> _Header:
    try:
        stated, mode, size = (_number(block[start:end]) for start, end in ((148, 156), (100, 108), (124, 136)))
    except ValueError as error:
        raise broken(archive, f"no tar header at byte {offset}: {error}") from error
    if stated != sum(block[:148]) + sum(block[156:]) + 8 * ord(" "):
        raise broken(archive, f"no tar header at byte {offset}: its checksum is wrong")
    magic = block[257:265]
    if magic not in (_POSIX, _GNU) and magic.strip(b"\0"):
        raise broken(archive, f"a tar header of an unknown format at byte {offset}: {magic!r}")
    name = block[:100].partition(b"\0")[0]
    prefix = block[345:500].partition(b"\0")[0] if magic == _POSIX else b""
    return _Header(
        name=prefix + b"/" + name if prefix else name,
        mode=mode & 0o7777,
        size=size,
        kind=block[156:157],
        link=block[157:257].partition(b"\0")[0],
    )


def _number(field: bytes) -> int:
    """Read octal digits, or the base-256 of GNU when the first bit is set."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    text = field.partition(b"\0")[0].strip(b" ")
    if text.translate(None, b"01234567"):
        raise ValueError(f"not a number: {field!r}")
    return int(text or b"0", 8)


def _extend(archive: str, pending: _Pending, header: _Header, stream: Bytes) -> None:
    """Take in a long name of GNU, or a pax header."""
    if header.size > _HEADER_BYTES:
        raise refused(archive, header.name, f"an extended header of {header.size} bytes")
    data = stream.exactly(header.size)
    stream.skip(-header.size % BLOCK)
    if header.kind == b"g":
        for key, _ in _records(archive, data):
            if key in _GLOBAL_REFUSED or key.startswith(_SPARSE):
                raise refused(archive, header.name, f"a global pax header that sets {key} for all members")
        return
    pending.seen = True
    match header.kind:
        case b"L":
            pending.name = pending.name or data.rstrip(b"\0")
        case b"K":
            pending.link = pending.link or data.rstrip(b"\0")
        case _:
            _take_pax(archive, pending, data)


def _take_pax(archive: str, pending: _Pending, data: bytes) -> None:
    for key, value in _records(archive, data):
        if key == "path":
            pending.name = value
        elif key == "linkpath":
            pending.link = value
        elif key == "size":
            if not value.isdigit() or len(value) > 18:
                raise broken(archive, f"a pax header with a size of {value[:40]!r}")
            pending.size = int(value)
        elif key.startswith(_SPARSE):
            raise refused(archive, pending.name, "a sparse file in an archive")
        elif key.startswith(_XATTRS):
            if len(pending.attributes) == _ATTRIBUTES or len(key) > _KEY_BYTES:
                raise refused(archive, pending.name, "a member with too many or too long extended attributes")
            pending.attributes += (key,)


def _records(archive: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the records of a pax header: ``<length> <key>=<value>`` and a newline."""
    start = 0
    while start < len(data):
        digits, space, _ = data[start : start + 12].partition(b" ")
        end = start + (int(digits) if digits.isdigit() and space else 0)
        key, equals, value = data[start + len(digits) + 1 : end - 1].partition(b"=")
        if not start < end <= len(data) or data[end - 1 : end] != b"\n" or not equals:
            raise broken(archive, "a pax header that cannot be read")
        yield key.decode("utf-8", "backslashreplace"), value
        start = end


def _member(
    archive: str, header: _Header, pending: _Pending, contents: _Contents, limits: Limits
) -> tuple[bytes, TarMember]:
    name = header.name if pending.name is None else pending.name
    link = header.link if pending.link is None else pending.link
    path = member_path(archive, name, limits)
    folder = header.kind == b"5" or (header.kind == b"\0" and name.endswith(b"/"))
    if not folder and (name.endswith(b"/") or not path):
        raise refused(archive, name, "a member that is named as a folder and is none")
    if header.kind in (b"0", b"\0", b"7") and not folder:
        return path, NewFile(bool(header.mode & 0o100), contents)
    if header.kind in _REFUSED or header.kind not in (b"0", b"\0", b"1", b"2", b"5", b"7"):
        what = _REFUSED.get(header.kind) or f"a member of unknown type {header.kind.decode('latin-1')!r}"
        raise refused(archive, name, f"{what} in an archive")
    if contents.left:
        raise refused(archive, name, "a link or folder that carries contents")
    match header.kind:
        case b"1":
            target = member_path(f"{archive}: {escape(path)}: hard link to", link, limits)
            if target == path:
                raise refused(archive, name, "a hard link to itself")
            return path, HardLink(target)
        case b"2":
            return path, Symlink(link_target(archive, path, link))
        case _:
            return path, DIRECTORY


def _notes(path: bytes, mode: int, member: TarMember, attributes: tuple[str, ...]) -> list[Note]:
    notes: list[Note] = [Dropped(path, f"attribute {name}") for name in attributes]
    if not isinstance(member, Symlink):
        note = mode_note(path, mode, folder=isinstance(member, Directory))
        if note is not None:
            notes.append(note)
    return notes
