# SPDX-License-Identifier: Apache-2.0
"""The user's caches, where they stand.

Edge: the environment, the user's ``config.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from derive.cache.config import CacheConfig, parse_caches, with_cache, without_cache
from derive.net.user import read_config, user_config
from derive.net.user_edit import rewrite_config


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
    return rewrite_config(environ, lambda data, file: with_cache(data, file, cache))


def remove_cache(environ: Mapping[str, str], name: str) -> Path:
    """Take a cache out of the user's settings, and return their file; raises InputErrors, HostRefuses."""
    return rewrite_config(environ, lambda data, file: without_cache(data, file, name))
