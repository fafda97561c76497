# SPDX-License-Identifier: Apache-2.0
"""Notes in the store's history what a run was expected to take, and what it did.

Edge: the store, the clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from derive.build.past import past_of
from derive.build.plan import Plan, Step
from derive.build.prices import forecast, rate_key
from derive.canonical import Digest
from derive.derivations.model import Derivation, FlatOutput, Output
from derive.errors import DeriveError
from derive.store.history import PastStep, Run, add_step, begin_run, end_run, note_answer
from derive.store.local import LocalStore

_CLOCK_NS = 10_000_000  # a file's time may lie so far behind the clock's


class Notes:
    """The notes of one run, which begins now, and what it was expected to take. Safe for several threads."""

    def __init__(self, store: LocalStore, plan: Plan, jobs: int) -> None:
        self._store = store
        self._started = time.monotonic_ns()
        self.forecast = found = forecast(plan, past_of(store.database, plan), jobs)
        self._prices = {price.step.derivation.id: price for price in found.prices}
        self.expected_ns = found.expected_ns
        run = Run(
            run=0,
            target=plan.target.id,
            name=plan.target.name,
            host=plan.target.host,
            jobs=jobs,
            started_s=int(time.time()),
            expected_ns=found.expected_ns,
            expected_fetch_bytes=plan.fetch_bytes,
            expected_write_bytes=found.written_bytes,
        )
        self._run = begin_run(store.database, run)

    def step(
        self,
        step: Step,
        resolved: Digest,
        outputs: Mapping[str, Output],
        outcome: str,
        duration_ns: int,
        executor: str | None = None,
    ) -> None:
        """Note a finished step, and the executor that ran it, if that was not this machine."""
        derivation = step.derivation
        price = self._prices.get(derivation.id)
        past = PastStep(
            run=self._run,
            derivation=derivation.id,
            resolved=resolved,
            name=derivation.name,
            host=derivation.host,
            builder=rate_key(derivation),
            outcome=outcome,
            reason=step.reason,
            ended_s=int(time.time()),
            duration_ns=duration_ns,
            expected_ns=None if price is None else price.expected_ns,
            weight_bytes=0 if price is None else price.weight_bytes,
            written_bytes=written_bytes(self._store, outputs, duration_ns) if outcome != "reused" else 0,
        )
        add_step(self._store.database, past, executor)

    def end(self, outcome: str) -> int:
        """Note how the run ended, and return the nanoseconds that it took."""
        took_ns = time.monotonic_ns() - self._started
        with suppress(OSError, DeriveError):  # what went wrong before is what a person must hear
            end_run(self._store.database, self._run, outcome, took_ns)
        return took_ns


def note_reused(store: LocalStore, target: Derivation) -> None:
    """Note that a target is wanted for which nothing has to run: its name stands for it now."""
    if store.read_only:
        return
    with suppress(OSError, DeriveError):  # the answer is there, whatever can be noted of it
        note_answer(store.database, target.id, target.name, target.host, int(time.time()))


def written_bytes(store: LocalStore, outputs: Mapping[str, Output], within_ns: int) -> int:
    """Return the bytes of the blobs under some outputs that were written in the last ``within_ns``."""
    blobs: set[Digest] = set()
    for output in outputs.values():
        blobs |= {output.digest} if isinstance(output, FlatOutput) else set(store.database.tree_blobs(output.digest))
    since = time.time_ns() - within_ns - _CLOCK_NS
    stats = [store.blob_path(blob).stat() for blob in blobs if store.has_blob(blob)]
    return sum(found.st_size for found in stats if found.st_mtime_ns >= since)
