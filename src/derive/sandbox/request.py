# SPDX-License-Identifier: Apache-2.0
"""What a caller asks of the sandbox: a root, inputs, two folders, a command and its variables.

Core: no IO. Host paths are bytes, as ``os.fsencode`` gives them; names inside a root tree are bytes too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from derive.canonical import EPOCH
from derive.trees.listing import Directory, File, Listing, Symlink

FIXED_ENVIRONMENT: Mapping[str, str] = {
    "DERIVE_OUT": "/out",
    "HOME": "/build",
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
    "SOURCE_DATE_EPOCH": str(EPOCH),
    "TZ": "UTC",
}
"""Set in every sandbox. ``DERIVE_JOBS`` comes beside them, and ``PWD`` from the runner: it is always ``/build``."""

PLATFORM_VARIABLES = frozenset({"DERIVE_BUILD_TRIPLET", "DERIVE_HOST", "DERIVE_HOST_TRIPLET"})
"""Set for scripts from the derivation's platforms; a derivation's own environment may not name them."""

RESERVED = frozenset({b"build", b"dev", b"in", b"out", b"proc", b"tmp"})
"""Top-level names that the sandbox fills itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootFolder:
    """A top-level folder of the root tree. ``empty``: nothing lies in it."""

    name: bytes
    empty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RootLink:
    """A top-level symbolic link of the root tree, re-created as it is."""

    name: bytes
    target: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RootFile:
    """A top-level regular file of the root tree."""

    name: bytes


RootEntry: TypeAlias = RootFolder | RootLink | RootFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Shell text, run as ``/bin/sh -eu`` on a read-only file that holds exactly these characters in UTF-8."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program of the root by its absolute path, with its arguments."""

    argv: tuple[str, ...]


Command: TypeAlias = Script | Program


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRequest:
    """What a caller wants run.

    ``root`` is the folder of the composed root tree and ``root_entries`` its top level (:func:`root_entries`).
    ``inputs`` gives the folder or file that appears read-only as ``/in/<name>``. ``work`` and ``out`` are folders that
    the caller made for this run alone, below a folder that no other user can enter. ``devices`` is a folder with
    private device nodes; without it the host's own are bound. ``jobs`` is outside every identity.
    """

    root: bytes
    root_entries: tuple[RootEntry, ...]
    inputs: Mapping[str, bytes]
    work: bytes
    out: bytes
    command: Command
    environment: Mapping[str, str]
    jobs: int
    devices: bytes | None = None


def root_entries(listing: Listing) -> tuple[RootEntry, ...]:
    """Return the top level of a root tree, in order of name."""
    occupied = {path.partition(b"/")[0] for path in listing if b"/" in path}
    found: list[RootEntry] = []
    for name, entry in listing.items():
        if not name or b"/" in name:
            continue
        match entry:
            case Directory():
                found.append(RootFolder(name=name, empty=name not in occupied))
            case Symlink(target):
                found.append(RootLink(name=name, target=target))
            case File():
                found.append(RootFile(name=name))
            case _:
                assert_never(entry)
    return tuple(found)
