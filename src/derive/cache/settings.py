# SPDX-License-Identifier: Apache-2.0
"""The user's caches, where they stand: ``config.toml``, read and rewritten whole.

Edge: the environment, that file.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from derive.cache.config import CacheConfig, parse_caches, with_cache, without_cache
from derive.errors import HostRefuses, InputErrors
from derive.net.user import user_config


def load_caches(environ: Mapping[str, str]) -> tuple[CacheConfig, ...]:
    """Return the user's caches, in the order in which they are asked; none where nothing names one.

    Raises:
        InputErrors: for all that is wrong with them.
    """
    file = user_config(environ)
    data = _read(file)
    return parse_caches(data, str(file)) if b"caches" in data else ()


def add_cache(environ: Mapping[str, str], cache: CacheConfig) -> Path:
    """Write a cache into the user's settings, and return their file; raises InputErrors, HostRefuses."""
    return _rewrite(environ, lambda data, file: with_cache(data, file, cache))


def remove_cache(environ: Mapping[str, str], name: str) -> Path:
    """Take a cache out of the user's settings, and return their file; raises InputErrors, HostRefuses."""
    return _rewrite(environ, lambda data, file: without_cache(data, file, name))


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise InputErrors.one(f"cannot be read: {error.strerror}", where=str(file)) from error


def _rewrite(environ: Mapping[str, str], change: Callable[[bytes, str], bytes]) -> Path:
    file = Path(os.path.realpath(user_config(environ)))  # a link stays one
    data = change(_read(file), str(file))
    staged = file.parent / f".{file.name}.{secrets.token_hex(8)}.partial"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600  # a registry's URL may hold a login
        with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        staged.replace(file)
    except OSError as error:
        staged.unlink(missing_ok=True)
        raise HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=str(file)) from error
    return file
