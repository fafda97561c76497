# SPDX-License-Identifier: Apache-2.0
"""Trees on a real disk for tests: written by plain system calls, and read back without the code under test.

Edge: the file system and Nix's own tools.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from derive.trees.listing import DIRECTORY, Directory, Symlink
from derive.trees.pack import Member, NewFile
from support.require import skip_or_fail


@dataclass(frozen=True, slots=True)
class Plain:
    """A regular file to write."""

    data: bytes
    executable: bool = False


Spec: TypeAlias = Mapping[bytes, "Plain | Symlink | Directory"]

ODD: Spec = {
    b"empty-file": Plain(b""),
    b"empty folder": DIRECTORY,
    b"deep/er/est": Plain(b"x" * 8),
    b"run me": Plain(b"#!/bin/sh\n", executable=True),
    b"caf\xe9": Plain(b"a name that is not UTF-8"),
    "café".encode(): Plain(b"a name that is"),
    "cafe\u0301".encode(): Plain(b"the same name, decomposed"),
    b"\xff\xfe/\x01\n": Plain(b"control"),
    b"a": DIRECTORY,
    b"a/z": Plain(b"inside"),
    b"a!": Plain(b"sorts after a/z by component"),
    b"a.b": Plain(b"so does this"),
    b"dangling": Symlink(b"to/nothing"),
    b"absolute": Symlink(b"/etc/passwd"),
    b"odd target": Symlink(b"caf\xe9\n"),
    b"loop": Symlink(b"loop"),
}
"""Everything a tree can hold, with the names that go wrong elsewhere."""


def write_folder(top: Path, spec: Spec) -> None:
    """Make the folder ``top`` with these entries."""
    top.mkdir(parents=True)
    for path, entry in spec.items():
        place = top / os.fsdecode(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, Directory):
            place.mkdir(parents=True, exist_ok=True)
        elif isinstance(entry, Symlink):
            os.symlink(entry.target, os.fsencode(place))  # noqa: PTH211 - pathlib would tidy the target
        else:
            place.write_bytes(entry.data)
            place.chmod(0o755 if entry.executable else 0o644)


def members_of(spec: Spec) -> Iterator[tuple[bytes, Member]]:
    """Yield the same entries as members of a tree."""
    for path, entry in spec.items():
        yield path, NewFile(entry.executable, [entry.data]) if isinstance(entry, Plain) else entry


def read_folder(top: Path) -> dict[bytes, Plain | Symlink | Directory]:
    """Read a folder back, without the root, following no link."""
    found: dict[bytes, Plain | Symlink | Directory] = {}

    def walk(folder: Path, prefix: bytes) -> None:
        for place in folder.iterdir():
            path = prefix + os.fsencode(place.name)
            mode = place.lstat().st_mode
            if stat.S_ISLNK(mode):
                found[path] = Symlink(os.readlink(os.fsencode(place)))  # noqa: PTH115 - likewise
            elif stat.S_ISDIR(mode):
                found[path] = DIRECTORY
                walk(place, path + b"/")
            else:
                found[path] = Plain(place.read_bytes(), executable=bool(mode & stat.S_IXUSR))

    walk(top, b"")
    return found


def with_parents(spec: Spec) -> dict[bytes, Plain | Symlink | Directory]:
    """Return the entries with the folders above them, the root left out."""
    full = dict(spec)
    for path in spec:
        while path := path.rpartition(b"/")[0]:
            full.setdefault(path, DIRECTORY)
    return full


def nix_hash(path: Path | bytes) -> str:
    """Return what ``nix-hash`` prints for a path: 64 hex digits."""
    return _nix(["nix-hash", "--type", "sha256"], path).decode().strip()


def nix_dump(path: Path | bytes) -> bytes:
    """Return the NAR that ``nix-store --dump`` writes for a path."""
    return _nix(["nix-store", "--dump"], path)


def _nix(command: list[str], path: Path | bytes) -> bytes:
    if shutil.which(command[0]) is None:
        skip_or_fail(f"{command[0]} is not installed (Debian package nix-bin)")
    done = subprocess.run([*command, os.fsencode(path)], capture_output=True, check=True)
    return done.stdout
