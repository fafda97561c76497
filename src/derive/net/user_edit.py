# SPDX-License-Identifier: Apache-2.0
"""The user's ``config.toml`` rewritten: whole, by one at a time.

Edge: that file, and a lock beside it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from derive.errors import HostRefuses
from derive.net.user import read_config, user_config
from derive.store.blobs import sync_folder


def rewrite_config(environ: Mapping[str, str], change: Callable[[bytes, str], bytes]) -> Path:
    """Change what the user's settings hold, and return their file, which goes once nothing is left in it.

    ``change`` is given what stands there, and the file's path for its messages. Raises what it raises.

    Raises:
        InputErrors: when the file cannot be read.
        HostRefuses: when it cannot be written.
    """
    named = user_config(environ)
    file = Path(os.path.realpath(named))  # a link stays one
    with _alone(file):
        before = read_config(file)
        after = change(before, str(named))
        try:
            if not after and not named.is_symlink():
                file.unlink(missing_ok=True)
            elif after != before:
                _replace(file, after)
        except OSError as error:
            raise _unwritable(named, error) from error
    return named


def _replace(file: Path, data: bytes) -> None:
    staged = file.parent / f".{file.name}.{secrets.token_hex(8)}.partial"
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600  # a registry's URL may hold a login
    try:
        with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        staged.replace(file)
        sync_folder(file.parent)
    finally:
        staged.unlink(missing_ok=True)


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Hold the lock beside a file, which stays there: the file itself is replaced, and a lock on it with it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(file.parent / f".{file.name}.lock", flags, 0o600)
    except OSError as error:
        raise _unwritable(file, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _unwritable(file: Path, error: OSError) -> HostRefuses:
    return HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=str(file))
