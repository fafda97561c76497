# SPDX-License-Identifier: Apache-2.0
"""The caches of one run: what they vouch for, and outputs out of them; each fault of one is said once.

Edge: registries, the store, the clock.

What is vouched for is known from the logs that were read before; a cache is asked again only where something would have
to be built. One that is down, silent, lying or shows a log that cannot be right is left alone for the rest of the run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache as remembered
from types import TracebackType
from typing import TYPE_CHECKING, Self

from derive.build.agreement import HERE, contradicted
from derive.build.execute import free_bytes, is_present, known_of, store_knowledge
from derive.build.knowledge import Knowledge, Vouch
from derive.build.plan import Plan, Step
from derive.build.substituting import Came, NotBrought, with_others
from derive.cache import rows
from derive.cache.config import CacheConfig
from derive.cache.standing import Belief, Standing
from derive.cache.vouching import counting_keys, vouch_of
from derive.cache.worth import all_present, limit_ns, too_large, too_slow
from derive.canonical import Digest
from derive.derivations.model import Derivation, Output
from derive.derivations.outputs import fits
from derive.errors import Corrupt, DeriveError, HostRefuses, Interrupted, UpstreamGone
from derive.net.failures import Broken, Failure, Gone, Refused, Skipped
from derive.store.local import LocalStore
from derive.trust.keys import PublicKey
from derive.trust.policy import OutputRule, Policy
from derive.words import count_text, duration_text, size_text

if TYPE_CHECKING:
    from derive.net.fetch import Fetcher
    from derive.net.http import Client
    from derive.oci.remote import Remote

_FIRST_LOOK_NS = 10_000_000_000
"""How long a transfer has to get going before it is judged by its speed."""
_WATCHED_BYTES = 8 << 20
"""Bytes from which on a transfer is watched: fewer are never waited for long."""
_TELLING_BYTES = 1 << 20
"""Bytes from which on a transfer tells how quick a cache is: of fewer, most of the time is spent asking."""


@dataclass(slots=True)
class _Cache:
    """One cache in this run; ``down`` is why it is left alone."""

    config: CacheConfig
    down: str | None = None
    lacks: int = 0
    remote: Remote | None = None
    clients: list[Client] = field(default_factory=list)


class Substitutes:
    """A :class:`derive.build.substituting.Substitute` over the user's caches. Safe for several threads.

    ``note`` is told what a person should know, each thing once. ``offline``: nothing is asked or brought, and what was
    read before is still compared with what is built.
    """

    def __init__(
        self,
        store: LocalStore,
        caches: Sequence[CacheConfig],
        policy: Policy,
        *,
        revoked: frozenset[Digest] = frozenset(),
        note: Callable[[str], None] = lambda _: None,
        offline: bool = False,
    ) -> None:
        self._store = store
        self._policy = policy
        self.standing = Standing(lambda: Belief(policy=policy, revoked=revoked))
        self._keys = counting_keys(policy, revoked)
        self._note = note
        self._offline = offline
        self._guard = threading.RLock()
        self._caches = [_Cache(one) for one in caches]
        self._excluded: set[Digest] = set()
        self._doubted: set[Digest] = set()
        self._refused: set[Digest] = set()
        self._roomless: set[tuple[str, str]] = set()
        self._alarmed: set[str] = set()
        self._durations: dict[str, int] | None = None
        for cache in self._caches:
            if rows.alarms(store.database, cache.config.place):
                self._alarmed.add(cache.config.place)
                self._give_up(cache, "its log is not one log: derive cache status says more")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def trusted(self) -> dict[str, PublicKey]:
        """The keys that count, by name."""
        return {name: self._policy.keys[name] for name in self._keys.values()}

    @property
    def alarmed(self) -> frozenset[str]:
        """Places whose logs cannot be right."""
        return frozenset(self._alarmed)

    @property
    def is_down(self) -> bool:
        """Say whether no cache can be used in this run."""
        return all(cache.down is not None for cache in self._caches)

    def count(self) -> int:
        """Return how many resolved derivations keys that count vouch for."""
        places = {one.config.place: one.config.name for one in self._caches if one.config.place not in self._alarmed}
        return len({one.resolved for one in rows.all_claims(self._store.database, places, self._keys)})

    def refresh(self) -> None:
        """Read what is new in the logs of every cache."""
        from derive.cache.logs import refresh

        for cache in () if self._offline else self._caches:
            if cache.down is not None:
                continue
            place = cache.config.place
            try:
                alarms = refresh(self._store.database, place, self._remote(cache), self.trusted, int(time.time()))
            except (Failure, DeriveError) as error:
                self._failed(cache, error)
                continue
            if alarms:
                self._alarmed.add(place)
                self._give_up(cache, f"{alarms[0].what}: derive cache status says more")
        with self._guard:
            self._durations = None

    def knowledge(self) -> Knowledge:
        """Return the store's answers with what the caches vouch for."""
        return with_others(store_knowledge(self._store), Came.of(self._store, self.standing), self)

    def vouched(self, pairs: Sequence[tuple[Derivation, Digest]]) -> Mapping[Digest, Vouch]:
        """Return what keys that count say of steps and can be; raises Contradicted when two of them say two things."""
        steps = {resolved: derivation for derivation, resolved in pairs}
        found = {key: vouch for key, vouch in self._said(pairs).items() if self._can_be(steps[key], vouch)}
        if self._offline or all(cache.down is not None for cache in self._caches):
            return {}
        with self._guard:
            return {key: vouch for key, vouch in found.items() if key not in self._excluded}

    def worthwhile(self, plan: Plan) -> bool:
        """Say whether every step that a plan takes from a cache is worth it; those that are not are excluded."""
        here = store_knowledge(self._store)

        @remembered
        def present(one: Derivation) -> bool:
            resolved = here.resolved_ids([one.id]).get(one.id)
            row = None if resolved is None else here.realised([resolved]).get(resolved)
            return all_present(None if row is None else row.outputs, here.present)

        slow = too_slow(plan, self._rate, self._known_durations(), present)
        if slow:
            steps = [step for step in plan.steps if step.vouch is not None and step.vouch.resolved in slow]
            size = size_text(sum(step.substitute_bytes for step in steps))
            what = count_text(len(steps), "output")
            self._note(f"{what} ({size}) would take longer from the caches than to build: built")
        large = too_large(plan, free_bytes(self._store))
        if large - slow:
            vouches = [step.vouch for step in plan.steps if step.vouch is not None]
            self._tell_no_room([one for one in vouches if one.resolved in large])
        with self._guard:
            self._excluded |= slow | large
        return not slow | large

    def _tell_no_room(self, found: Sequence[Vouch]) -> None:
        """Say that outputs are not taken because they would not fit: once for those who say how large they are."""
        who = ", ".join(sorted({name for one in found for name in one.signers}))
        caches = ", ".join(sorted({name for one in found for name in one.caches}))
        with self._guard:
            is_new = (caches, who) not in self._roomless
            self._roomless.add((caches, who))
        if is_new:
            size, free = size_text(sum(one.size_bytes for one in found)), size_text(free_bytes(self._store))
            self._note(
                f"outputs from {caches} would not fit into the store ({size} by the word of {who}, {free} free): built"
            )

    def exclude(self, resolved: frozenset[Digest]) -> bool:
        """Take these outputs from no cache in this run; False where that was so before."""
        with self._guard:
            new = resolved - self._excluded
            self._excluded |= resolved
        return bool(new)

    def bring(self, derivation: Derivation, vouch: Vouch, cancel: threading.Event) -> str:
        """Bring a step's outputs, and return the name of the cache that had them; raises NotBrought."""
        for cache in self._caches:
            if cancel.is_set():
                raise Interrupted("stopped")
            if cache.down is None and not self._offline and self._brought(cache, derivation, vouch):
                return cache.config.name
        raise NotBrought(f"{derivation.name} could not be had from a cache", (vouch.resolved,))

    def signers(self, vouch: Vouch) -> Mapping[str, Digest]:
        """Return the ids of the keys that vouch, by name."""
        return {name: self._policy.keys[name].id for name in vouch.signers}

    def agree(
        self, derivation: Derivation, resolved: Digest, outputs: Mapping[str, Output], asked: Iterable[OutputRule] = ()
    ) -> None:
        """Compare what was built here with what others say; raises Contradicted when enough of them say otherwise."""
        vouch = self._said([(derivation, resolved)]).get(resolved)
        if vouch is None or dict(vouch.outputs) == dict(outputs):
            return
        who = ", ".join(vouch.signers)
        if vouch.suffices(asked):
            raise contradicted(derivation.name, resolved, ((HERE, outputs), (who, vouch.outputs)))
        with self._guard:
            is_new = resolved not in self._doubted
            self._doubted.add(resolved)
        if is_new:
            self._note(f"{derivation.name} came out otherwise than {who} alone says: one of the two builders is wrong")

    def stop(self) -> None:
        """End every transfer at its next piece, and close the connections; what is asked next opens others."""
        with self._guard:
            opened = [client for cache in self._caches for client in cache.clients]
            for cache in self._caches:
                cache.remote = None
                cache.clients.clear()
        for client in opened:
            client.stop()
            client.close()

    def _said(self, pairs: Sequence[tuple[Derivation, Digest]]) -> dict[Digest, Vouch]:
        """Return what keys that count say, of caches whose logs can be believed, whether they answer or not."""
        believed = [one.config for one in self._caches if one.config.place not in self._alarmed]
        places = {one.place: one.name for one in believed}
        said = rows.claims(self._store.database, places, self._keys, (resolved for _, resolved in pairs))
        order = [one.name for one in believed]
        found: dict[Digest, Vouch] = {}
        for derivation, resolved in pairs:
            claims = said.get(resolved)
            if claims:
                vouch = vouch_of(derivation.name, derivation.builder, claims, self._policy, self._keys, order)
                if vouch is not None:
                    found[resolved] = vouch
        return found

    def _can_be(self, derivation: Derivation, vouch: Vouch) -> bool:
        """Say whether a step can give what is said of it; where it was built here, what it cannot is compared with it.

        Raises:
            Contradicted: when it was built here, and keys enough say what cannot be.
        """
        if fits(derivation, vouch.outputs):
            return True
        row = self._store.database.realisation(vouch.resolved)
        if row is not None and vouch.resolved not in rows.substitutions(self._store.database):
            self.agree(derivation, vouch.resolved, known_of(row).outputs)
        with self._guard:
            is_new = vouch.resolved not in self._refused
            self._refused.add(vouch.resolved)
        if is_new:
            who = ", ".join(vouch.signers)
            self._note(f"{derivation.name}: {who} vouches for outputs that such a step cannot give: not taken")
        return False

    def _brought(self, cache: _Cache, derivation: Derivation, vouch: Vouch) -> bool:
        """Bring what the store lacks of a step's outputs from one cache; False, said once, where it cannot be had."""
        from derive.cache.fetching import bring

        started, moved = time.monotonic_ns(), 0
        limit = self._limit(derivation, vouch)
        is_image = derivation.builder == "image"
        most = max(vouch.size_bytes, vouch.most_bytes)
        try:
            with self._fetcher(cache, limit) as fetcher:
                for name, output in sorted(vouch.outputs.items()):
                    if not is_present(self._store, output) or is_image:
                        image = is_image and name == "out"
                        remote = self._remote(cache)
                        moved += bring(self._store, remote, fetcher, output, most, image=image)
        except (Interrupted, HostRefuses):
            raise
        except (Gone, UpstreamGone):
            self._lacks(cache)
            return False
        except (Failure, DeriveError) as error:
            if limit is not None and limit.slow:
                self._note(f"{derivation.name} is built: from the cache {cache.config.name} it {limit.slow}")
            else:
                self._failed(cache, error)
            return False
        if moved >= _TELLING_BYTES:
            rows.note_moved(self._store.database, cache.config.place, moved, time.monotonic_ns() - started)
        return True

    def _remote(self, cache: _Cache) -> Remote:
        from derive.cache.connect import connect

        with self._guard:
            if cache.remote is None:
                cache.remote = connect(cache.config)
                cache.clients.append(cache.remote.client)
            return cache.remote

    @contextmanager
    def _fetcher(self, cache: _Cache, limit: _Limit | None) -> Iterator[Fetcher]:
        """Lend what fetches blobs for one step, and gives up what would take too long."""
        from derive.cache.connect import fetcher_for

        with fetcher_for(self._store, cache.config, limit) as fetcher:
            with self._guard:
                cache.clients.append(fetcher.client)
            try:
                yield fetcher
            finally:
                with self._guard:
                    if fetcher.client in cache.clients:
                        cache.clients.remove(fetcher.client)

    def _limit(self, derivation: Derivation, vouch: Vouch) -> _Limit | None:
        if vouch.size_bytes < _WATCHED_BYTES:
            return None
        limit = limit_ns(derivation, self._known_durations(), lambda _: False)
        return None if limit is None else _Limit(vouch.size_bytes, limit)

    def _rate(self, step: Step) -> float | None:
        assert step.vouch is not None
        place = next((c.config.place for c in self._caches if c.config.name in step.vouch.caches), None)
        known = None if place is None else rows.place_of(self._store.database, place)
        return None if known is None else known.rate

    def _known_durations(self) -> dict[str, int]:
        with self._guard:
            if self._durations is None:
                self._durations = rows.durations(self._store.database)
            return self._durations

    def _lacks(self, cache: _Cache) -> None:
        with self._guard:
            cache.lacks += 1
            is_first = cache.lacks == 1
        if is_first:
            self._note(f"cache {cache.config.name} no longer holds all that its builders vouch for")

    def _failed(self, cache: _Cache, error: Exception) -> None:
        if isinstance(error, Interrupted):
            raise error
        if isinstance(error, Failure):
            kind = "does not answer" if isinstance(error, Broken | Skipped) else "refuses"
            self._give_up(cache, f"it {kind} ({error.reason})")
        elif isinstance(error, Corrupt):
            self._give_up(cache, f"it serves what it must not ({_one_line(error)})")
        else:
            self._give_up(cache, f"it does not serve ({_one_line(error)})")

    def _give_up(self, cache: _Cache, why: str) -> None:
        with self._guard:
            is_new, cache.down = cache.down is None, cache.down or why
        if is_new:
            self._note(f"cache {cache.config.name} is not used in this run: {why}")


@dataclass(slots=True)
class _Limit:
    """Watches the transfers of one step; ``slow`` says why they were ended, empty where not. ``size`` in bytes."""

    size: int
    limit_ns: int
    slow: str = ""
    _started: int = field(default_factory=time.monotonic_ns)
    _moved: int = 0

    def count(self, moved: int) -> None:
        """Count bytes that have come; raises Refused when they are going to take too long."""
        self._moved += moved
        elapsed = time.monotonic_ns() - self._started
        if elapsed < _FIRST_LOOK_NS or not 0 < self._moved < self.size:
            return
        expected = elapsed * self.size // self._moved
        if expected > self.limit_ns:
            self.slow = f"would take {duration_text(expected)} ({size_text(self.size)})"
            raise Refused(self.slow)


def _one_line(error: Exception) -> str:
    if not isinstance(error, DeriveError):
        return str(error)
    tried = next((line for line in error.detail if line.startswith("tried")), "")
    return error.message + (f": {tried.removeprefix('tried').strip()}" if tried else "")
