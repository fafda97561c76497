# SPDX-License-Identifier: Apache-2.0
"""Blobs on disk: one file per SHA-256 under ``blobs/sha256``, written whole or not at all.

Edge: the file system. A blob is staged in the same file system, checked, synced once, and renamed into place.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from derive.canonical import Digest
from derive.errors import Corrupt, HostRefuses, Missing, expected_got
from derive.store.leases import Held, Kind, Lease, folder_lock, read_leases
from derive.store.protocol import CHUNK

_OPEN_BLOBS = 256
_GATHERED = 1 << 18  # bytes hashed and written at once: for small pieces, asking costs more than the work


class Staging:
    """A folder of this process's unfinished work; its lock tells others that the owner lives, and what it needs.

    What a killed process left is swept by the next one that opens the store.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock: IO[bytes] | None = None
        self._lease: Lease | None = None
        self._folder: Path | None = None
        self._refusal: HostRefuses | None = None
        self._is_alone = False
        self._unsettled: set[Path] = set()
        self._guard = threading.Lock()

    def new_path(self) -> Path:
        """Return a fresh path inside the staging folder; nothing is there yet."""
        with self._guard:
            folder = self._own_folder()
        return folder / secrets.token_hex(8)

    def hold(self, kind: Kind, digests: Iterable[Digest]) -> None:
        """Keep things from being collected until :meth:`close`, whether they are there already or not.

        What is asked for *after* this call and found stays; what was found before may be gone. In a store that cannot
        be written, nothing is collected, and nothing needs to be held.
        """
        with self._guard:
            if self._refusal is not None or self._is_alone:
                return
            self._own_folder()
            assert self._lease is not None
            self._lease.add(kind, digests)

    @contextmanager
    def alone(self) -> Iterator[Held]:
        """Keep every other process from naming anything new, and lend what the living named; one process at a time.

        What this process itself writes meanwhile needs no name: nobody else collects.
        """
        with self._guard:
            self._own_folder()
        with folder_lock(self._root, alone=True):
            self._is_alone = True
            try:
                yield read_leases(self._root)
            finally:
                self._is_alone = False

    @property
    def is_claimed(self) -> bool:
        """Whether this process has a staging folder, and so a lock that others see."""
        return self._folder is not None

    def refuse(self, refusal: HostRefuses) -> None:
        """Stage nothing from now on, and raise this where something would have to be written."""
        self._refusal = refusal

    def require_writable(self) -> None:
        """Raise what :meth:`refuse` was told, if it was."""
        if self._refusal is not None:
            raise self._refusal

    def publish(self, staged: Path, target: Path) -> None:
        """Move a finished, synced file into place. The move lasts from :meth:`settle` on.

        Until then a power cut may undo it, never halve it: the bytes are then absent, which every reader allows for.
        Syncing the folder after each of a thousand moves would take longer than unpacking what is moved.
        """
        staged.replace(target)
        with self._guard:
            self._unsettled.add(target.parent)

    def settle(self) -> None:
        """Make every move since the last call durable."""
        with self._guard:
            folders = sorted(self._unsettled)
            self._unsettled.clear()
        for folder in folders:
            sync_folder(folder)

    def _own_folder(self) -> Path:
        self.require_writable()
        if self._folder is None:
            self._folder = self._claim()
        return self._folder

    def _claim(self) -> Path:
        self._root.mkdir(parents=True, exist_ok=True)
        while True:
            name = secrets.token_hex(8)
            lock = (self._root / f"{name}.lock").open("wb")
            fcntl.flock(lock, fcntl.LOCK_EX)
            # A sweeper may have removed the file between open and lock: then nobody could see that we live.
            if os.fstat(lock.fileno()).st_nlink:
                break
            lock.close()
        self._lock = lock
        self._lease = Lease(self._root, lock)
        folder = self._root / name
        folder.mkdir(mode=0o755)
        return folder

    def sweep(self) -> None:
        """Remove the staging folders of processes that are gone."""
        for lock_path in self._root.glob("*.lock"):
            try:
                with lock_path.open("rb") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(lock_path.with_suffix(""))
                    lock_path.unlink(missing_ok=True)
            except (BlockingIOError, FileNotFoundError):
                continue

    def close(self) -> None:
        """Drop the staging folder and its lock."""
        with self._guard:
            if self._folder is None or self._lock is None:
                return
            _remove(self._folder)
            Path(self._lock.name).unlink(missing_ok=True)
            with suppress(OSError):  # what a full disk kept from being written in it is no longer needed
                self._lock.close()
            self._folder = self._lock = self._lease = None


def _remove(folder: Path) -> None:
    from derive.trees.materialise import remove_folder

    if folder.is_dir():
        remove_folder(folder)
    shutil.rmtree(folder, ignore_errors=True)


class BlobFolder:
    """The ``blobs/sha256`` folder of an OCI image layout."""

    def __init__(self, folder: Path, staging: Staging) -> None:
        self._folder = folder
        self._prefix = f"{folder}/"
        self._staging = staging
        self._open: OrderedDict[Digest, int] = OrderedDict()
        self._guard = threading.Lock()

    def has(self, digest: Digest) -> bool:
        """Say whether the blob is present."""
        return os.path.exists(self._prefix + digest.hex)  # noqa: PTH110 - asked tens of thousands of times a plan

    def path(self, digest: Digest) -> Path:
        """Return the blob's file; raises Missing."""
        path = self._folder / digest.hex
        if not path.exists():
            raise Missing(f"blob {digest.short} is not in the store", detail=[f"blob  {digest}"])
        return path

    def size(self, digest: Digest) -> int:
        """Return the blob's size in bytes; raises Missing."""
        return self.path(digest).stat().st_size

    def read(self, digest: Digest, offset: int, size: int) -> Iterator[bytes]:
        """Yield a slice in pieces of at most ``CHUNK`` bytes; raises Missing, and Corrupt when it ends early."""
        end = offset + size
        if not size:
            self.path(digest)
        while offset < end:
            piece = self._pread(digest, min(CHUNK, end - offset), offset)
            if not piece:
                raise Corrupt(f"blob {digest.short} ends early", detail=expected_got(f"{end} bytes", f"{offset} bytes"))
            offset += len(piece)
            yield piece

    def writer(self) -> FileWriter:
        """Begin a new blob."""
        return FileWriter(self._staging.new_path(), self)

    def adopt(self, staged: Path, digest: Digest) -> None:
        """Move a finished, synced file into place. The same bytes being there already is success."""
        self.hold(digest)
        target = self._folder / digest.hex
        staged.chmod(0o444)
        self._staging.publish(staged, target)

    def hold(self, digest: Digest) -> None:
        """Keep a blob, there or not, from being collected while this process lives."""
        self._staging.hold("blob", (digest,))

    def close(self) -> None:
        """Close the files kept open for reading."""
        with self._guard:
            while self._open:
                os.close(self._open.popitem()[1])

    def _pread(self, digest: Digest, size: int, offset: int) -> bytes:
        # Read under the guard: another thread may otherwise close this file to make room. pread of what the
        # page cache holds is short, and the interpreter lock is released meanwhile.
        with self._guard:
            fd = self._open.get(digest)
            if fd is None:
                try:
                    fd = os.open(self._prefix + digest.hex, os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    raise Missing(f"blob {digest.short} is not in the store", detail=[f"blob  {digest}"]) from None
                self._open[digest] = fd
                if len(self._open) > _OPEN_BLOBS:
                    os.close(self._open.popitem(last=False)[1])
            else:
                self._open.move_to_end(digest)
            if size < CHUNK:
                return os.pread(fd, size, offset)
            own = os.dup(fd)
        try:
            return os.pread(own, size, offset)
        finally:
            os.close(own)


class FileWriter:
    """Stages one blob. See :class:`derive.store.protocol.BlobWriter`."""

    def __init__(self, path: Path, folder: BlobFolder) -> None:
        self._path = path
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._hasher = hashlib.sha256()
        self._gathered = bytearray()
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes."""
        self._size += len(data)
        if len(self._gathered) + len(data) <= _GATHERED:
            self._gathered += data
            return
        self._pass_on(self._gathered)
        self._gathered.clear()
        self._pass_on(data)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._size

    def commit(self, expected: Digest | None = None) -> Digest:
        """Sync and rename into place."""
        self._pass_on(self._gathered)
        digest = Digest(self._hasher.hexdigest())
        if expected is not None and digest != expected:
            raise Corrupt("the bytes are not what their name says", detail=expected_got(expected, digest))
        self._folder.hold(digest)
        if self._folder.has(digest) and self._folder.size(digest) == self._size:
            self._drop()
            return digest
        assert self._file is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._folder.adopt(self._path, digest)
        return digest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop()

    def _pass_on(self, data: bytes | bytearray | memoryview) -> None:
        if self._file is None:
            self._file = self._path.open("xb", buffering=CHUNK)
        self._hasher.update(data)
        self._file.write(data)

    def _drop(self) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError:  # a full disk says so again while flushing: the first error is the one to show
                if not self._path.exists():
                    raise
            self._path.unlink(missing_ok=True)


def damaged(path: Path, expected: Digest, got: str) -> Corrupt:
    """Return the error for stored bytes that are no longer those that were written."""
    return Corrupt(
        "a blob of the store is damaged",
        detail=[f"blob      {path}", *expected_got(expected, f"sha256:{got}")],
        hint="remove that file; the next run fetches or builds it again",
    )


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file_system(folder: Path) -> None:
    """Make everything in a folder's file system durable; other disks of the machine are not waited for."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if libc.syncfs(fd):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(fd)


def write_whole(path: Path, data: bytes, staging: Staging) -> None:
    """Write a small file under its final name, or not at all; it stays there once the staging folder has settled."""
    staged = staging.new_path()
    with staged.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    staged.chmod(0o644)
    staging.publish(staged, path)
