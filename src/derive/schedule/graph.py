# SPDX-License-Identifier: Apache-2.0
"""From a plan with its prices to tasks, and from executors that are configured to workers.

Core: no IO.

Steps that run programs in a sandbox can run anywhere; the engine's own run here, where the store is, and transfers go
through their own pool. What a step takes is what its price says; one that was never seen is taken to be as the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from derive.build.plan import Action, Plan, Step
from derive.build.prices import FETCHES_AT_ONCE, Forecast
from derive.canonical import Digest
from derive.derivations.model import Derivation, Output
from derive.schedule.config import ExecutorEntry
from derive.schedule.model import HERE, NETWORK, USUAL_SPEED, Kind, Task, Worker

ELSEWHERE = frozenset({"kernel", "script"})
"""Builders whose programs a worker elsewhere can run."""
UNKNOWN_NS = 10_000_000_000
"""What a step is taken to last where nothing at all is known of any."""
STEP_MEMORY = 2 << 30
"""The memory that a step elsewhere is counted at: nothing says how much it takes."""
USUAL_RATE = 100 << 20
"""Bytes a second to a builder of which nothing says better."""
OVERHEAD_NS = 500_000_000
"""What a step takes longer at a builder than in this machine's own sandbox, what is sent not counted."""
_USUAL_JOBS = 2


def kind_of(step: Step) -> Kind:
    """Say what a step asks of whoever runs it."""
    if step.action is not Action.BUILD:
        return Kind.FETCH
    return Kind.SANDBOX if can_go_elsewhere(step.derivation) else Kind.ENGINE


def can_go_elsewhere(derivation: Derivation) -> bool:
    """Say whether a step runs programs over a root: the engine's own part of a kernel runs none."""
    return derivation.builder in ELSEWHERE and "root" in derivation.inputs and derivation.build != "any"


def tasks_of(plan: Plan, forecast: Forecast, size_of: Callable[[Output], int]) -> tuple[Task, ...]:
    """Return what a plan would do, in its order. ``size_of`` says how large what the store holds is."""
    prices = {price.step.derivation.id: price for price in forecast.prices}
    known = [price.expected_ns for price in forecast.prices if price.expected_ns is not None]
    usual = round(median(known)) if known else UNKNOWN_NS
    steps = [step for step in plan.steps if step.action is not Action.REUSE]
    here = {step.derivation.id: step.outputs for step in plan.steps if step.outputs is not None}
    places = {step.derivation.id: place for place, step in enumerate(steps)}
    sizes = _Sizes(size_of, here, {key: price.written_bytes or 0 for key, price in prices.items()})
    found = []
    for step in steps:
        derivation = step.derivation
        price = prices.get(derivation.id)
        expected = None if price is None else price.expected_ns
        is_sandbox = kind_of(step) is Kind.SANDBOX
        needs = {places[r.derivation.id] for r in derivation.inputs.values() if r.derivation.id in places}
        found.append(
            Task(
                key=derivation.id.hex,
                name=derivation.name,
                kind=kind_of(step),
                duration_ns=usual if expected is None else expected,
                needs=tuple(sorted(needs)),
                platform=derivation.build if is_sandbox else "any",
                reads=sizes.reads(derivation) if is_sandbox else (),
                gives_bytes=(price.written_bytes or 0) if price is not None and is_sandbox else 0,
                memory_bytes=STEP_MEMORY if is_sandbox else 0,
                guessed=expected is None,
            )
        )
    return tuple(found)


class _Sizes:
    """How large inputs are: those that the store holds are looked at once."""

    def __init__(
        self,
        size_of: Callable[[Output], int],
        here: Mapping[Digest, Mapping[str, Output]],
        expected: Mapping[Digest, int],
    ) -> None:
        self._size_of = size_of
        self._here = here
        self._expected = expected
        self._known: dict[Output, int] = {}

    def reads(self, derivation: Derivation) -> tuple[tuple[str, int], ...]:
        found = {}
        for _, reference in sorted(derivation.inputs.items()):
            inner = reference.derivation
            name = f"{inner.id.hex}/{reference.output}"
            size = inner.arguments.get("size") if inner.fixed is not None else None
            outputs = self._here.get(inner.id, {})
            if isinstance(size, int):
                found[name] = size
            elif reference.output in outputs:
                output = outputs[reference.output]
                if output not in self._known:
                    self._known[output] = self._size_of(output)
                found[name] = self._known[output]
            else:
                found[name] = self._expected.get(inner.id, 0)
        return tuple(found.items())


def workers_of(
    entries: Sequence[ExecutorEntry], *, jobs: int, here: bool, speeds: Mapping[str, int]
) -> tuple[Worker, ...]:
    """Return the network, this machine, and the executors of some entries, in that order.

    ``here``: this machine runs programs, too; without, it does only what the engine itself does. ``speeds`` are those
    that were measured, in thousandths; they win over those that are configured.
    """
    own = next((entry for entry in entries if entry.is_here), None)
    kinds = {Kind.ENGINE, Kind.SANDBOX} if here else {Kind.ENGINE}
    network = Worker(name=NETWORK, kinds=frozenset({Kind.FETCH}), slots=FETCHES_AT_ONCE)
    this = Worker(
        name=HERE if own is None else own.name,
        kinds=frozenset(kinds),
        slots=jobs if own is None or own.jobs is None else min(jobs, own.jobs),
        platforms=frozenset() if own is None else frozenset(own.platforms),
        memory_bytes=None if own is None else own.memory_bytes,
    )
    own_jobs = (None if own is None else jobs_of_each(own.cores, this.slots)) or jobs
    return (network, this, *(worker_of(entry, speeds, own_jobs) for entry in entries if not entry.is_here))


def worker_of(entry: ExecutorEntry, speeds: Mapping[str, int], own_jobs: int) -> Worker:
    """Return what an executor elsewhere is to a schedule; a step here is told to do ``own_jobs`` things at once."""
    slots = slots_of(entry)
    return Worker(
        name=entry.name,
        kinds=frozenset({Kind.SANDBOX}),
        slots=slots,
        platforms=frozenset(entry.platforms),
        memory_bytes=entry.memory_bytes,
        rate=entry.rate or USUAL_RATE,
        speed=speeds.get(entry.name)
        or with_jobs(entry.speed or USUAL_SPEED, jobs_of_each(entry.cores, slots) or own_jobs, own_jobs),
        overhead_ns=OVERHEAD_NS,
    )


def slots_of(entry: ExecutorEntry) -> int:
    """Return how many steps run at once on an executor elsewhere: no more than it has cores."""
    wanted = entry.jobs or _USUAL_JOBS
    return wanted if entry.cores is None else min(wanted, entry.cores)


def jobs_of_each(cores: int | None, slots: int) -> int | None:
    """Return how many things each step may do at once; None, as many as here, where nothing says how many cores."""
    return None if cores is None else max(1, cores // slots)


def with_jobs(speed: int, jobs: int, own_jobs: int) -> int:
    """Return a speed that nobody measured for steps that do ``jobs`` things at once, and ``own_jobs`` here.

    Half of what a step does is taken to be shared among its jobs: no number of them makes it more than twice as quick.
    """
    return max(1, 2 * speed * jobs // (jobs + own_jobs))
