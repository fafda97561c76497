# SPDX-License-Identifier: Apache-2.0
"""One file that a person named for an answer: there whole or not at all, whatever the name leads to.

Edge: writes one file, FIFO, character device or standard output.

A link is followed, and what it leads to is replaced beside itself. What cannot be replaced is written into as it goes.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from derive.errors import HostRefuses, InputErrors
from derive.store.blobs import sync_folder

STANDARD_OUTPUT = "-"


def check_output(path: str | Path) -> None:
    """Find out whether a file can be written there; what is there stays, and nothing comes where nothing was.

    Raises:
        InputErrors, HostRefuses: as :func:`open_output`.
    """
    name = str(path)
    found = None if name == STANDARD_OUTPUT else _stat(name)
    if name == STANDARD_OUTPUT or (found is not None and is_stream(found)):
        return  # to open one could be seen, or wait for its reader
    target = _target(name, found)
    staged = _staged(target)
    with _told(name, staged):
        os.close(_created(staged))
        staged.unlink()


@contextmanager
def open_output(path: str | Path) -> Iterator[IO[bytes]]:
    """Yield a file to write to, which takes the place of what was there when all has gone well; ``-`` prints.

    Raises:
        InputErrors: when the path is a folder, or lies in none, or can hold no file.
        HostRefuses: when it cannot be written.
    """
    name = str(path)
    if name == STANDARD_OUTPUT:
        with _printed() as file:
            yield file
        return
    found = _stat(name)
    if found is not None and is_stream(found):
        with _as_it_goes(name) as file:
            yield file
        return
    with _replacing(name, _target(name, found), None if found is None else found.st_mode & 0o777) as file:
        yield file


def is_stream(found: os.stat_result) -> bool:
    """Say whether something is written into, and not replaced: a FIFO or a character device."""
    return stat.S_ISFIFO(found.st_mode) or stat.S_ISCHR(found.st_mode)


def leads_to_stream(path: str | Path) -> bool:
    """Say whether what is written to a path goes past: to standard output, a FIFO or a character device."""
    try:
        return str(path) == STANDARD_OUTPUT or is_stream(os.stat(path))  # noqa: PTH116 - as above
    except (OSError, ValueError):
        return False


def _stat(name: str) -> os.stat_result | None:
    try:
        return os.stat(name)  # noqa: PTH116 - a name such as "x/" means a folder, which a Path forgets
    except FileNotFoundError:
        if not name or name.endswith("/"):
            raise InputErrors.one("this is no name of a file", where=name) from None
        return None
    except NotADirectoryError:
        raise InputErrors.one("a part of this path is no folder", where=name) from None
    except ValueError as error:
        raise InputErrors.one("this is no name of a file", where=repr(name)) from error
    except OSError as error:
        raise _refusal(name, error) from error


def _target(name: str, found: os.stat_result | None) -> Path:
    """Return the file that is replaced."""
    if found is not None and not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a device or socket"
        raise InputErrors.one(f"this is {kind}, and what is written is one file", where=name)
    target = Path(os.path.realpath(name))
    if not target.parent.is_dir():
        hint = f"make it first: mkdir -p {target.parent}"
        raise InputErrors.one(f"the folder {target.parent} does not exist", where=name, hint=hint)
    return target


@contextmanager
def _printed() -> Iterator[IO[bytes]]:
    if sys.stdout is None:
        raise HostRefuses("standard output is closed, and there is something to print")
    sys.stdout.flush()
    file = sys.stdout.buffer
    with _told("standard output"):
        yield file
        file.flush()


@contextmanager
def _as_it_goes(name: str) -> Iterator[IO[bytes]]:
    with _told(name), _closed_after(os.open(name, os.O_WRONLY | os.O_CLOEXEC)) as file:
        yield file


@contextmanager
def _replacing(name: str, target: Path, mode: int | None) -> Iterator[IO[bytes]]:
    staged = _staged(target)
    try:
        with _told(name, staged):
            with _closed_after(_created(staged)) as file:
                yield file
                file.flush()
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            staged.replace(target)
            sync_folder(target.parent)
    finally:
        with suppress(OSError):
            staged.unlink(missing_ok=True)


def _staged(target: Path) -> Path:
    return target.parent / f".derive-{secrets.token_hex(8)}.partial"


def _created(staged: Path) -> int:
    return os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


@contextmanager
def _closed_after(handle: int) -> Iterator[IO[bytes]]:
    """Yield an open file; where something failed, closing it says nothing of its own."""
    file = os.fdopen(handle, "wb")
    try:
        yield file
    except BaseException:
        with suppress(OSError):
            file.close()
        raise
    file.close()


@contextmanager
def _told(name: str, staged: Path | None = None) -> Iterator[None]:
    """Tell failures to write by the name that a person gave; those of other files pass."""
    try:
        yield
    except BrokenPipeError:
        if name == "standard output":
            raise  # whoever reads it has left
        raise HostRefuses("nobody reads it any more", where=name) from None
    except OSError as error:
        if error.filename not in (None, name, str(staged), staged):
            raise
        raise _refusal(name, error) from error


def _refusal(name: str, error: OSError) -> HostRefuses:
    return HostRefuses(f"cannot write {name}: {(error.strerror or '').lower()}")
