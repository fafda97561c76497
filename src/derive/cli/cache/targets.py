# SPDX-License-Identifier: Apache-2.0
"""What the commands about caches are about: a cache, and derivations of the project.

Edge: arguments, the project, the user's settings.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from derive.cli.console import project_of

if TYPE_CHECKING:
    import argparse

    from derive.cache.config import CacheConfig
    from derive.canonical import Digest
    from derive.derivations.model import Derivation
    from derive.store.local import LocalStore


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Declare the cache and the targets."""
    parser.add_argument(
        "operands", nargs="*", metavar="[CACHE] TARGET", help="the cache where there are several, then what is meant"
    )
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="what names are for")


def cache_and_names(args: argparse.Namespace) -> tuple[CacheConfig, list[str]]:
    """Return the cache that is meant, and the other words; raises InputErrors."""
    from derive.cache.service import one_cache
    from derive.cache.settings import load_caches

    names = {one.name for one in load_caches(os.environ)}
    if args.operands and args.operands[0] in names:
        return one_cache(args.operands[0]), list(args.operands[1:])
    return one_cache(None), list(args.operands)


def targets_of(args: argparse.Namespace, store: LocalStore) -> tuple[CacheConfig, list[Derivation | Digest]]:
    """Return the cache and what is meant: the named, or the project's default image.

    Raises:
        InputErrors: when there is no such cache, or name.
    """
    from derive.build.closures import closure_targets

    cache, names = cache_and_names(args)
    project = project_of(args)
    wanted = names or [project.settings.default_image]
    return cache, list(closure_targets(store, lambda: project, wanted, args.platform))
