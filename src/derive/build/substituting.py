# SPDX-License-Identifier: Apache-2.0
"""How a run takes outputs from elsewhere: what it asks of those who have them, and what is noted of what came.

Edge: the store's database, the clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from derive.build.agreement import HERE, contradicted
from derive.build.answers import is_present, known_of
from derive.build.knowledge import Knowledge, Rules, Vouch, nobody
from derive.build.plan import Action, Plan
from derive.cache.rows import Substitution, drop_substituted, signers_text, substitutions
from derive.cache.standing import Standing
from derive.canonical import Digest
from derive.derivations.model import Derivation, Output, parse_output
from derive.derivations.outputs import fits
from derive.errors import Unavailable
from derive.store.database import Realisation
from derive.store.local import LocalStore
from derive.store.words import Word, keep_words, words
from derive.trust.policy import OutputRule


class Substitute(Protocol):
    """Has outputs that other machines built, for one run."""

    def vouched(self, pairs: Sequence[tuple[Derivation, Digest]]) -> Mapping[Digest, Vouch]:
        """Return what trusted builders say of derivations and their resolved ids; raises Contradicted."""

    def bring(self, derivation: Derivation, vouch: Vouch, cancel: threading.Event) -> str:
        """Bring a step's outputs into the store, and return the name of the cache; raises NotBrought."""

    def signers(self, vouch: Vouch) -> Mapping[str, Digest]:
        """Return the ids of the keys that vouch, by name."""

    def agree(
        self, derivation: Derivation, resolved: Digest, outputs: Mapping[str, Output], asked: Iterable[OutputRule] = ()
    ) -> None:
        """Compare what was built here with what others say; raises Contradicted when enough of them say otherwise.

        ``asked`` are rules that must hold for that besides the step's own.
        """

    @property
    def standing(self) -> Standing:
        """What judges that which came from a cache once."""

    def stop(self) -> None:
        """End every transfer at its next piece."""


class NotBrought(Unavailable):
    """Outputs that others vouch for could not be had: their steps are built. ``resolved`` says which."""

    def __init__(self, message: str, resolved: Iterable[Digest]) -> None:
        super().__init__(message)
        self.resolved = frozenset(resolved)


class PlanAgain(Unavailable):
    """Steps that were to be built turned out to be known elsewhere: what is wanted is less than was planned."""


@dataclass(frozen=True, slots=True)
class Came:
    """What of a store came from caches, and who says which of it still counts; in a run of its ``own``, none does.

    ``asked`` are rules that a plan has for derivations besides their own, by id. ``silent``: what came is compared with
    nothing that is built now.
    """

    store: LocalStore
    found: Mapping[Digest, Substitution]
    judge: Standing
    own: bool = False
    words: Mapping[Digest, Word] = field(default_factory=dict)
    asked: Mapping[Digest, Rules] = field(default_factory=dict)
    silent: bool = False

    @classmethod
    def of(cls, store: LocalStore, judge: Standing, *, own: bool = False) -> Came:
        """Ask the store once."""
        return cls(store, substitutions(store.database), judge, own, words(store.database))

    def under(self, plan: Plan) -> Came:
        """Return the same for a run of a plan."""
        return replace(self, own=plan.is_own, asked=plan.asked, silent=plan.is_own and not plan.is_whole)

    def takes(self, derivation: Derivation, row: Realisation) -> bool:
        """Say whether what was realised before is present, and may be taken as it is."""
        outputs = known_of(row).outputs
        return (
            self.stands(derivation, row.resolved, self.asked.get(derivation.id, frozenset()))
            and fits(derivation, outputs)
            and all(is_present(self.store, output) for output in outputs.values())
        )

    def believes(self, derivation: Derivation, vouch: Vouch) -> bool:
        """Say whether enough vouch for what a step gives."""
        return vouch.suffices(self.asked.get(derivation.id, ()))

    def stands(self, derivation: Derivation, resolved: Digest, asked: Rules = frozenset()) -> bool:
        """Say whether what was realised under a resolved id may be taken as it is, where ``asked`` has to hold too."""
        came = self.found.get(resolved)
        return came is None or (not self.own and self.judge.stands(derivation, came.signers.values(), asked))

    def word_stands(self, derivation: Derivation, asked: Rules) -> bool | None:
        """Say whether the word by which a step that is not here was known still counts; None where there is none."""
        word = self.words.get(derivation.id)
        return None if word is None else not self.own and self.judge.stands(derivation, word.signers, asked)

    def compare(self, derivation: Derivation, row: Realisation, outputs: Mapping[str, Output]) -> str | None:
        """Compare what was built now with what had come from a cache; return what a person should know of it.

        Raises:
            Contradicted: when it came out otherwise, and the keys that vouched for it still count.
        """
        came = self.found.get(row.resolved)
        if came is None or row.outputs == {name: str(output) for name, output in outputs.items()}:
            return None
        said = {name: parse_output(text) for name, text in row.outputs.items()}
        # What no such step gives was never used: what is said of it now is compared where others are asked.
        if not self.silent and fits(derivation, said) and self.judge.stands(derivation, came.signers.values()):
            raise contradicted(derivation.name, row.resolved, ((HERE, outputs), (", ".join(came.signers), said)))
        who = ", ".join(came.signers)
        return f"{derivation.name}: what had come from {came.cache} by the word of {who} was something else: replaced"

    def built(self, resolved: Digest) -> None:
        """Note that what had come from a cache was built here."""
        if resolved in self.found:
            drop_substituted(self.store.database, resolved)


def with_others(knowledge: Knowledge, came: Came, substitute: Substitute | None = None) -> Knowledge:
    """Return the store's answers as far as they count, joined with what other machines vouch for."""
    vouched = nobody if substitute is None else substitute.vouched
    if substitute is None and not came.found and not came.words:
        return knowledge  # nobody's word is asked for
    return replace(knowledge, vouched=vouched, stands=came.stands, word_stands=came.word_stands, rule=came.judge.rule)


def note_came(store: LocalStore, derivation: Derivation, vouch: Vouch, cache: str, keys: Mapping[str, Digest]) -> None:
    """Keep the realisation of a step whose outputs came from a cache, and who vouched for it."""
    entry = Realisation(
        resolved=vouch.resolved,
        outputs={name: str(output) for name, output in vouch.outputs.items()},
        builder=f"{derivation.builder}/{derivation.version}",
        engine="",
        host="",
        duration_ns=0,
        log="",
        built_s=int(time.time()),
    )
    came = (cache, signers_text(keys))
    store.database.replace_realisation(entry, derivation.id, derivation.name, derivation.encoded(), came)


def note_words(store: LocalStore, plan: Plan, substitute: Substitute | None) -> None:
    """Keep by whose word a plan knows what is not here, where anything of it is found by that."""
    if substitute is None or store.read_only or not (plan.cutoffs or plan.of(Action.SUBSTITUTE)):
        return
    found = [
        Word(
            derivation=derivation.id,
            name=derivation.name,
            resolved=vouch.resolved,
            outputs={name: str(output) for name, output in vouch.outputs.items()},
            signers=tuple(sorted(substitute.signers(vouch).values())),
            document=derivation.encoded(),
        )
        for derivation, vouch in plan.words
    ]
    if found:
        keep_words(store.database, found)
