# SPDX-License-Identifier: Apache-2.0
"""A listing as a read-only folder on disk, the same for every user and umask; and the removal of such folders.

Edge: writes the file system.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import assert_never

from derive.canonical import EPOCH
from derive.store.protocol import Store
from derive.trees.listing import Directory, File, Listing, Symlink

_TIMES = (EPOCH * 10**9, EPOCH * 10**9)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 64  # folders open at once while removing


def materialise(store: Store, listing: Listing, target: Path) -> None:
    """Write a tree at ``target``, which must not exist.

    Files get mode 0444 or 0555, folders 0555, everything the one constant time; no names share an inode. The top
    folder alone stays writable (0755), because an ordinary user cannot move a read-only folder: whoever renames it
    into place makes it read-only then. A tree that is one file becomes a file.

    Nothing is synced: the caller does that once, before it renames.

    Raises:
        Missing, Corrupt: from the store.
        OSError: from the file system; what was written until then is left for :func:`remove_folder`.
    """
    top = os.fsencode(target)
    folders: list[bytes] = []
    for path, entry in listing.items():
        place = top + b"/" + path if path else top
        match entry:
            case Directory():
                os.mkdir(place)  # noqa: PTH102 (paths are bytes, and many)
                os.chmod(place, 0o700)  # noqa: PTH101
                folders.append(place)
            case Symlink(leads_to):
                os.symlink(leads_to, place)  # noqa: PTH211
                os.utime(place, ns=_TIMES, follow_symlinks=False)
            case File():
                _write(store, entry, place)
            case _:
                assert_never(entry)
    for place in reversed(folders):
        os.chmod(place, 0o755 if place == top else 0o555)  # noqa: PTH101
        os.utime(place, ns=_TIMES)


def remove_folder(folder: Path) -> None:
    """Delete a folder of ours, however read-only, deep or oddly named its contents are; absence is no error.

    Links are removed, never followed.
    """
    try:
        mode = folder.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        folder.unlink()
        return
    top = _enter(None, str(folder))
    try:
        while _empty(top, top, 0):
            pass
    finally:
        os.close(top)
    folder.rmdir()


def _empty(folder: int, top: int, depth: int) -> bool:
    """Delete a folder's contents. What lies too deep for recursion moves up to the top first: True if anything did."""
    moved = False
    with os.scandir(folder) as found:
        items = [(item.name, item.is_dir(follow_symlinks=False)) for item in found]
    for name, is_folder in items:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
            continue
        inner = _enter(folder, name)
        try:
            if depth >= _DEEPEST:
                os.rename(name, f".removed-{os.fstat(inner).st_ino}", src_dir_fd=folder, dst_dir_fd=top)
                moved = True
                continue
            moved |= _empty(inner, top, depth + 1)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)
    return moved


def _enter(above: int | None, name: str) -> int:
    """Open a folder that is to be emptied, with every right that its owner can have."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        opened = os.open(name, os.O_RDONLY | flags, dir_fd=above)
    except PermissionError:
        handle = os.open(name, os.O_PATH | flags, dir_fd=above)
        try:
            Path(f"/proc/self/fd/{handle}").chmod(0o700)
        finally:
            os.close(handle)
        opened = os.open(name, os.O_RDONLY | flags, dir_fd=above)
    os.fchmod(opened, 0o700)
    return opened


def _write(store: Store, file: File, place: bytes) -> None:
    descriptor = os.open(place, _NEW, 0o600)
    try:
        for chunk in store.read(file):
            view = memoryview(chunk)
            while view:
                view = view[os.write(descriptor, view) :]
        os.fchmod(descriptor, 0o555 if file.executable else 0o444)
        os.utime(descriptor, ns=_TIMES)
    finally:
        os.close(descriptor)
