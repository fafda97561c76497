# SPDX-License-Identifier: Apache-2.0
"""Reads everything that says how far a release is certified, and has it judged: no network is asked.

Edge: the project's records and settings, the user's revoked keys, the store where one is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from derive.canonical import Digest
from derive.certificates.folder import read_attached, read_folder
from derive.certificates.judge import Held, Standing, Unread, Wanted, stand
from derive.certificates.order import order_of
from derive.errors import HostRefuses, InputErrors, Problem
from derive.project import load_policy
from derive.records.folder import load
from derive.releases.find import Known
from derive.store.local import LocalStore
from derive.trust.folder import load_history
from derive.trust.keyring import user_keyring
from derive.trust.keys import SigningKey
from derive.trust.policy import Policy
from derive.words import count_text


def stand_here(
    root: Path,
    known: Known,
    store: Path | None,
    *,
    need: int | None = None,
    platforms: Iterable[str] | None = None,
    unlike_hosts: bool = True,
) -> Standing:
    """Return how far a release is certified; without ``need``, by as many as the project's threshold says.

    Raises:
        InputErrors: when the project names no builder, or fewer than are needed.
        Corrupt: when what became of keys cannot be read.
    """
    policy = require_builders(root, need)
    images = known.release.images
    wanted = Wanted(
        release=known.release.digest,
        images={one: (images[one].digest, images[one].derivation) for one in images if _is_asked(one, platforms)},
    )
    held: list[Held | Unread] = read_folder(root, known.name)
    if store is not None:
        held += _attached(store, [image for image, _ in wanted.images.values()], held)
    history = load_history(root)
    # Of a key whose end is recorded, the record says what still counts; a user's own list knows no such thing.
    revoked = user_keyring().revoked().keys() - history.ends.keys()
    return stand(
        wanted,
        held,
        policy,
        history,
        order_of(load(root)),
        need=need or policy.threshold,
        unlike_hosts=unlike_hosts,
        revoked=revoked,
    )


def require_builders(root: Path, need: int | None) -> Policy:
    """Return the project's policy; raises InputErrors where it names fewer builders than are needed."""
    policy = load_policy(root)
    builders = () if policy is None else policy.builders
    wanted = need or (1 if policy is None else policy.threshold)
    if policy is None or len(builders) < wanted:
        raise InputErrors.one(
            f"the project names {count_text(len(builders), 'builder')}, and {wanted} must agree",
            where="pyproject.toml: tool.derive.trust.builders",
            hint="name there the keys of [tool.derive.trust.keys] whose certificates count: docs/trust.md",
        )
    return policy


def require_counting(root: Path, keys: Iterable[SigningKey]) -> tuple[str, ...]:
    """Return the ids of keys that are no builder's here: what they sign proves nothing to this project.

    Raises:
        InputErrors: for each key whose time has ended, by the project's records: what it signs now never counts.
    """
    policy, ends = load_policy(root), load_history(root).ends
    problems = [
        Problem(
            where=ends[key.public.id][0].file,
            message=f"the key {key.public.id.short} was {ends[key.public.id][0].cause}: what it signs now never counts",
            hint="sign with the one that took its place: derive key list",
        )
        for key in keys
        if key.public.id in ends
    ]
    if problems:
        raise InputErrors(problems)
    builders = {policy.keys[name] for name in policy.builders} if policy is not None else set()
    return tuple(key.public.id.short for key in keys if key.public not in builders)


def _is_asked(platform: str, platforms: Iterable[str] | None) -> bool:
    return platforms is None or platform in set(platforms)


def _attached(folder: Path, images: Iterable[Digest], known: Iterable[Held | Unread]) -> list[Held]:
    """Return certificates that are attached to images in the store here, but for those that are known already."""
    there: Mapping[Digest, Held] = {}
    seen = {one.digest for one in known if isinstance(one, Held)}
    try:
        with LocalStore(folder, reading=True) as store:
            if not store.is_absent:
                there = {one.digest: one for image in images for one in read_attached(store, image)}
    except HostRefuses:  # what nobody can read says nothing
        return []
    return [one for digest, one in there.items() if digest not in seen]
