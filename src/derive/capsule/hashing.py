# SPDX-License-Identifier: Apache-2.0
"""Hashes blobs of a layout, several at once and each in large pieces: as fast as the processor's cores allow.

Edge: reads files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from derive.canonical import Digest
from derive.capsule.tar_index import Slice

_PIECE = 1 << 20

K = TypeVar("K")


def digest_of(path: str, at: Slice) -> Digest | None:
    """Return the SHA-256 of bytes of a file; None when it ends before them. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        hasher = hashlib.sha256()
        view = memoryview(bytearray(min(_PIECE, at.size or 1)))
        offset, end = at.offset, at.offset + at.size
        while offset < end:
            count = os.preadv(handle, [view[: end - offset]], offset)
            if not count:
                return None
            hasher.update(view[:count])
            offset += count
    finally:
        os.close(handle)
    return Digest(hasher.hexdigest())


def digests_of(wanted: Iterable[tuple[K, str, Slice]], jobs: int) -> Iterator[tuple[K, Digest | OSError | None]]:
    """Yield the digest of each, in the order given; the error in place of one that cannot be read."""

    def one(item: tuple[K, str, Slice]) -> tuple[K, Digest | OSError | None]:
        key, path, at = item
        try:
            return key, digest_of(path, at)
        except OSError as error:
            return key, error

    with ThreadPoolExecutor(max(1, jobs), thread_name_prefix="hash") as pool:
        yield from pool.map(one, wanted)
