# SPDX-License-Identifier: Apache-2.0
"""Rendered files on disk: a folder that is there whole or not at all, and takes the place of an earlier one at once.

Edge: the file system.

Whole whenever a process is killed. After a loss of power files may be cut short, as nothing is waited for: they can be
rendered again, and every manifest says what they hold.

Who writes locks the folder that the target lies in, so that one writes at a time and leaves no file of a lock behind.
What is unfinished lies beside the target, and belongs to a process that has gone whenever the lock can be had.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from derive.errors import HostRefuses, InputErrors
from derive.render.replaceable import require_replaceable

_AT_CWD = -100
_EXCHANGE = 2
_UNKNOWN = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_PARTIAL = ".partial"
_ASIDE = ".replaced.partial"
_PATIENCE_S = 60
_ASK_AGAIN_S = 0.02


def write_folder(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files into a folder that is new, empty, or was written by this function and not changed since.

    An earlier one is known by its manifests. A file that begins with ``#!`` can be run. Whoever else writes beside the
    folder is waited for.

    Raises:
        InputErrors: when the folder holds anything else, cannot be looked through, or lies in none.
        HostRefuses: when it cannot be written, or is written and an earlier one cannot be deleted.
    """
    target = Path(os.path.realpath(folder))
    try:
        if not target.parent.is_dir():
            raise InputErrors.one(f"the folder {target.parent} does not exist", where=str(folder))
        with _alone(target.parent):
            kept = _sweep(target)
            require_replaceable(target, folder)
            kept += _replace(files, target, folder)
    except OSError as error:
        raise HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=str(folder)) from error
    if kept:
        first, *others = kept
        hint = f"delete what is left: rm -r {shlex.join(str(path) for path, _ in kept)}"
        message = f"an earlier rendering cannot be deleted ({first[1]}); the new one is in its place"
        raise HostRefuses(message, where=str(first[0]), detail=[str(path) for path, _ in others], hint=hint)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(handle, folder)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    last = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > last:
                message = f"another process has locked this folder for more than {_PATIENCE_S} seconds"
                raise HostRefuses(message, where=str(folder), hint="wait for it, or name a place elsewhere") from None
            time.sleep(_ASK_AGAIN_S)
        else:
            return


def _sweep(target: Path) -> list[tuple[Path, str]]:
    """Delete what killed processes left, but put back what one had only moved aside; return what cannot be deleted."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}({re.escape(_ASIDE)}|{re.escape(_PARTIAL)})")
    with os.scandir(target.parent) as entries:
        names = sorted(one.name for one in entries if pattern.fullmatch(one.name) and one.is_dir(follow_symlinks=False))
    left = [target.parent / name for name in names]
    aside = next((path for path in left if path.name.endswith(_ASIDE)), None)
    if aside is not None and not os.path.lexists(target):
        aside.rename(target)
        left.remove(aside)
    return [found for path in left for found in _delete(path)]


def _replace(files: Mapping[str, bytes], target: Path, said: Path) -> list[tuple[Path, str]]:
    """Write a folder beside the target and let it take its place; return what cannot be deleted of the earlier one."""
    staged = target.parent / f".{target.name}.{secrets.token_hex(8)}{_PARTIAL}"
    try:
        staged.mkdir()
        for path, data in files.items():
            _write(staged / PurePosixPath(path), data)
        # Again: it was written since, and what lies there now would be deleted.
        require_replaceable(target, said)
        _put(staged, target, said)
    except BaseException:
        # The next run deletes what stays.
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return [found for path in (staged, staged.with_suffix(_ASIDE)) for found in _delete(path)]


def _delete(folder: Path) -> list[tuple[Path, str]]:
    """Delete a folder; return it with the reason where something of it is left."""
    try:
        shutil.rmtree(folder)
    except OSError as error:
        if os.path.lexists(folder):
            return [(folder, (error.strerror or "unknown reason").lower())]
    return []


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o777 if data.startswith(b"#!") else 0o666
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(data)


def _put(staged: Path, target: Path, said: Path) -> None:
    """Let a folder take the place of another at once; where the file system cannot, the other steps aside first.

    The other is looked at once more where nobody finds it by its name, and goes back if anything came into it.
    """
    try:
        staged.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        if _exchange(staged, target):
            try:
                require_replaceable(staged, said)
            except BaseException:
                _exchange(staged, target)
                raise
            return
        aside = staged.with_suffix(_ASIDE)
        target.rename(aside)
        try:
            require_replaceable(aside, said)
            staged.rename(target)
        except BaseException:
            with suppress(OSError):
                aside.rename(target)
            raise


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change places; False where the system knows no such thing."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_AT_CWD, os.fsencode(one), _AT_CWD, os.fsencode(other), _EXCHANGE) == 0:
        return True
    if ctypes.get_errno() in _UNKNOWN:
        return False
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(other))
