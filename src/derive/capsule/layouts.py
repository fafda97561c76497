# SPDX-License-Identifier: Apache-2.0
"""An OCI layout on disk, folder or tar: which blobs it has, and where their bytes lie.

Edge: reads one folder or one file.

Nothing is followed: a link in a layout may lead out of it, and is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from derive.canonical import Digest
from derive.capsule.oci import INDEX_FILE, LAYOUT_FILE, LIMIT
from derive.capsule.tar_index import Slice, TarIndex, read_tar_index
from derive.errors import Corrupt, HostRefuses, expected_got
from derive.store.protocol import CHUNK

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class Layout(Protocol):
    """The files of an OCI layout, wherever they lie."""

    where: str

    def blobs(self) -> dict[Digest, int]:
        """Return every blob with its size in bytes."""

    def slice(self, digest: Digest) -> tuple[str, Slice] | None:
        """Return the file in which a blob lies, and where; None when it is not there."""

    def file(self, name: str) -> bytes | None:
        """Return a small file at the top, whole; None when it is not there."""

    def strange(self) -> list[str]:
        """Return the paths of what no layout holds."""


class FolderLayout:
    """An OCI layout that is a folder."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._root = path
        self._blobs = f"{path}/blobs/sha256"

    def blobs(self) -> dict[Digest, int]:
        """Return every blob with its size; raises Corrupt for a link among them."""
        found = {}
        for entry in _entries(self._blobs):
            facts = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(facts.st_mode):
                raise _no_file(entry.path)
            if _is_hex(entry.name):
                found[Digest(entry.name)] = facts.st_size
        return found

    def slice(self, digest: Digest) -> tuple[str, Slice] | None:
        """Return the blob's own file."""
        path = f"{self._blobs}/{digest.hex}"
        try:
            facts = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(facts.st_mode):
            raise _no_file(path)
        return path, Slice(0, facts.st_size)

    def file(self, name: str) -> bytes | None:
        """Return a small file at the top."""
        path = self._root / name
        try:
            facts = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(facts.st_mode):
            raise _no_file(str(path))
        return b"".join(read_slice(str(path), Slice(0, min(facts.st_size, LIMIT + 1))))

    def strange(self) -> list[str]:
        """Return what lies there and belongs to no layout."""
        odd = [e.path for e in _entries(self.where) if e.name not in {INDEX_FILE, LAYOUT_FILE, "blobs"}]
        odd += [entry.path for entry in _entries(f"{self.where}/blobs") if entry.name != "sha256"]
        odd += [entry.path for entry in _entries(self._blobs) if not _is_hex(entry.name)]
        return sorted(odd)


class TarLayout:
    """An OCI layout in one uncompressed tar, whose headers are read once."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._index = index_of_tar(self.where)

    def blobs(self) -> dict[Digest, int]:
        """Return every blob with its size."""
        return {digest: at.size for digest, at in self._index.blobs.items()}

    def slice(self, digest: Digest) -> tuple[str, Slice] | None:
        """Return where the blob lies in the tar."""
        at = self._index.blobs.get(digest)
        return None if at is None else (self.where, at)

    def file(self, name: str) -> bytes | None:
        """Return a small file at the top."""
        at = self._index.files.get(name)
        return None if at is None else b"".join(read_slice(self.where, Slice(at.offset, min(at.size, LIMIT + 1))))

    def strange(self) -> list[str]:
        """Return what the tar holds and belongs to no layout."""
        return sorted(f"{self.where}: {name}" for name in self._index.files.keys() - {INDEX_FILE, LAYOUT_FILE})


def index_of_tar(path: str) -> TarIndex:
    """Find every file of a layout in a tar; raises Corrupt, and HostRefuses when it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        return read_tar_index(lambda at, size: os.pread(handle, size, at), os.fstat(handle).st_size, path)
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        os.close(handle)


def read_slice(path: str, at: Slice) -> Iterator[bytes]:
    """Yield bytes of a file; raises Corrupt when it ends before them, HostRefuses when it cannot be read."""
    try:
        handle = os.open(path, _OPEN if not at.offset else os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _no_file(path) from error
        raise unreadable(path, error) from error
    try:
        offset, end = at.offset, at.offset + at.size
        while offset < end:
            piece = os.pread(handle, min(CHUNK, end - offset), offset)
            if not piece:
                raise Corrupt("a file ends early", where=path, detail=expected_got(f"{end} bytes", f"{offset} bytes"))
            offset += len(piece)
            yield piece
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        os.close(handle)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unreadable(folder, error) from error


def _is_hex(name: str) -> bool:
    return len(name) == 64 and not name.strip("0123456789abcdef")


def _no_file(path: str) -> Corrupt:
    return Corrupt("a link or device in a layout, where only files and folders are", where=path)


def unreadable(path: str, error: OSError) -> HostRefuses:
    """Return the error for what this machine does not let be read."""
    return HostRefuses(f"cannot be read: {(error.strerror or str(error)).lower()}", where=path)
