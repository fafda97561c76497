# SPDX-License-Identifier: Apache-2.0
"""The folders of one run: where it works, where it installs, and device nodes of its own.

Edge: makes and removes folders and device nodes.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from derive.errors import BuildFailed
from derive.sandbox.spec import DEVICES
from derive.trees.materialise import remove_folder

_SOURCES = Path("/dev")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchFolders:
    """What a request needs on disk.

    ``work`` and ``out`` are empty, mode 0755, below ``top`` with mode 0700: a script that root started can make files
    that are setuid root, and nobody else is to reach them. ``devices`` is None where this process cannot make nodes.
    """

    top: Path
    work: Path
    out: Path
    devices: Path | None


@contextlib.contextmanager
def scratch_folders(parent: Path, keep: Path | None = None) -> Iterator[ScratchFolders]:
    """Make the folders of one run in ``parent``, and remove them with whatever the run left there.

    With ``keep``, a run whose build fails leaves them at that place, instead of what an earlier one left.
    """
    top = Path(tempfile.mkdtemp(prefix="sandbox-", dir=parent))
    try:
        top.chmod(0o700)
        work, out = top / "work", top / "out"
        for folder in (work, out):
            folder.mkdir()
            folder.chmod(0o755)
        yield ScratchFolders(top=top, work=work, out=out, devices=private_devices(top / "dev"))
    except BuildFailed:
        if keep is not None:
            remove_folder(top / "dev")
            remove_folder(keep)
            keep.parent.mkdir(exist_ok=True)
            top.rename(keep)
        raise
    finally:
        remove_folder(top)


@contextlib.contextmanager
def opened_scratch(top: Path) -> Iterator[ScratchFolders]:
    """Open the folders that a failed run left; they stay."""
    devices = private_devices(top / "dev")
    try:
        yield ScratchFolders(top=top, work=top / "work", out=top / "out", devices=devices)
    finally:
        remove_folder(top / "dev")


def private_devices(folder: Path) -> Path | None:
    """Make device nodes that belong to one run, where that is allowed and this file system lets them work.

    Root's sandbox runs as the owner of the machine's nodes, and an owner may change their mode for everyone.
    """
    if os.geteuid() != 0:
        return None
    try:
        folder.mkdir(mode=0o700)
        for name in map(os.fsdecode, DEVICES):
            node = folder / name
            os.mknod(node, stat.S_IFCHR | 0o666, (_SOURCES / name).stat().st_rdev)
            node.chmod(0o666)
        os.close(os.open(folder / "null", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        remove_folder(folder)
        return None
    return folder
