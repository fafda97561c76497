# SPDX-License-Identifier: Apache-2.0
"""What no engine can be faster than: the wheels of an image inflated and hashed, and their sources compiled.

Edge: processes, a store that holds the wheels.

Each is done by the standard library alone, with as many processes as there are cores, and nothing is written.
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
import zipfile
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path

_CHUNK = 1 << 20
_DATA_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)


def inflate_and_hash_ns(wheels: Sequence[Path], jobs: int) -> int:
    """Return the wall time of reading every member of some wheels and hashing it."""
    return _timed(_inflate_and_hash, _largest_first(wheels), jobs)


def compile_ns(wheels: Sequence[Path], jobs: int) -> int:
    """Return the wall time of compiling every Python source of some wheels, each in a fresh fork, by this Python."""
    return _timed(_compile, _largest_first(wheels), jobs)


def _largest_first(wheels: Sequence[Path]) -> list[Path]:
    return sorted(wheels, key=lambda path: -path.stat().st_size)


def _timed(work: Callable[[Path], None], wheels: Sequence[Path], jobs: int) -> int:
    with get_context("fork").Pool(jobs) as pool:
        started = time.monotonic_ns()
        for _ in pool.imap_unordered(work, wheels, chunksize=1):
            pass
        return time.monotonic_ns() - started


def _inflate_and_hash(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            hasher = hashlib.sha256()
            with archive.open(member) as file:
                while piece := file.read(_CHUNK):
                    hasher.update(piece)


def _compile(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".py"):
                continue
            source = archive.read(member)
            child = os.fork()
            if not child:
                _compile_one(source, member.filename)
            os.waitpid(child, 0)


def _compile_one(source: bytes, name: str) -> None:
    """Compile and leave; never returns."""
    warnings.simplefilter("ignore")
    try:
        compile(source, name, "exec", dont_inherit=True, optimize=0)
    except _DATA_ERRORS:
        pass  # for another Python; the builder skips it too
    finally:
        os._exit(0)
