# SPDX-License-Identifier: Apache-2.0
"""One file that a person named, or that lies where one may have put anything: read whole, and never waited for.

Edge: reads one file, or a stream. Imports nothing heavy.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

from derive.errors import InputErrors
from derive.words import unreadable

LARGEST = 1 << 26
"""Bytes of the largest document that a person may name: many times what any of them has."""


class NotPlain(OSError):
    """A FIFO, device, socket, folder or link where a file is meant, or a file that is far too large."""


def read_named(name: str | Path, *, largest: int = LARGEST, hint: str | None = None) -> bytes:
    """Return the bytes of a file that a person named; ``hint`` is the next step where it is not there.

    Raises:
        InputErrors: when it is absent, cannot be read, is no regular file, or is larger than ``largest`` bytes.
    """
    try:
        return read_plain(Path(name), largest)[0]
    except FileNotFoundError:
        raise InputErrors.one("no such file", where=str(name), hint=hint) from None
    except OSError as error:
        raise InputErrors.one(unreadable(error), where=str(name)) from error
    except ValueError as error:
        raise InputErrors.one("cannot be read: no name of a file", where=repr(str(name))) from error


def read_stream(stream: IO[bytes], name: str, *, largest: int = LARGEST) -> bytes:
    """Return all that a stream brings; raises InputErrors when that is more than ``largest`` bytes."""
    data = stream.read(largest + 1)
    if len(data) > largest:
        raise InputErrors.one(f"cannot be read: larger than {largest} bytes", where=name)
    return data


def read_plain(path: Path, largest: int, *, follow: bool = True) -> tuple[bytes, int]:
    """Return the bytes of a regular file of up to ``largest`` bytes, and its mode (the lower 12 bits).

    Without ``follow``, a link is no regular file.

    Raises:
        NotPlain: when it is anything else; the reason is its ``strerror``.
        OSError: when it cannot be read.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ENXIO or (error.errno == errno.ELOOP and not follow):
            raise _no_file(path) from error
        raise
    try:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            raise NotPlain(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(found.st_mode):
            raise _no_file(path)
        data = _read(handle, largest + 1)
    finally:
        os.close(handle)
    if len(data) > largest:
        raise NotPlain(errno.EFBIG, f"larger than {largest} bytes", str(path))
    return data, stat.S_IMODE(found.st_mode)


def _read(handle: int, most: int) -> bytes:
    """Return what a file holds, up to so many bytes: files of /proc are larger than they say."""
    parts: list[bytes] = []
    while most > 0 and (part := os.read(handle, min(most, 1 << 20))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _no_file(path: Path) -> NotPlain:
    return NotPlain(errno.EINVAL, "no regular file", str(path))
