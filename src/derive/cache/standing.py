# SPDX-License-Identifier: Apache-2.0
"""What came from a cache once, and whether those who vouched for it then are still believed now.

Edge: the project, the user's revoked keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from derive.cache.vouching import counting_keys
from derive.canonical import Digest, digest_document
from derive.derivations.model import Derivation
from derive.trust.policy import OutputRule, Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """Whose word counts: of a project's keys, None where a project trusts none, or of ``anybody`` without a project.

    ``revoked`` are ids of keys that this user takes no longer.
    """

    policy: Policy | None
    revoked: Collection[Digest]
    anybody: bool = False

    def counts(self, name: str, builder: str, by: Iterable[Digest], asked: Collection[OutputRule] = ()) -> bool:
        """Say whether keys, by id, are enough to believe of a step, given by name and kind of builder.

        ``asked`` are rules for what is built upon it.
        """
        if self.policy is None:
            return self.anybody and not all(key in self.revoked for key in by)
        keys = counting_keys(self.policy, self.revoked)
        signers = {keys[key] for key in by if key in keys}
        own = self.policy.rule_for(name, builder)
        return all(rule.holds(signers) for rule in (own, *asked))

    def digest(self) -> Digest:
        """Return the digest of everything that decides whose word counts."""
        policy = self.policy
        return digest_document(
            {
                "derive": "belief/1",
                "revoked": sorted(key.hex for key in {*self.revoked, *(policy.revoked if policy else ())}),
                "keys": {} if policy is None else {name: key.id.hex for name, key in policy.keys.items()},
                "threshold": 0 if policy is None else policy.threshold,
                "outputs": [] if policy is None else [_plain(rule) for rule in policy.outputs],
                "anybody": self.anybody,
            }
        )


def _plain(rule: OutputRule) -> dict[str, list[str] | int]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(rule).items()}


class Standing:
    """Judges what came, for one run. ``belief`` is asked for once, and not before there is anything to judge."""

    def __init__(self, belief: Callable[[], Belief]) -> None:
        self._ask = belief

    @cached_property
    def belief(self) -> Belief:
        """Whose word counts; raises InputErrors and Corrupt where that cannot be read."""
        return self._ask()

    def stands(self, derivation: Derivation, by: Iterable[Digest], asked: Collection[OutputRule] = ()) -> bool:
        """Say whether what keys, by id, vouched for still counts; ``asked`` are rules for what is built upon it."""
        return self.belief.counts(derivation.name, derivation.builder, by, asked)

    def rule(self, derivation: Derivation) -> OutputRule | None:
        """Return the rule that names a step; None where none does."""
        policy = self.belief.policy
        return None if policy is None else policy.own_rule(derivation.name, derivation.builder)


def standing_in(root: Path | None) -> Standing:
    """Return what judges what came for the project at ``root``.

    A project that trusts no key believes none. Where there is no project, one key is enough that this user has not
    revoked.
    """
    return Standing(lambda: belief_in(root))


def belief_in(root: Path | None) -> Belief:
    """Return whose word counts for the project at ``root``.

    Raises:
        InputErrors: where the project's trust is wrong.
        Corrupt: where what became of keys cannot be read.
    """
    from derive.cache.service import revoked_here
    from derive.project import load_policy

    return Belief(policy=None if root is None else load_policy(root), revoked=revoked_here(), anybody=root is None)
