# SPDX-License-Identifier: Apache-2.0
"""What a locked set's artifacts say of themselves: keyrings, licences, wheel metadata.

Edge: reads blobs of the store.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.canonical import Digest
from derive.errors import Corrupt
from derive.lock.records import copyright_licence
from derive.store.protocol import Store
from derive.wheels.metadata import stated_licence

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

UNSTATED = "see-copyright-file"
"""The licence of a Debian package whose copyright file is for people only."""


class _SpanFile(io.RawIOBase):
    """A seekable file over something that hands out slices."""

    def __init__(self, size: int, read: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._size = size
        self._read = read
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        count = min(len(view), max(0, self._size - self._at))
        if count:
            view[:count] = self._read(self._at, count)
            self._at += count
        return count


def open_spans(size: int, read: Callable[[int, int], bytes], buffer: int = 1 << 18) -> io.BufferedReader:
    """Open something that hands out slices (offset, count) as a seekable file of ``size`` bytes."""
    return io.BufferedReader(_SpanFile(size, read), buffer)


def open_blob(store: Store, digest: Digest) -> io.BufferedReader:
    """Open a blob as a seekable file, whatever kind of store it lies in; raises Missing."""
    return open_spans(store.blob_size(digest), lambda at, count: b"".join(store.read_blob(digest, at, count)))


def deb_member(store: Store, digest: Digest, member: str) -> bytes:
    """Return one file of a .deb's data, following links inside it.

    Raises:
        Corrupt: when it is no .deb, or has no such file.
    """
    with open_blob(store, digest) as file, _data_tar(file, digest) as archive:
        data = _read_member(archive, member)
    if data is None:
        raise Corrupt(f"the .deb {digest.short} has no file {member}")
    return data


@dataclass(frozen=True, slots=True, kw_only=True)
class DocFolder:
    """What a .deb's documentation folder says: its copyright file, or the package that it is a link to."""

    copyright: bytes | None
    elsewhere: str | None


def doc_folder(store: Store, digest: Digest, package: str) -> DocFolder:
    """Read a .deb's documentation folder. What cannot be read counts as absent: a licence never stops a lock."""
    folder = f"usr/share/doc/{package}"
    try:
        with open_blob(store, digest) as file, _data_tar(file, digest) as archive:
            for info in archive:
                name = _plain(info.name)
                if name == folder and info.issym():
                    return DocFolder(copyright=None, elsewhere=info.linkname.rstrip("/").rpartition("/")[2])
                if name != f"{folder}/copyright":
                    continue
                if info.isfile():
                    inner = archive.extractfile(info)
                    return DocFolder(copyright=inner.read() if inner else None, elsewhere=None)
                return DocFolder(copyright=None, elsewhere=_owner_of(info.linkname))
    except (Corrupt, OSError, EOFError, tarfile.TarError):
        pass
    return DocFolder(copyright=None, elsewhere=None)


def packaging_file(files: Sequence[str]) -> str | None:
    """Return the name of the tarball that holds a source package's debian folder, or None."""
    own = [name for name in files if ".debian.tar." in name and not name.endswith(".asc")]
    native = [name for name in files if ".tar." in name and ".orig" not in name and not name.endswith(".asc")]
    return next(iter(own or native), None)


def source_licence(store: Store, digest: Digest) -> str:
    """Return the licences that debian/copyright in a source package's tarball states."""
    try:
        with open_blob(store, digest) as file, tarfile.open(fileobj=file) as archive:
            for info in archive:
                path = _plain(info.name)
                if info.isfile() and path.endswith("debian/copyright") and path.count("/") <= 2:
                    inner = archive.extractfile(info)
                    return (inner and copyright_licence(inner.read())) or UNSTATED
    except (OSError, EOFError, tarfile.TarError):
        pass
    return UNSTATED


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFacts:
    """What a wheel's METADATA says. ``licence`` is ``unknown`` where it says nothing usable."""

    licence: str
    requires_python: str | None


def wheel_facts(metadata: bytes) -> WheelFacts:
    """Read a wheel's METADATA."""
    from packaging.metadata import parse_email

    raw, _ = parse_email(metadata)
    return WheelFacts(licence=stated_licence(metadata), requires_python=raw.get("requires_python") or None)


def metadata_of_wheel(file: io.BufferedReader) -> bytes:
    """Return the METADATA member of a wheel.

    Raises:
        Corrupt: when it is no wheel.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if name.endswith(".dist-info/METADATA") and name.count("/") == 1:
                    return archive.read(name)
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise Corrupt(f"not a wheel: {error}") from error
    raise Corrupt("not a wheel: no METADATA")


def _data_tar(file: io.BufferedReader, digest: Digest) -> tarfile.TarFile:
    from debian.arfile import ArError
    from debian.debfile import DebError, DebFile

    try:
        archive: tarfile.TarFile = DebFile(fileobj=file).data.tgz()
    except (ArError, DebError, tarfile.TarError, EOFError, IndexError) as error:
        raise Corrupt(f"blob {digest.short} is not a .deb: {error}") from error
    return archive


def _read_member(archive: tarfile.TarFile, member: str) -> bytes | None:
    for info in archive.getmembers():
        if _plain(info.name) == member and (info.isfile() or info.issym()):
            inner = archive.extractfile(info)
            return inner.read() if inner else None
    return None


def _plain(name: str) -> str:
    return name.removeprefix("./").rstrip("/")


def _owner_of(target: str) -> str | None:
    parts = target.rstrip("/").split("/")
    return parts[-2] if len(parts) >= 2 and parts[-1] == "copyright" else None
