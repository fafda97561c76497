# SPDX-License-Identifier: Apache-2.0
"""Blobs that are on their way: what has come stays under ``partial/`` until the rest comes, in this run or a later one.

Edge: the file system. One process at a time writes a partial blob; the kernel lets go of it when that process dies.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeAlias

from derive.canonical import Digest
from derive.errors import Corrupt, expected_got
from derive.store.local import LocalStore
from derive.store.protocol import CHUNK, BlobWriter, Store

FOLDER = "partial"
"""Where unfinished blobs lie in a store, each under the hash that it will have."""

_GATHERED = 1 << 18
_ASKED_AGAIN = 1 << 16  # of what had come, so that whoever sends the rest is seen to have the file
_GIVEN_BACK = 1 << 24  # of what had come, when the disk is full: the store's database needs room to say so
_ASK_AGAIN_S = 0.05

Wait: TypeAlias = Callable[[float], None]
"""Waits for so many seconds; raises Interrupted when the wait is no longer worth it."""


def partial_writer(
    store: Store, digest: Digest, *, size: int | None, wait: Wait, fresh: bool = False
) -> BlobWriter | PartialWriter:
    """Go on with a blob of that digest, or begin it where nothing has come yet or with ``fresh``.

    A writer's size right after it was entered says how much is there. A store in memory always begins.
    """
    if isinstance(store, LocalStore):
        return PartialWriter(store, digest, size=size, wait=wait, fresh=fresh)
    return store.blob_writer()


class PartialWriter:
    """A :class:`derive.store.protocol.BlobWriter` whose bytes stay when it is left without a commit.

    ``size`` is the blob's whole size in bytes, None where it is not known. Entering waits for any other process or
    thread that writes the same blob, and hashes what is there.
    """

    def __init__(self, store: LocalStore, digest: Digest, *, size: int | None, wait: Wait, fresh: bool) -> None:
        self._store = store
        self._digest = digest
        self._path = store.root / FOLDER / digest.hex
        self._whole = size
        self._wait = wait
        self._fresh = fresh
        self._fd = -1
        self._hasher = hashlib.sha256()
        self._gathered = bytearray()
        self._size = 0
        self._taken_up = 0
        self._cut = False
        self._keep: int | None = None

    @property
    def size(self) -> int:
        """Bytes there so far."""
        return self._size

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes."""
        self._size += len(data)
        if not self._gathered and len(data) >= _GATHERED:
            self._pass(data)
            return
        self._gathered += data
        if len(self._gathered) >= _GATHERED:
            self._pass_on()

    def withdraw(self, size: int) -> None:
        """Keep no more than the first ``size`` bytes, for the others came from a wrong file; the last call."""
        self._keep = size

    def commit(self, expected: Digest | None = None) -> Digest:
        """Sync and rename into place; raises Corrupt when the bytes are not the expected ones, and keeps none."""
        self._pass_on()
        self._cut_end()
        digest, wanted = Digest(self._hasher.hexdigest()), expected or self._digest
        if digest != wanted:
            self.withdraw(0)
            raise Corrupt("the bytes are not what their name says", detail=expected_got(wanted, digest))
        os.fsync(self._fd)
        os.fchmod(self._fd, 0o444)
        self._store.staging.hold("blob", (digest,))
        self._store.staging.publish(self._path, self._store.root / "blobs" / "sha256" / digest.hex)
        self._close()
        return digest

    def __enter__(self) -> Self:
        self._store.staging.require_writable()
        self._path.parent.mkdir(exist_ok=True)
        while not self._claim():
            pass
        try:
            self._take_up()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd < 0:
            return
        try:
            self._leave(full=isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT))
        finally:
            self._close()

    def _claim(self) -> bool:
        """Open and lock the file; return False when it was moved away meanwhile."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(self._path, flags, 0o644)
        except PermissionError:
            self._path.chmod(0o644)  # whole and about to be renamed when its process was killed
            fd = os.open(self._path, flags, 0o644)
        try:
            self._lock(fd)
            mine = os.fstat(fd).st_ino == self._path.stat().st_ino
        except FileNotFoundError:
            mine = False
        except BaseException:
            os.close(fd)
            raise
        if mine:
            self._fd = fd
        else:
            os.close(fd)
        return mine

    def _lock(self, fd: int) -> None:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._wait(_ASK_AGAIN_S)
            else:
                return

    def _take_up(self) -> None:
        """Hash what is there, but for its end."""
        there = os.fstat(self._fd).st_size
        fits = not self._fresh and (self._whole is None or there <= self._whole)
        keep = max(0, there - _ASKED_AGAIN) if fits else 0
        while self._size < keep:
            piece = os.read(self._fd, min(CHUNK, keep - self._size))
            if not piece:
                break
            self._hasher.update(piece)
            self._size += len(piece)
            self._wait(0)
        self._taken_up = self._size
        if not keep:
            self._cut_end()

    def _cut_end(self) -> None:
        """Give up the end of what was there: only once more has come, lest each try in vain costs a piece."""
        if not self._cut:
            os.ftruncate(self._fd, self._taken_up)
            self._cut = True

    def _pass_on(self) -> None:
        data, self._gathered = self._gathered, bytearray()
        if data:
            self._pass(data)

    def _pass(self, data: bytes | bytearray | memoryview) -> None:
        self._cut_end()
        self._hasher.update(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def _leave(self, *, full: bool) -> None:
        if not full and self._keep is None:
            self._pass_on()
        there = os.fstat(self._fd).st_size
        keep = there if self._keep is None or not self._cut else min(there, self._keep)
        if full:
            keep = max(0, keep - _GIVEN_BACK)
        if not keep or self._store.has_blob(self._digest):
            self._path.unlink(missing_ok=True)
        elif keep < there:
            os.ftruncate(self._fd, keep)

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
