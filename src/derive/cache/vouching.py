# SPDX-License-Identifier: Apache-2.0
"""Who vouches for a step's outputs, counted by the project's policy.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from derive.build.agreement import contradicted
from derive.build.knowledge import Vouch
from derive.canonical import Digest
from derive.derivations.model import Output
from derive.trust.policy import Policy

MOST_BYTES = 1 << 43
MOST_NS = 1 << 48
"""What a step's outputs can be large, and building it take, at most: a signer who says more is taken to say this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One claim as a cache has it: which key says it, in which cache, and the signer's word on what it costs."""

    resolved: Digest
    key: Digest
    cache: str
    outputs: Mapping[str, Output]
    name: str = ""
    size_bytes: int = 0
    duration_ns: int = 0


def counting_keys(policy: Policy, revoked: Collection[Digest]) -> dict[Digest, str]:
    """Return the names of keys whose word counts, by key id; ``revoked`` are further ids that do not."""
    gone = policy.revoked.union(revoked)
    return {key.id: name for name, key in policy.keys.items() if key.id not in gone}


def vouch_of(
    name: str, builder: str, said: Sequence[Said], policy: Policy, keys: Mapping[Digest, str], order: Sequence[str]
) -> Vouch | None:
    """Return what keys that count for a step say of it, None where none does; ``order`` are the caches' names.

    Raises:
        Contradicted: when two of them say two things, however many agree with either.
    """
    rule = policy.rule_for(name, builder)
    counting = [one for one in said if keys.get(one.key) in rule.keys]
    if not counting:
        return None
    by_outputs: dict[tuple[tuple[str, str], ...], list[Said]] = {}
    for one in counting:
        by_outputs.setdefault(tuple(sorted((key, str(value)) for key, value in one.outputs.items())), []).append(one)
    if len(by_outputs) > 1:
        pairs = [(_signers(group, keys), group[0].outputs) for _, group in sorted(by_outputs.items())]
        raise contradicted(name, counting[0].resolved, [(", ".join(who), outputs) for who, outputs in pairs])
    caches = {one.cache for one in counting}
    sizes = [min(one.size_bytes, MOST_BYTES) for one in counting]
    return Vouch(
        resolved=counting[0].resolved,
        outputs=counting[0].outputs,
        caches=tuple(cache for cache in order if cache in caches),
        signers=_signers(counting, keys),
        need=rule.threshold,
        # Of what one alone can say wrong, the least is planned with, and the most may come.
        size_bytes=min(sizes),
        duration_ns=min(MOST_NS, *(one.duration_ns for one in counting)),
        most_bytes=max(sizes),
    )


def contradictions(said: Iterable[Said]) -> tuple[tuple[Said, ...], ...]:
    """Return the claims about each resolved derivation of which two things are said, whoever says them."""
    groups: dict[Digest, list[Said]] = {}
    for one in said:
        groups.setdefault(one.resolved, []).append(one)
    return tuple(
        tuple(group) for _, group in sorted(groups.items()) if any(one.outputs != group[0].outputs for one in group)
    )


def _signers(group: Sequence[Said], keys: Mapping[Digest, str]) -> tuple[str, ...]:
    return tuple(sorted({keys[one.key] for one in group}))
