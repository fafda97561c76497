# SPDX-License-Identifier: Apache-2.0
"""Writes a layout: a folder or one tar, which is there whole or as it was, whenever the writer is killed.

Edge: writes one folder or file, and what is unfinished beside it; the next run goes on from there.

Every byte is written anew: a link to the store's own file would let a later edit of the layout damage the store.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from derive.canonical import Digest
from derive.capsule.hashing import digest_of
from derive.capsule.oci import INDEX_FILE, LAYOUT, LAYOUT_FILE, read_manifest
from derive.capsule.read import Capsule, open_capsule
from derive.capsule.tar_index import Slice
from derive.capsule.tar_write import checked, tar_size, write_tar
from derive.capsule.whole import Whole, joined
from derive.errors import HostRefuses, InputErrors
from derive.store.blobs import sync_file_system, sync_folder
from derive.store.space import free_bytes

_PACKED = frozenset((".zip", ".gz", ".xz", ".zst", ".bz2", ".7z", ".tgz", ".txz", ".tzst", ".tbz2"))
"""Suffixes of archives that no capsule is: whoever names one expects no folder."""

_BESIDE = 1 << 20
"""Bytes that are left free: for folders, and for whoever else writes there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What writing takes, said before it begins: blobs and bytes to write, bytes that are free there."""

    blobs: int
    size: int
    free: int


def write_capsule(whole: Whole, target: Path, *, add: bool, jobs: int, say: Callable[[Room], None]) -> Whole:
    """Write a layout, and return what lies there then; with ``add``, what lies there stays in it.

    A ``target`` that ends in ``.tar`` is one file. Nothing of what is there is changed before all is written.

    Raises:
        InputErrors: when something else lies there, or a capsule and ``add`` is not said.
        Corrupt, Missing: when a blob cannot be read as what it is.
        HostRefuses: when it cannot be written: no room, no right, or another process that writes it.
    """
    if not target.parent.is_dir():
        raise InputErrors.one(
            f"the folder {target.parent} does not exist",
            where=str(target),
            hint=f"make it first: mkdir -p {target.parent}",
        )
    is_tar = target.suffix == ".tar"
    old = _lying(target, is_tar=is_tar, add=add)
    full = whole if old is None else joined(_of(old), whole)
    with _told(target):
        if is_tar:
            _write_tar(full, target, say)
        else:
            _write_folder(full, target, jobs, say)
    return full


def check_target(target: Path, *, add: bool) -> None:
    """Find out whether a layout can be written there, before much is done for it; raises as :func:`write_capsule`."""
    if target.suffix.lower() in _PACKED or (target.suffix.lower() == ".tar" and target.suffix != ".tar"):
        hint = f"name a folder, or one file: {target.name[: -len(target.suffix)].removesuffix('.tar')}.tar"
        raise InputErrors.one(f"a capsule is a folder or a .tar, and no {target.suffix}", where=str(target), hint=hint)
    if not target.parent.is_dir():
        raise InputErrors.one(
            f"the folder {target.parent} does not exist",
            where=str(target),
            hint=f"make it first: mkdir -p {target.parent}",
        )
    _lying(target, is_tar=target.suffix == ".tar", add=add)


def _lying(target: Path, *, is_tar: bool, add: bool) -> Capsule | None:
    """Return the capsule that lies at a target; None when nothing does."""
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return None
    if not (stat.S_ISREG(mode) if is_tar else stat.S_ISDIR(mode)):
        what = "no file, and what ends in .tar is one" if is_tar else "no folder"
        raise InputErrors.one(what, where=str(target), hint="name another --output")
    if not is_tar and not any(target.iterdir()):
        return None
    capsule = open_capsule(target)
    if not is_tar and capsule.layout.file(INDEX_FILE) is None:
        raise InputErrors.one("the folder holds other things than a capsule", where=str(target))
    names = ", ".join(one.name for one in capsule.listed)
    if not add:
        hint = "say --add to put the release beside what it holds, or name another --output"
        raise InputErrors.one(
            "a capsule lies there already", where=str(target), detail=[f"of        {names}"], hint=hint
        )
    return capsule


def _of(capsule: Capsule) -> Whole:
    """Return what a capsule holds."""
    blobs: dict[Digest, int] = {}
    for one in capsule.listed:
        manifest = read_manifest(capsule.small(one.manifest), f"{capsule.where}: {one.name}")
        blobs |= manifest.blobs
        blobs |= {one.manifest: one.size, manifest.document.digest: manifest.document.size}
    return Whole(listed=capsule.listed, blobs=blobs, read=capsule.read)


def _write_folder(whole: Whole, target: Path, jobs: int, say: Callable[[Room], None]) -> None:
    with _staging_folder(target) as staged:
        blobs = staged / "blobs" / "sha256"
        blobs.mkdir(parents=True, exist_ok=True)
        there = _sizes(target / "blobs" / "sha256")
        wanted = {digest: size for digest, size in whole.blobs.items() if there.get(digest) != size}
        _keep_whole(blobs, wanted)
        begun = _sizes(blobs)
        left = sorted(digest for digest in wanted if digest not in begun)
        _require_room(target, len(left), sum(wanted[digest] for digest in left), say)

        def one(digest: Digest) -> None:
            part = staged / f"{digest.hex}.part"
            with part.open("wb") as file:
                file.writelines(checked(digest, whole.read(digest), whole.blobs[digest]))
            part.chmod(0o644)
            part.replace(blobs / digest.hex)

        with ThreadPoolExecutor(max(1, jobs), thread_name_prefix="pack") as pool:
            for _ in pool.map(one, left):
                pass
        _write(staged / LAYOUT_FILE, LAYOUT)
        _write(staged / INDEX_FILE, whole.index)
        sync_file_system(staged)
        if not there and not _is_filled(target):
            staged.replace(target)
        else:
            _move_into(staged, target, wanted)
    sync_folder(target.parent)


def _move_into(staged: Path, target: Path, wanted: dict[Digest, int]) -> None:
    """Move what is finished into a layout: blobs that nothing names yet, then in one step the index that does."""
    blobs = target / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    for digest in wanted:
        (staged / "blobs" / "sha256" / digest.hex).replace(blobs / digest.hex)
    (staged / LAYOUT_FILE).replace(target / LAYOUT_FILE)
    sync_folder(blobs)
    (staged / INDEX_FILE).replace(target / INDEX_FILE)
    sync_folder(target)
    shutil.rmtree(staged)


def _write_tar(whole: Whole, target: Path, say: Callable[[Room], None]) -> None:
    staged = _beside(target)
    with _locked(staged, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW) as handle, os.fdopen(os.dup(handle), "r+b") as file:
        try:
            size = tar_size(whole)
            _require_room(target, len(whole.blobs), max(0, size - os.fstat(handle).st_size), say)
            write_tar(whole, file)
            os.fchmod(handle, 0o644)
            staged.replace(target)
        except BaseException:
            if not os.fstat(handle).st_size:  # nothing to go on from
                staged.unlink(missing_ok=True)
            raise
    sync_folder(target.parent)


def _beside(target: Path) -> Path:
    return target.parent / f".{target.name}.unfinished"


@contextmanager
def _staging_folder(target: Path) -> Iterator[Path]:
    """Lend the folder in which a layout is made, with what an earlier run left in it, to one process at a time."""
    staged = _beside(target)
    staged.mkdir(exist_ok=True)
    with _locked(staged, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW):
        for part in staged.glob("*.part"):
            part.unlink()
        try:
            yield staged
        except BaseException:
            _remove_empty(staged)
            raise


def _remove_empty(staged: Path) -> None:
    """Remove a folder in which nothing was finished."""
    for part in staged.glob("*.part"):
        part.unlink(missing_ok=True)
    for folder in (staged / "blobs" / "sha256", staged / "blobs", staged):
        with suppress(OSError):
            folder.rmdir()


@contextmanager
def _locked(path: Path, flags: int) -> Iterator[int]:
    handle = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _busy(path) from None
        if not os.path.samestat(os.fstat(handle), path.lstat()):  # it was finished and moved meanwhile
            raise _busy(path)
        yield handle
    finally:
        os.close(handle)


def _busy(path: Path) -> HostRefuses:
    hint = "wait for it, or name another --output"
    return HostRefuses("another process writes this capsule", where=str(path), hint=hint)


def _keep_whole(blobs: Path, wanted: dict[Digest, int]) -> None:
    """Remove from what an earlier run left whatever is not wanted, or is torn: power may have been cut meanwhile."""
    for path in list(blobs.iterdir()):
        try:
            digest = Digest(path.name)
        except ValueError:
            path.unlink()
            continue
        size = wanted.get(digest)
        if size is None or path.lstat().st_size != size or digest_of(str(path), Slice(0, size)) != digest:
            path.unlink()


def _sizes(folder: Path) -> dict[Digest, int]:
    try:
        with os.scandir(folder) as entries:
            return {
                Digest(entry.name): entry.stat(follow_symlinks=False).st_size
                for entry in entries
                if len(entry.name) == 64 and entry.is_file(follow_symlinks=False)
            }
    except FileNotFoundError:
        return {}


def _is_filled(target: Path) -> bool:
    return target.is_dir() and any(target.iterdir())


def _require_room(target: Path, blobs: int, size: int, say: Callable[[Room], None]) -> None:
    room = Room(blobs=blobs, size=size, free=free_bytes(target.parent))
    say(room)
    if size + _BESIDE > room.free:
        figures = {"to write": size, "beside it": _BESIDE, "free": room.free}
        width = len(str(max(figures.values())))
        raise HostRefuses(
            "no room for the capsule",
            where=str(target),
            detail=[f"{name:<9}  {figure:>{width}} bytes" for name, figure in figures.items()],
            hint="name an --output on a larger disk",
        )


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(0o644)


@contextmanager
def _told(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = "no room is left" if error.errno in (errno.ENOSPC, errno.EDQUOT) else (error.strerror or "").lower()
        hint = "what is finished is kept: run it again to go on"
        raise HostRefuses(f"the capsule cannot be written: {what}", where=str(target), hint=hint) from error
