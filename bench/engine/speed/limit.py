# SPDX-License-Identifier: Apache-2.0
"""What no engine can be faster than: the wheels of an image inflated and hashed, and their sources compiled.

Edge: processes, a store that holds the wheels.

Each is done by the standard library alone, with as many processes as there are cores, and nothing is written. What they
take together of the CPU, over the number of cores, is what no other program can make longer; the wall time is not.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

_CHUNK = 1 << 20
_DATA_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Wall time, and the CPU time of all processes together."""

    wall_ns: int
    cpu_ns: int


def inflate_and_hash(wheels: Sequence[Path], jobs: int) -> Taken:
    """Read every member of some wheels, and hash it."""
    return _timed("inflate", wheels, jobs)


def compile_sources(wheels: Sequence[Path], jobs: int) -> Taken:
    """Compile every Python source of some wheels, each in a fresh fork, by this Python."""
    return _timed("compile", wheels, jobs)


def main(argv: Sequence[str]) -> int:
    """Do one of the two: in a process of its own, which holds little and so forks quickly."""
    what, jobs, *wheels = argv
    work = {"inflate": _inflate_and_hash, "compile": _compile}[what]
    with get_context("fork").Pool(int(jobs)) as pool:
        for _ in pool.imap_unordered(work, map(Path, wheels), chunksize=1):
            pass
        pool.close()
        pool.join()
    return 0


def _largest_first(wheels: Sequence[Path]) -> list[Path]:
    return sorted(wheels, key=lambda path: -path.stat().st_size)


def _timed(what: str, wheels: Sequence[Path], jobs: int) -> Taken:
    # The process that is measured has no use for it.
    from speed.measure import command

    sample = command([sys.executable, __file__, what, str(jobs), *_largest_first(wheels)])
    return Taken(wall_ns=sample.wall_ns, cpu_ns=sample.cpu_ns)


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
