# SPDX-License-Identifier: Apache-2.0
"""Hashes many files at once, each read in large pieces: as fast as the processor's cores allow.

Edge: the file system, threads.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from derive.canonical import Digest

_PIECE = 1 << 20
_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


def hash_file(path: str | bytes | Path) -> tuple[Digest, int]:
    """Return a file's SHA-256 and its size in bytes; links are not followed.

    Raises:
        OSError: when it cannot be read: absent, or the disk fails.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        hasher = hashlib.sha256()
        buffer = bytearray(min(_PIECE, os.fstat(descriptor).st_size + 1))
        view = memoryview(buffer)
        size = 0
        while count := os.readv(descriptor, [buffer]):
            hasher.update(view[:count])
            size += count
        return Digest(hasher.hexdigest()), size
    finally:
        os.close(descriptor)


def in_parallel(work: Callable[[_Item], _Found], items: Iterable[_Item], jobs: int) -> Iterator[_Found]:
    """Yield what a function gives for each item, in order; give the largest items first, that no core waits long."""
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="verify")
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
