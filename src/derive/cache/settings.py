# SPDX-License-Identifier: Apache-2.0
"""The user's caches, where they stand: ``config.toml``, read and rewritten whole, by one at a time.

Edge: the environment, that file.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from derive.cache.config import CacheConfig, parse_caches, with_cache, without_cache
from derive.errors import HostRefuses
from derive.net.user import read_config, user_config
from derive.store.blobs import sync_folder


def load_caches(environ: Mapping[str, str]) -> tuple[CacheConfig, ...]:
    """Return the user's caches, in the order in which they are asked; none where nothing names one.

    Raises:
        InputErrors: for all that is wrong with them.
    """
    file = user_config(environ)
    data = read_config(file)
    return parse_caches(data, str(file)) if b"caches" in data else ()


def add_cache(environ: Mapping[str, str], cache: CacheConfig) -> Path:
    """Write a cache into the user's settings, and return their file; raises InputErrors, HostRefuses."""
    return _rewrite(environ, lambda data, file: with_cache(data, file, cache))


def remove_cache(environ: Mapping[str, str], name: str) -> Path:
    """Take a cache out of the user's settings, and return their file; raises InputErrors, HostRefuses."""
    return _rewrite(environ, lambda data, file: without_cache(data, file, name))


def _rewrite(environ: Mapping[str, str], change: Callable[[bytes, str], bytes]) -> Path:
    file = Path(os.path.realpath(user_config(environ)))  # a link stays one
    staged = file.parent / f".{file.name}.{secrets.token_hex(8)}.partial"
    with _alone(file):
        data = change(read_config(file), str(file))
        try:
            mode = file.stat().st_mode & 0o777 if file.exists() else 0o600  # a registry's URL may hold a login
            with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            staged.replace(file)
            sync_folder(file.parent)
        except OSError as error:
            staged.unlink(missing_ok=True)
            raise _unwritable(file, error) from error
    return file


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
