# SPDX-License-Identifier: Apache-2.0
"""Room on the disk of a store: how much there is, what to say when there is none, and a little kept for a collection.

Edge: the file system.

On a full disk a collection could not even make the folder into which it moves what goes. So a store keeps a file that
means nothing, and a collection gives its room up first.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from derive.errors import HostRefuses
from derive.store.layout import RESERVE

_RESERVED = 1 << 20
_LITTLE = 1 << 28
_UNBOUNDED = 1 << 60


def free_bytes(root: Path) -> int:
    """Return the bytes that this user can still write where a store is, or would be; a lot where nothing bounds it."""
    place = root
    while not place.exists() and place != place.parent:
        place = place.parent
    stats = os.statvfs(place)
    return stats.f_bavail * stats.f_frsize if stats.f_blocks else _UNBOUNDED


def is_full(error: BaseException | None, root: Path) -> bool:
    """Say whether an error means that the disk of a store is full; one that names another place is not about it."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return False
    if error.filename is None:
        return free_bytes(root) < _LITTLE  # what was staged, and did not fit, is removed already
    return Path(os.fsdecode(error.filename)).is_relative_to(root)


def no_space(root: Path) -> HostRefuses:
    """Return the error for a store whose disk is full."""
    return HostRefuses(
        f"no space left in the store {root}",
        detail=[f"free      {free_bytes(root) >> 20} MiB"],
        hint="derive store gc removes what nothing needs; or name a store on a larger disk with --store",
    )


def keep_reserve(root: Path) -> None:
    """Take the room that a collection may need; on a disk without it there is none to take."""
    path = root / RESERVE
    try:
        if path.stat().st_size == _RESERVED:
            return
    except FileNotFoundError:
        pass
    try:
        with path.open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, _RESERVED)
    except OSError:
        path.unlink(missing_ok=True)


def give_up_reserve(root: Path) -> None:
    """Make the reserve's room free where there is not as much besides."""
    if free_bytes(root) < _RESERVED:
        (root / RESERVE).unlink(missing_ok=True)
