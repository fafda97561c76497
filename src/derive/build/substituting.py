# SPDX-License-Identifier: Apache-2.0
"""How a run takes outputs from elsewhere: what it asks of those who have them, and what is noted of what came.

Edge: the store's database, the clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from derive.build.agreement import HERE, contradicted
from derive.build.plan import Knowledge, Vouch, nobody
from derive.cache.rows import Substitution, drop_substituted, note_substituted, substitutions
from derive.canonical import Digest
from derive.derivations.model import Derivation, Output
from derive.errors import Unavailable
from derive.store.database import Realisation
from derive.store.local import LocalStore


class Substitute(Protocol):
    """Has outputs that other machines built, for one run."""

    def vouched(self, pairs: Sequence[tuple[Derivation, Digest]]) -> Mapping[Digest, Vouch]:
        """Return what trusted builders say of derivations and their resolved ids; raises Contradicted."""

    def bring(self, derivation: Derivation, vouch: Vouch, cancel: threading.Event) -> str:
        """Bring a step's outputs into the store, and return the name of the cache; raises NotBrought."""

    def signers(self, vouch: Vouch) -> Mapping[str, Digest]:
        """Return the ids of the keys that vouch, by name."""

    def agree(self, derivation: Derivation, resolved: Digest, outputs: Mapping[str, Output]) -> None:
        """Compare what was built here with what others say; raises Contradicted when enough of them say otherwise."""

    def stands(self, derivation: Derivation, came: Substitution) -> bool:
        """Say whether what came from a cache once is still vouched for by keys enough that count."""

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
    """What of a store came from caches, and which of it counts: in a run that takes none, none does where ``own``."""

    store: LocalStore
    found: Mapping[Digest, Substitution]
    substitute: Substitute | None = None
    own: bool = False

    @classmethod
    def of(cls, store: LocalStore, substitute: Substitute | None = None, *, own: bool = False) -> Came:
        """Ask the store once."""
        return cls(store, substitutions(store.database), substitute, own)

    def stands(self, derivation: Derivation, resolved: Digest) -> bool:
        """Say whether what was realised under a resolved id may be taken as it is."""
        came = self.found.get(resolved)
        if came is None:
            return True
        if self.own:
            return False
        return self.substitute is None or self.substitute.stands(derivation, came)

    def compare(self, derivation: Derivation, row: Realisation, outputs: Mapping[str, Output]) -> str | None:
        """Compare what was built now with what had come from a cache; return what a person should know of it.

        Raises:
            Contradicted: when it came out otherwise, and the keys that vouched for it still count.
        """
        came = self.found.get(row.resolved)
        if came is None or row.outputs == {name: str(output) for name, output in outputs.items()}:
            return None
        from derive.derivations.model import parse_output
        from derive.derivations.outputs import fits

        said = {name: parse_output(text) for name, text in row.outputs.items()}
        # What no such step gives was never used: what is said of it now is compared where others are asked.
        if fits(derivation, said) and (self.substitute is None or self.substitute.stands(derivation, came)):
            raise contradicted(derivation.name, row.resolved, ((HERE, outputs), (", ".join(came.signers), said)))
        who = ", ".join(came.signers)
        return f"{derivation.name}: what had come from {came.cache} by the word of {who} was something else: replaced"

    def built(self, resolved: Digest) -> None:
        """Note that what had come from a cache was built here."""
        if resolved in self.found:
            drop_substituted(self.store.database, resolved)


def with_others(knowledge: Knowledge, came: Came) -> Knowledge:
    """Return the store's answers joined with what other machines vouch for."""
    vouched = nobody if came.substitute is None else came.substitute.vouched
    return replace(knowledge, vouched=vouched, stands=came.stands)


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
    known = store.database.realisation(vouch.resolved)
    keep = store.database.add_realisation if known is None else store.database.replace_realisation
    note_substituted(
        store.database, Substitution(resolved=vouch.resolved, cache=cache, signers=keys, came_s=entry.built_s)
    )
    keep(entry, derivation.id, derivation.name, derivation.encoded())
