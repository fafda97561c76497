# SPDX-License-Identifier: Apache-2.0
"""From a user's settings and a project's trust to the caches of a run.

Edge: the environment, the project, the user's revoked keys, the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from derive.cache.config import CacheConfig
from derive.cache.settings import load_caches
from derive.cache.substitute import Substitutes
from derive.canonical import Digest
from derive.errors import InputErrors
from derive.store.local import LocalStore


def substitutes_of(
    root: Path | None, store: LocalStore, *, note: Callable[[str], None], offline: bool = False
) -> Substitutes | None:
    """Return the user's caches as far as the project trusts keys; None where either is missing.

    Raises:
        InputErrors: when the user's settings, or the project's, are wrong.
        Corrupt: when what became of keys cannot be read.
    """
    caches = load_caches(os.environ)
    if not caches or root is None or store.read_only:
        return None
    from derive.project import load_policy

    policy = load_policy(root)
    if policy is None or not policy.keys:
        note("the project trusts no key ([tool.derive.trust.keys]): nothing is taken from caches")
        return None
    return Substitutes(store, caches, policy, revoked=revoked_here(), note=note, offline=offline)


def revoked_here() -> frozenset[Digest]:
    """Return the ids of keys that this user takes no longer."""
    from derive.trust.keyring import user_keyring

    return frozenset(user_keyring().revoked())


def one_cache(name: str | None) -> CacheConfig:
    """Return a cache by its name, or the only one there is.

    Raises:
        InputErrors: when there is none, or another one is meant.
    """
    from derive.words import near

    caches = load_caches(os.environ)
    found = [one for one in caches if name in (None, one.name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(one.name for one in caches) or "none"
    if not caches:
        raise InputErrors.one("there is no cache yet", hint="add one: derive cache add REF")
    message = "there are several caches" if name is None else f"there is no cache named {name!r}"
    hint = near(name or "", [one.name for one in caches]) or "name one of them"
    raise InputErrors.one(message, detail=[f"there are {names}"], hint=hint)
