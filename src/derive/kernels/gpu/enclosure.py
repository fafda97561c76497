# SPDX-License-Identifier: Apache-2.0
"""A mount namespace in which the kernels' cache cannot be written, and no compiler can be run unnoticed.

Edge: mounts, through the C library; files below one folder. Where mounting is refused, modes of files must do.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_NEW_NAMESPACE = 0x00020000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_REFUSED = 126
_NAME = re.compile(
    r"(?:.+-)?(?:nvcc|cicc|cudafe\+\+|ptxas|nvlink|fatbinary|nvc|nvc\+\+|gcc|g\+\+|cc|c\+\+|c89|c99|cpp|clang|clang\+\+"
    r"|cc1|cc1plus|collect2|lto1|lto-wrapper|as|ld|ld\.bfd|ld\.gold|ld\.lld|lld|tcc)(?:-?[0-9.]+)?"
)
_FOLDERS = (
    "/usr/bin",
    "/usr/local/bin",
    "/usr/lib/gcc",
    "/usr/libexec/gcc",
    "/usr/lib/llvm*",
    "/usr/local/cuda*",
    "/opt/cuda*",
)


def is_compiler(name: str) -> bool:
    """Say whether a program of this name makes machine code: a compiler, assembler or linker, or a part of one."""
    return bool(_NAME.fullmatch(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosure:
    """What this process lives in from now on.

    ``read_only`` says what keeps the cache from being written: a mount, the modes of its files, or nothing. ``covered``
    are the compilers that only note their call; ``works`` says that calling each was tried, refused and noted.
    """

    cache: Path
    read_only: Literal["mount", "modes", "no"]
    covered: tuple[str, ...]
    works: bool
    notes: Path

    @classmethod
    def enter(cls, *, cache: Path, work: Path) -> Enclosure:
        """Move this process into such a namespace. Before threads are started: it is this thread that moves."""
        work.mkdir(parents=True)
        notes, cover = work / "refused", work / "cover"
        cover.write_text(f'#!/bin/sh\nprintf "%s\\n" "$0 $*" >> "{notes}"\nexit {_REFUSED}\n', encoding="utf-8")
        cover.chmod(0o755)
        try:
            _unshare()
        except OSError:
            return cls(cache=cache, read_only=_by_modes(cache), covered=(), works=False, notes=notes)
        place = work / "cache"
        place.mkdir()
        _mount(cache, place, _BIND)
        _mount(None, place, _BIND | _REMOUNT | _READ_ONLY)
        covered = []
        for program in sorted(set(_compilers())):
            _mount(cover, Path(program), _BIND)
            covered.append(program)
        works = bool(covered) and all(_is_refused(program, notes) for program in covered)
        notes.unlink(missing_ok=True)
        mounted: Literal["mount", "no"] = "no" if _can_write(place) else "mount"
        return cls(cache=place, read_only=mounted, covered=tuple(covered), works=works, notes=notes)

    def refused(self) -> list[str]:
        """Return the calls that were noted."""
        return self.notes.read_text("utf-8", "backslashreplace").splitlines() if self.notes.exists() else []


def _compilers() -> Iterator[str]:
    """Yield the real paths of compilers on PATH, in the system's folders and in Python's packages."""
    folders = {*os.environ.get("PATH", "").split(os.pathsep), f"{os.environ.get('CUDA_HOME', '/usr')}/bin"}
    for pattern in _FOLDERS:
        folders |= {str(path) for path in Path("/").glob(pattern.lstrip("/"))}
    packages = {sysconfig.get_path("purelib"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    for folder in sorted(folders | packages):
        for where, _, files in os.walk(folder) if folder else ():
            for file in files:
                path = os.path.realpath(f"{where}/{file}") if is_compiler(file) else ""
                if Path(path).is_file() and os.access(path, os.X_OK):
                    yield path


def _is_refused(program: str, notes: Path) -> bool:
    before = notes.stat().st_size if notes.exists() else 0
    status = subprocess.run([program, "--version"], capture_output=True, check=False).returncode
    return status == _REFUSED and notes.stat().st_size > before


def _by_modes(cache: Path) -> Literal["modes", "no"]:
    for path in (cache, *cache.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    return "no" if _can_write(cache) else "modes"


def _can_write(folder: Path) -> bool:
    try:
        probe = folder / ".probe"
        probe.touch()
        probe.unlink()
    except OSError:
        return False
    return True


def _unshare() -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_NEW_NAMESPACE):
        raise OSError(ctypes.get_errno(), "unshare")
    _mount(None, Path("/"), _RECURSIVE | _PRIVATE)


def _mount(source: Path | None, target: Path, flags: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    given = os.fsencode(source) if source is not None else None
    if library.mount(given, os.fsencode(target), None, ctypes.c_ulong(flags), None):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} at {target}: {os.strerror(number)}")
