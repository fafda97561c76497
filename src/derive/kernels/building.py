# SPDX-License-Identifier: Apache-2.0
"""Derives units side by side: one that fails stops no other, and each failure is told.

Edge: threads, the clock, the store. What is there already is reused; everything finished is kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from derive.build.execute import Executor, Progress
from derive.build.past import past_of
from derive.build.plan import Action, Plan, Step
from derive.build.prices import Forecast, forecast
from derive.build.service import Options, executor, plan_for, preflight, realise
from derive.canonical import Digest
from derive.derivations.model import Derivation, Output
from derive.derivations.steps import composed
from derive.errors import BuildFailed, Corrupt, DeriveError, InputErrors, Interrupted, Missing
from derive.kernels.selecting import Cache, Target
from derive.store.local import LocalStore

_OF_ONE_UNIT = (BuildFailed, Corrupt, InputErrors, Missing)
"""What may be wrong with one unit; anything else, such as a full disk, is so for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What deriving some units would do. ``plan`` holds their steps and all that these need; its target is no step.

    ``steps`` has every step of the units themselves, done or not, by id.
    """

    targets: tuple[Target, ...]
    plan: Plan
    steps: Mapping[Digest, Step]

    @property
    def to_do(self) -> tuple[Target, ...]:
        """The units that something is to be done for."""
        return tuple(one for one in self.targets if not all(self.is_done(step) for step in one.steps))

    def is_done(self, derivation: Derivation) -> bool:
        """Say whether a step of a unit was derived, and what it gave is there."""
        return self.steps[derivation.id].action is Action.REUSE

    def output(self, derivation: Derivation) -> Output | None:
        """Return what a step of a unit gave, or None."""
        outputs = self.steps[derivation.id].outputs
        return None if outputs is None else outputs.get("out")

    def prices(self, store: LocalStore, jobs: int) -> Forecast:
        """Return what doing it will cost, as far as past runs tell."""
        return forecast(self.plan, past_of(store.database, self.plan), jobs)


def plan_units(targets: Sequence[Target], store: LocalStore, root: Path | None, *, to_run: bool = True) -> Work:
    """Plan some units together; what a plan that is ``to_run`` finds in the store is kept from being collected."""
    wanted = {step.id: step for target in targets for step in target.steps}
    everything = composed("kernels", [(step.id.hex, "", step) for step in wanted.values()], {})
    plan = plan_for(everything, store, root, to_run=to_run)
    steps = tuple(step for step in plan.steps if step.derivation.id != everything.id)
    own = {step.derivation.id: step for step in steps if step.derivation.id in wanted}
    return Work(targets=tuple(targets), plan=replace(plan, steps=steps), steps=own)


def realise_units(work: Work, store: LocalStore, options: Options, progress: Progress) -> Mapping[str, DeriveError]:
    """Do it, ``options.jobs`` units at once, and return why units failed, by the unit's name.

    Raises:
        DeriveError: when what all of them need cannot be had, or this machine cannot do it at all.
        Interrupted: on Ctrl-C, after every sandbox has been stopped.
    """
    if not work.to_do:
        return {}
    preflight(work.plan, store, options)
    roots = realise_roots(work.to_do, store, options, progress)
    seen = _Inner(progress)
    plan = _only(work, work.to_do)
    expected_ns, started = forecast(plan, past_of(store.database, plan), options.jobs).expected_ns, time.monotonic_ns()
    progress.begin(plan, expected_ns)
    sandbox = executor(store, options).sandbox
    tasks: dict[str, tuple[Executor, Plan]] = {}
    for target in work.to_do:
        one = executor(store, replace(options, jobs=1), seen)
        one.sandbox = sandbox
        tasks[target.unit.name] = (one, _plan_of(work, target, roots))
    try:
        failures = _side_by_side(tasks, options.jobs)
    finally:
        progress.end()
    if not failures:
        progress.took(time.monotonic_ns() - started, expected_ns)
    return failures


def realise_roots(
    targets: Iterable[Target], store: LocalStore, options: Options, progress: Progress
) -> Mapping[Digest, Step]:
    """Derive what units are compiled in, and return it as steps that are done, by id; raises what its steps raise."""
    wanted = {root.id: root for target in targets for root in _needed(target)}
    found: dict[Digest, Step] = {}
    for root in wanted.values():
        outputs = realise(plan_for(root, store, options.root), store, options, progress)
        found[root.id] = Step(derivation=root, action=Action.REUSE, reason="derived before", outputs=outputs)
    return found


def _needed(target: Target) -> list[Derivation]:
    own = {step.id for step in target.steps}
    inputs = [reference.derivation for step in target.steps for reference in step.inputs.values()]
    return [one for one in inputs if one.id not in own]


def _only(work: Work, targets: Sequence[Target]) -> Plan:
    """Return the part of the plan that is the units' own, for whoever shows how far it is."""
    own = {step.id for target in targets for step in target.steps}
    return replace(work.plan, steps=tuple(step for step in work.plan.steps if step.derivation.id in own))


def _plan_of(work: Work, target: Target, roots: Mapping[Digest, Step]) -> Plan:
    above = [roots[one.id] for one in {one.id: one for one in _needed(target)}.values()]
    own = [work.steps[step.id] for step in target.steps]
    cutoffs = tuple(one for one in work.plan.cutoffs if one[0].id in {step.id for step in target.steps})
    return Plan(target=target.steps[-1], steps=(*above, *own), cutoffs=cutoffs, asked=work.plan.asked)


def _side_by_side(tasks: Mapping[str, tuple[Executor, Plan]], jobs: int) -> Mapping[str, DeriveError]:
    failures: dict[str, DeriveError] = {}
    with ThreadPoolExecutor(jobs, thread_name_prefix="unit") as pool:
        running: dict[Future[object], str] = {pool.submit(one.run, plan): name for name, (one, plan) in tasks.items()}
        try:
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    name = running.pop(future)
                    try:
                        future.result()
                    except _OF_ONE_UNIT as error:
                        failures[name] = error
        except BaseException as error:
            for one, _ in tasks.values():
                one.cancel()
            pool.shutdown(wait=True, cancel_futures=True)
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted("stopped", hint="run the same command again: everything finished is kept") from None
            raise
    return {name: failures[name] for name in tasks if name in failures}


class _Inner:
    """Passes on what one of several runs tells, but for where it begins and ends."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def begin(self, plan: Plan, expected_ns: int | None) -> None:
        """Say nothing: it is a part of what began already."""

    def started(self, derivation: Derivation, where: str | None = None) -> None:
        """Pass it on."""
        self._progress.started(derivation, where)

    def finished(self, derivation: Derivation, outcome: str, duration_ns: int) -> None:
        """Pass it on."""
        self._progress.finished(derivation, outcome, duration_ns)

    def note(self, message: str) -> None:
        """Pass it on."""
        self._progress.note(message)

    def checked(self, derivation: Derivation, differences: int) -> None:
        """Pass it on."""
        self._progress.checked(derivation, differences)

    def end(self) -> None:
        """Say nothing: others may still run."""

    def took(self, duration_ns: int, expected_ns: int | None) -> None:
        """Say nothing: it is a part of a whole that is told."""


def realise_caches(
    caches: Sequence[Cache], store: LocalStore, options: Options, progress: Progress
) -> Mapping[Cache, Output]:
    """Compose caches of units that are built; raises what their steps raise."""
    found: dict[Cache, Output] = {}
    for one in caches:
        plan = plan_for(one.derivation, store, options.root)
        found[one] = realise(plan, store, options, progress)["out"]
    return found
