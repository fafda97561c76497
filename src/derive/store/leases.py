# SPDX-License-Identifier: Apache-2.0
"""What live processes need of a store: each says so in its lock file, and a collection reads it before it removes.

Edge: the file system.

A process names a thing *before* it asks whether the thing is there, and holds the lock of the folder ``tmp``
(``flock``, shared) while it writes that line. A collection holds the same lock alone from before it reads the lines
until everything that it removes is out of the way. So a thing was named first and stays, or is seen to be gone.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, TypeAlias

from derive.canonical import Digest

Kind: TypeAlias = Literal["drv", "blob", "tree"]
"""What a line names: a derivation with everything that it gave, a blob, or a tree with the blobs under it."""

_LINE = re.compile(rb"(drv|blob|tree) ([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What living processes named; ``processes`` counts them."""

    processes: int
    derivations: frozenset[Digest]
    blobs: frozenset[Digest]
    trees: frozenset[Digest]


class Lease:
    """What one process named, in its lock file. Not safe for several threads: its owner guards it."""

    def __init__(self, folder: Path, file: IO[bytes]) -> None:
        self._folder = folder
        self._file = file
        self._named: set[tuple[Kind, Digest]] = set()

    def add(self, kind: Kind, digests: Iterable[Digest]) -> None:
        """Name things; each is written once. Waits while a collection marks and removes."""
        new = [(kind, digest) for digest in digests if (kind, digest) not in self._named]
        if not new:
            return
        # A line begins with its line break: one that a full disk cut short then spoils no line after it.
        lines = "".join(f"\n{kind} {digest.hex}" for kind, digest in new)
        with folder_lock(self._folder, alone=False):
            self._file.write(lines.encode())
            self._file.flush()
        self._named.update(new)


@contextmanager
def folder_lock(folder: Path, *, alone: bool) -> Iterator[None]:
    """Hold the lock that stands between naming things and removing them."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def read_leases(folder: Path) -> Held:
    """Return what the living named. Complete only while the folder's lock is held alone."""
    found: dict[bytes, set[Digest]] = {b"drv": set(), b"blob": set(), b"tree": set()}
    processes = 0
    for path in folder.glob("*.lock"):
        text = _text_of_the_living(path)
        if text is None:
            continue
        processes += 1
        for line in text.split(b"\n"):
            match = _LINE.fullmatch(line)
            if match is not None:
                found[match[1]].add(Digest(match[2].decode()))
    return Held(
        processes=processes,
        derivations=frozenset(found[b"drv"]),
        blobs=frozenset(found[b"blob"]),
        trees=frozenset(found[b"tree"]),
    )


def _text_of_the_living(path: Path) -> bytes | None:
    """Return a lock file's text, or None when its owner is gone."""
    try:
        with path.open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return lock.read()
    except FileNotFoundError:
        return None
    return None
