# SPDX-License-Identifier: Apache-2.0
"""Whether a folder is a store of ours, one that is being made, none yet, or somebody else's.

Edge: the file system. Reads alone.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path

from derive.errors import HostRefuses

FOLDERS = ("blobs/sha256", "listings", "trees", "logs", "locks", "tmp")
"""What every store has from the beginning."""

RESERVE = "reserve"
"""A file that takes room until a collection needs it."""

NAMES = frozenset(
    {
        *("blobs", "listings", "trees", "logs", "locks", "tmp", "partial", "damaged", "scans", "failed"),
        *("oci-layout", "index.json", "derive.sqlite", "derive.sqlite-wal", "derive.sqlite-shm", RESERVE),
    }
)
"""Everything that may lie at a store's top."""

OF_DISKS = frozenset({"lost+found"})
"""What a file system itself has at its top, where a store may lie."""


class State(Enum):
    """What a folder is to a store."""

    ABSENT = "absent"
    UNFINISHED = "unfinished"
    MADE = "made"


def state_of(root: Path) -> State:
    """Return what a folder is, and change nothing; one that is not there, or is empty, is absent.

    Raises:
        HostRefuses: when it holds what no store put there: nothing may be written or removed in it.
        OSError: when it cannot be read.
    """
    try:
        names = set(os.listdir(root)) - OF_DISKS  # noqa: PTH208 - names alone
    except FileNotFoundError:
        return State.ABSENT
    if not names:
        return State.ABSENT
    if "oci-layout" in names and ("derive.sqlite" in names or (root / "listings").is_dir()):
        return State.MADE
    if "derive.sqlite" in names and (root / "blobs" / "sha256").is_dir():
        return State.UNFINISHED
    if names <= NAMES and (_is_just_begun(root, names) or _has_all_folders(root)):
        return State.UNFINISHED
    raise HostRefuses(
        "this folder is not empty, and no store of derive",
        where=str(root),
        hint="name an empty folder, or one that is not there, with --store or DERIVE_STORE",
    )


def _has_all_folders(root: Path) -> bool:
    return all((root / folder).is_dir() for folder in FOLDERS)


def _is_just_begun(root: Path, names: set[str]) -> bool:
    """Say whether a folder holds no more than what is made before the store is complete."""
    folders = names & {folder.partition("/")[0] for folder in FOLDERS}
    files = names - folders
    if files and not (files <= {"index.json", RESERVE} and (root / "blobs" / "sha256").is_dir()):
        return False
    inside = {f"{name}/{inner}" for name in folders for inner in os.listdir(root / name)}  # noqa: PTH208 - names alone
    return inside <= {"blobs/sha256"} and not (inside and os.listdir(root / "blobs" / "sha256"))  # noqa: PTH208
