# SPDX-License-Identifier: Apache-2.0
"""Archives made by hand, byte by byte, so that tests can make what no tool would: hostile, damaged, odd.

Edge: nothing but memory.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from derive.canonical import Digest
from derive.errors import DeriveError
from derive.store.protocol import Store, read_all
from derive.trees.listing import Directory, File, Listing, Symlink


def put(store: Store, data: bytes) -> Digest:
    """Add bytes to a store as a blob."""
    with store.blob_writer() as writer:
        writer.write(data)
        return writer.commit()


def contents(store: Store, listing: Listing) -> dict[bytes, object]:
    """Return a tree as plain values: text of files, (text, "x") of executables, "-> target", "/" for folders."""
    shown: dict[bytes, object] = {}
    for path, entry in listing.items():
        match entry:
            case File(executable):
                text = read_all(store, entry)
                shown[path] = (text, "x") if executable else text
            case Symlink(target):
                shown[path] = b"-> " + target
            case Directory():
                if path:
                    shown[path] = "/"
    return shown


def said(error: DeriveError) -> str:
    """Return everything that an error says, for a test to look into."""
    lines: list[str] = []
    for problem in error.problems():
        lines += [f"{problem.where}: {problem.message}", *problem.detail, problem.hint or ""]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tar:
    """One tar member, its header field by field."""

    name: bytes
    data: bytes = b""
    kind: bytes = b"0"
    mode: int = 0o644
    link: bytes = b""
    prefix: bytes = b""
    magic: bytes = b"ustar\x00" + b"00"
    size: int | None = None
    raw_size: bytes | None = None
    checksum: int | None = None

    def header(self) -> bytes:
        """Return the 512 bytes."""
        size = len(self.data) if self.size is None else self.size
        block = bytearray(512)
        block[0:100] = self.name.ljust(100, b"\0")
        block[100:108] = b"%07o\0" % self.mode
        block[108:124] = b"0000000\0" * 2
        block[124:136] = self.raw_size or b"%011o\0" % size
        block[136:148] = b"00000000000\0"
        block[148:156] = b" " * 8
        block[156:157] = self.kind
        block[157:257] = self.link.ljust(100, b"\0")
        block[257:265] = self.magic
        block[345:500] = self.prefix.ljust(155, b"\0")
        block[148:156] = b"%06o\0 " % (sum(block) if self.checksum is None else self.checksum)
        return bytes(block)

    def encode(self) -> bytes:
        """Return header and padded contents."""
        return self.header() + self.data + bytes(-len(self.data) % 512)


def tar(*members: Tar, end: bytes = bytes(1024)) -> bytes:
    """Return a tar archive."""
    return b"".join(member.encode() for member in members) + end


def pax(records: Mapping[bytes, bytes], kind: bytes = b"x") -> Tar:
    """Return a pax header for the member that follows."""
    data = b""
    for key, value in records.items():
        body = b" " + key + b"=" + value + b"\n"
        length = len(body)
        while length != len(body) + len(str(length)):
            length = len(body) + len(str(length))
        data += str(length).encode() + body
    return Tar(name=b"PaxHeader", data=data, kind=kind)


def folder(name: bytes, mode: int = 0o755) -> Tar:
    """Return a folder's member."""
    return Tar(name=name, kind=b"5", mode=mode)


def symlink(name: bytes, target: bytes) -> Tar:
    """Return a symbolic link's member."""
    return Tar(name=name, kind=b"2", mode=0o777, link=target)


def hardlink(name: bytes, target: bytes) -> Tar:
    """Return a hard link's member."""
    return Tar(name=name, kind=b"1", link=target)


def ar(*members: tuple[bytes, bytes]) -> bytes:
    """Return an ar archive."""
    out = b"!<arch>\n"
    for name, data in members:
        out += name.ljust(16) + b"0".ljust(12) + b"0".ljust(6) * 2 + b"100644".ljust(8)
        out += str(len(data)).encode().ljust(10) + b"`\n" + data + b"\n" * (len(data) % 2)
    return out


def deb(
    *data: Tar,
    package: str = "hello",
    version: str = "1.0-1",
    architecture: str = "amd64",
    fields: str = "",
    control: Iterable[Tar] = (),
) -> bytes:
    """Return a .deb."""
    stanza = f"Package: {package}\nVersion: {version}\nArchitecture: {architecture}\n{fields}Description: a test\n"
    members = [folder(b"./"), Tar(name=b"./control", data=stanza.encode()), *control]
    return ar((b"debian-binary", b"2.0\n"), (b"control.tar", tar(*members)), (b"data.tar", tar(*data)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Zip:
    """One zip entry; what is given under ``local_`` differs from the central directory."""

    name: bytes
    data: bytes = b""
    mode: int = 0o100644
    deflate: bool = True
    method: int | None = None
    flags: int = 0
    packed: bytes | None = None
    crc: int | None = None
    size: int | None = None
    stored: int | None = None
    header: int | None = None
    extra: bytes = b""
    local_extra: bytes = b""
    local_name: bytes | None = None
    local_flags: int | None = None
    local_method: int | None = None
    local_crc: int | None = None
    local_size: int | None = None
    descriptor: bytes = b""
    after: bytes = b""
    date: int = 0x0021

    def _parts(self) -> tuple[int, bytes, int, int, int]:
        deflate = self.deflate and bool(self.data)
        packed = self.packed
        if packed is None:
            squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
            packed = squeeze.compress(self.data) + squeeze.flush() if deflate else self.data
        method = (8 if deflate else 0) if self.method is None else self.method
        crc = zlib.crc32(self.data) if self.crc is None else self.crc
        size = len(self.data) if self.size is None else self.size
        return method, packed, crc, len(packed) if self.stored is None else self.stored, size

    def local(self) -> bytes:
        """Return the local header, the data and what follows."""
        method, packed, crc, stored, size = self._parts()
        name = self.name if self.local_name is None else self.local_name
        flags = self.flags if self.local_flags is None else self.local_flags
        method = method if self.local_method is None else self.local_method
        if flags & 8:
            crc = stored = size = 0
        crc = crc if self.local_crc is None else self.local_crc
        size = size if self.local_size is None else self.local_size
        sizes = (crc, stored, size, len(name), len(self.local_extra))
        head = struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, self.date, *sizes)
        return head + name + self.local_extra + packed + self.descriptor + self.after

    def central(self, header: int) -> bytes:
        """Return the central header for an entry that starts at this offset."""
        method, _, crc, stored, size = self._parts()
        start = header if self.header is None else self.header
        sizes = (crc, stored, size, len(self.name), len(self.extra), 0, 0, 0, self.mode << 16, start)
        head = struct.pack("<4s6H3L5H2L", b"PK\1\2", 0x0314, 20, self.flags, method, 0, self.date, *sizes)
        return head + self.name + self.extra


def zipped(*entries: Zip, comment: bytes = b"", before: bytes = b"", hidden: bytes = b"", wide: bool = False) -> bytes:
    """Return a zip archive; ``wide`` adds the 64-bit end records."""
    body = before
    central = b""
    for entry in entries:
        central += entry.central(len(body))
        body += entry.local()
    body += hidden
    end = b""
    count, size, offset = len(entries), len(central), len(body)
    if wide:
        end += struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, offset)
        end += struct.pack("<4sLQL", b"PK\6\7", 0, offset + size, 1)
    end += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, size, offset, len(comment))
    return body + central + end + comment


def record_line(path: bytes, data: bytes) -> bytes:
    """Return a RECORD's line for a file."""
    value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return path + b",sha256=" + value + b"," + str(len(data)).encode() + b"\n"


def wheel(
    *entries: Zip,
    name: str = "demo",
    version: str = "1.0",
    info: str | None = None,
    tags: Iterable[str] = ("py3-none-any",),
    record: bytes | None = None,
    wheel_version: str = "1.0",
    metadata: str = "",
) -> bytes:
    """Return a wheel with its .dist-info; ``record`` replaces the right RECORD."""
    folder_name = (info or f"{name}-{version}.dist-info").encode()
    lines = "".join(f"Tag: {tag}\n" for tag in tags)
    head = f"Wheel-Version: {wheel_version}\nGenerator: by hand\nRoot-Is-Purelib: true\n{lines}"
    about = metadata or f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    whole = (
        *entries,
        Zip(name=folder_name + b"/METADATA", data=about.encode()),
        Zip(name=folder_name + b"/WHEEL", data=head.encode()),
    )
    path = folder_name + b"/RECORD"
    if record is None:
        record = b"".join(record_line(e.name, e.data) for e in whole if not e.name.endswith(b"/")) + path + b",,\n"
    return zipped(*whole, Zip(name=path, data=record))
