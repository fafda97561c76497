# SPDX-License-Identifier: Apache-2.0
"""Hashes many files at once, each read in large pieces: as fast as the processor's cores allow.

Edge: the file system.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from derive.canonical import Digest

_PIECE = 1 << 20
_BATCH = 8 << 20
_EACH = 1 << 16  # what opening a file costs, in bytes that could be hashed meanwhile


@dataclass(frozen=True, slots=True)
class Expected:
    """A file that is to have a SHA-256; ``size`` in bytes says how long that takes, ``tree`` in which tree it lies."""

    path: bytes
    sha256: Digest
    size: int
    tree: Digest | None = None


@dataclass(frozen=True, slots=True)
class Wrong:
    """A file that has another one, or cannot be read; ``is_gone`` when it is not there at all."""

    file: Expected
    what: str
    is_gone: bool = False


def batches(files: Iterable[Expected]) -> Iterator[Sequence[Expected]]:
    """Put files together, the largest first, so that no batch takes long and none is not worth handing out."""
    batch: list[Expected] = []
    size = 0
    for file in sorted(files, key=lambda one: (-one.size, one.path)):
        batch.append(file)
        size += file.size + _EACH
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def wrong_of(batch: Sequence[Expected]) -> list[Wrong]:
    """Hash files, and return those that are not what they should be."""
    found = []
    for file in batch:
        try:
            text, size = _hash(file.path)
        except FileNotFoundError:
            found.append(Wrong(file, "is gone", is_gone=True))
        except OSError as error:
            found.append(Wrong(file, f"cannot be read: {(error.strerror or str(error)).lower()}"))
        else:
            if text != file.sha256.hex:
                found.append(Wrong(file, f"its bytes are those of sha256:{text[:12]} ({size} bytes)"))
    return found


def _hash(path: bytes) -> tuple[str, int]:
    """Return a file's SHA-256 in hex, and its size in bytes; links are not followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        hasher = hashlib.sha256()
        buffer = bytearray(min(_PIECE, os.fstat(descriptor).st_size + 1))
        view = memoryview(buffer)
        size = 0
        while count := os.readv(descriptor, [buffer]):
            hasher.update(view[:count])
            size += count
            if count < len(buffer):
                break  # less came than was asked for: the end
        return hasher.hexdigest(), size
    finally:
        os.close(descriptor)
