# SPDX-License-Identifier: Apache-2.0
"""What a planner asks a store and trusted builders, and what they answer.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from derive.canonical import Digest
from derive.derivations.model import Derivation, Output
from derive.trust.policy import OutputRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouch:
    """What trusted builders say that a resolved derivation gives; ``need`` of them must, before it is taken.

    ``caches`` are names of those that said it, ``signers`` of the keys; ``size_bytes`` of the outputs' contents, and
    ``duration_ns`` that building took there, are the signers' word, too: the least that one of them says, and
    ``most_bytes`` the most.
    """

    resolved: Digest
    outputs: Mapping[str, Output]
    caches: tuple[str, ...]
    signers: tuple[str, ...]
    need: int
    size_bytes: int = 0
    duration_ns: int = 0
    most_bytes: int = 0

    @property
    def is_enough(self) -> bool:
        """Say whether enough of them do."""
        return len(self.signers) >= self.need

    def suffices(self, asked: Iterable[OutputRule]) -> bool:
        """Say whether enough of them do also for what is built upon it, whose rules are given."""
        return self.is_enough and all(rule.holds(self.signers) for rule in asked)

    def lack(self, asked: Iterable[OutputRule]) -> str:
        """Say of whom too few do."""
        short = next((rule for rule in asked if not rule.holds(self.signers)), None)
        who = f"{self.need} keys" if short is None else f"{short.threshold} of {', '.join(short.keys)}"
        return f"{' and '.join(self.signers)} alone vouched for it, and {who} must"


@dataclass(frozen=True, slots=True)
class Known:
    """What a resolved derivation gives: an earlier run's word, and ``vouch`` that of others, where they speak of it.

    ``is_here``: it was realised here, whether its contents are still there or not.
    """

    resolved: Digest
    outputs: Mapping[str, Output]
    duration_ns: int = 0
    vouch: Vouch | None = None
    is_here: bool = True


Rules: TypeAlias = frozenset[OutputRule]
"""Who must vouch for an output besides whom the rule for its own step asks for."""


def all_stand(_: Derivation, __: Digest, ___: Rules) -> bool:
    """Take everything that was realised here."""
    return True


def no_word(_: Derivation, __: Rules) -> bool | None:
    """Know nothing by others' word alone."""
    return None


def no_rule(_: Derivation) -> OutputRule | None:
    """Name no step in any rule."""
    return None


def nobody(_: Sequence[tuple[Derivation, Digest]]) -> Mapping[Digest, Vouch]:
    """Return what others vouch for where nobody is asked."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """The store's answers, as functions: none of them changes anything.

    ``resolved_ids`` maps derivation ids to resolved ids; ``realised`` resolved ids to what they gave; ``present`` says
    whether an output's contents can be read now. ``vouched`` says what trusted builders say of derivations and their
    resolved ids; it raises Contradicted when they say two things. ``stands`` says whether what was realised under a
    resolved id may still be taken, where some rules have to hold too: what came by the word of a key that was revoked
    may not. ``word_stands`` says the same of the word by which a step that is not here was known, None where there is
    none. ``rule`` returns the rule that names a step.
    """

    resolved_ids: Callable[[Iterable[Digest]], Mapping[Digest, Digest]]
    realised: Callable[[Iterable[Digest]], Mapping[Digest, Known]]
    present: Callable[[Output], bool]
    vouched: Callable[[Sequence[tuple[Derivation, Digest]]], Mapping[Digest, Vouch]] = nobody
    stands: Callable[[Derivation, Digest, Rules], bool] = all_stand
    word_stands: Callable[[Derivation, Rules], bool | None] = no_word
    rule: Callable[[Derivation], OutputRule | None] = no_rule
