# SPDX-License-Identifier: Apache-2.0
"""What a plan will cost, from what past runs cost; and which of its steps early cutoff may spare.

Core: no IO. What is known of past runs comes in as :class:`Past`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush
from statistics import median

from derive.build.plan import Action, Plan, Step
from derive.canonical import Digest, Json, encode
from derive.derivations.model import IN_A_ROOT, Derivation, Output, closure

FETCHES_AT_ONCE = 8
"""Transfers that run side by side, whatever the jobs."""

_CACHE_RATE = 50_000_000.0  # bytes a second, before a cache was seen to serve

Key = tuple[str, str]
"""A step's name and host platform: what past steps are known by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A step that was built or fetched. ``weight_bytes`` are those of the artifacts below it."""

    derivation: Digest
    duration_ns: int
    weight_bytes: int
    written_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """All recent steps of one builder together. ``weight_square`` and ``weight_duration`` are sums of products."""

    steps: int
    duration_ns: int
    weight_bytes: int
    written_bytes: int
    weight_square: float = 0.0
    weight_duration: float = 0.0

    def duration_of(self, weight: int) -> int:
        """Return what a step of this weight takes: least squares of a part that grows with it and one that does not."""
        spread = self.steps * self.weight_square - float(self.weight_bytes) ** 2
        mean = self.duration_ns / self.steps
        if spread <= 0:
            return round(mean)  # one step, or all alike, tell nothing of how it grows
        slope = max(0.0, (self.steps * self.weight_duration - float(self.weight_bytes) * self.duration_ns) / spread)
        return max(0, round(mean + slope * (weight - self.weight_bytes / self.steps)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Predecessor:
    """The latest derivation of a name that was realised: its canonical document, and what it gave."""

    derivation: Digest
    document: Mapping[str, Json]
    outputs: Mapping[str, Output]


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What earlier runs tell. Samples are newest first; rates are by :func:`rate_key`.

    ``cache_rate`` is how quickly caches served, in bytes per second; None where nothing came from one.
    """

    samples: Mapping[Key, Sequence[Sample]]
    rates: Mapping[str, Rate]
    predecessors: Mapping[Key, Predecessor]
    cache_rate: float | None = None


class Fate(Enum):
    """Whether a step that is planned will really run."""

    RUNS = "runs"
    MAY_STOP = "may stop"
    LABEL_ONLY = "label only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one step is expected to cost; None where no past step tells. ``basis`` says from what it was judged.

    ``previous`` is what the latest derivation of that name gave: digests that can stay the same.
    """

    step: Step
    weight_bytes: int
    expected_ns: int | None
    written_bytes: int | None
    basis: str
    fate: Fate
    previous: Mapping[str, Output]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A plan's prices, in its order and without what is reused.

    ``expected_ns`` is wall time with so many jobs when everything runs, ``least_ns`` when early cutoff stops all that
    it may stop; ``unknown`` counts steps without a price, which are left out of both.
    """

    prices: tuple[Price, ...]
    jobs: int
    expected_ns: int | None
    least_ns: int | None
    written_bytes: int | None
    unknown: int

    def document(self) -> dict[str, Json]:
        """Return the forecast as part of a record's body."""
        return {
            "jobs": self.jobs,
            "expected_ns": self.expected_ns,
            "least_ns": self.least_ns,
            "write_bytes": self.written_bytes,
            "without_price": self.unknown,
            "steps": [
                {
                    "derivation": str(price.step.derivation.id),
                    "expected_ns": price.expected_ns,
                    "write_bytes": price.written_bytes,
                    "basis": price.basis,
                    "fate": price.fate.value,
                    "can_stay": {name: str(output) for name, output in sorted(price.previous.items())},
                }
                for price in self.prices
            ],
        }


def key_of(derivation: Derivation) -> Key:
    """Return what past steps of a derivation are known by."""
    return derivation.name, derivation.host


def rate_key(derivation: Derivation) -> str:
    """Return what the speed of a step is judged by: its builder with its version, and which part of its work it is."""
    part = f" {derivation.arguments['part']}" if derivation.builder == "kernel" else ""
    return f"{derivation.builder}/{derivation.version}{part}"


def weights(target: Derivation) -> Mapping[Digest, int]:
    """Return the bytes of the artifacts below each step of a closure, counted once for each way that leads to them.

    What a step only runs in is not counted: a toolchain weighs the same below every step, and grows with none.
    """
    found: dict[Digest, int] = {}
    for derivation in closure(target):
        size = derivation.arguments.get("size") if derivation.fixed is not None else None
        tools = "root" if derivation.builder in IN_A_ROOT else None
        below = sum(found[one.derivation.id] for role, one in derivation.inputs.items() if role != tools)
        found[derivation.id] = below + (size if isinstance(size, int) else 0)
    return found


def forecast(plan: Plan, past: Past, jobs: int) -> Forecast:
    """Price what a plan would do."""
    weight = weights(plan.target)
    planned = [step for step in plan.steps if step.action is not Action.REUSE]
    # Whoever makes a plan by hand may have put steps beside the target's own closure.
    prices = tuple(_price(step, weight.get(step.derivation.id, 0), past) for step in planned)
    cost = {price.step.derivation.id: price.expected_ns or 0 for price in prices}
    spared = {price.step.derivation.id for price in prices if price.fate is Fate.MAY_STOP}
    unknown = sum(price.expected_ns is None for price in prices)
    known = not prices or unknown < len(prices)
    return Forecast(
        prices=prices,
        jobs=jobs,
        expected_ns=wall_ns(planned, lambda step: cost[step.derivation.id], jobs) if known else None,
        least_ns=(
            wall_ns(planned, lambda s: 0 if s.derivation.id in spared else cost[s.derivation.id], jobs)
            if known
            else None
        ),
        written_bytes=sum(price.written_bytes or 0 for price in prices) if known else None,
        unknown=unknown,
    )


def wall_ns(steps: Sequence[Step], cost: Callable[[Step], int], jobs: int) -> int:
    """Return when the last of some steps ends, each starting when its inputs are there and a worker is free."""
    waiting = {step.derivation.id: step for step in steps}
    blockers = {
        key: {reference.derivation.id for reference in step.derivation.inputs.values()} & waiting.keys()
        for key, step in waiting.items()
    }
    dependents: dict[Digest, list[Digest]] = {}
    for key, needs in blockers.items():
        for need in needs:
            dependents.setdefault(need, []).append(key)
    order = {key: index for index, key in enumerate(waiting)}
    ready = [(0, order[key], key) for key in waiting if not blockers[key]]
    transfers = [0] * FETCHES_AT_ONCE
    free = {Action.FETCH: transfers, Action.SUBSTITUTE: transfers, Action.BUILD: [0] * jobs}
    after: dict[Digest, int] = {}
    last = 0
    while ready:
        at, _, key = heappop(ready)
        step = waiting[key]
        pool = free[step.action]
        end = max(at, heappop(pool)) + cost(step)
        heappush(pool, end)
        last = max(last, end)
        for dependent in dependents.get(key, ()):
            after[dependent] = max(after.get(dependent, 0), end)
            blockers[dependent].discard(key)
            if not blockers[dependent]:
                heappush(ready, (after[dependent], order[dependent], dependent))
    return last


def _price(step: Step, weight: int, past: Past) -> Price:
    if step.action is Action.SUBSTITUTE:
        return _taken(step, weight, past)
    derivation = step.derivation
    before = past.predecessors.get(key_of(derivation))
    expected, written, basis = _cost(derivation, weight, past)
    return Price(
        step=step,
        weight_bytes=weight,
        expected_ns=expected,
        written_bytes=written,
        basis=basis,
        fate=_fate(derivation, before),
        previous={} if before is None else before.outputs,
    )


def _taken(step: Step, weight: int, past: Past) -> Price:
    """Price what comes from a cache: by its bytes, at the pace of earlier transfers."""
    size = step.substitute_bytes
    return Price(
        step=step,
        weight_bytes=weight,
        expected_ns=round(size * 1e9 / (past.cache_rate or _CACHE_RATE)),
        written_bytes=size,
        basis="from a cache, by size",
        fate=Fate.RUNS,
        previous={},
    )


def _cost(derivation: Derivation, weight: int, past: Past) -> tuple[int | None, int | None, str]:
    samples = past.samples.get(key_of(derivation), ())
    own = [sample for sample in samples if sample.derivation == derivation.id]
    for found, basis in ((own, "built before"), (samples, "earlier builds of it")):
        if found:
            times, sizes = [sample.duration_ns for sample in found], [sample.written_bytes for sample in found]
            return round(median(times)), round(median(sizes)), basis
    rate = past.rates.get(rate_key(derivation))
    # What one script takes says nothing of another, however many bytes lie below either.
    if rate is None or not rate.steps or derivation.builder == "script":
        return None, None, "never seen"
    written = round(rate.written_bytes * weight / rate.weight_bytes) if rate.weight_bytes else 0
    return rate.duration_of(weight), written, "others of its builder, by size"


def _fate(derivation: Derivation, before: Predecessor | None) -> Fate:
    """Judge from what stands in the step itself: where only its inputs moved, they may come out as they were."""
    if before is None or before.derivation == derivation.id or derivation.fixed is not None:
        return Fate.RUNS
    if encode(list(_own(derivation.document()))) != encode(list(_own(before.document))):
        return Fate.RUNS
    return Fate.LABEL_ONLY if derivation.builder == "image" else Fate.MAY_STOP


def _own(document: Mapping[str, Json]) -> Iterator[Json]:
    """Yield everything in a derivation's document but the ids of the derivations that build its inputs."""
    yield from (document[key] for key in ("builder", "build", "host", "arguments"))
    inputs = document["inputs"]
    assert isinstance(inputs, Mapping)
    for role in sorted(inputs):
        reference = inputs[role]
        assert isinstance(reference, Mapping)
        yield role
        yield reference.get("fixed") or reference.get("output")
