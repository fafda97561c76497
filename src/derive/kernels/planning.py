# SPDX-License-Identifier: Apache-2.0
"""What a check of units would do, before it does it: compiles, compiles again, time, room.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from derive.build.execute import free_bytes
from derive.build.past import past_of
from derive.build.plan import Action
from derive.build.prices import forecast
from derive.build.service import Options, plan_for
from derive.canonical import Digest, digest_document, sha256
from derive.derivations.evaluate import Evaluator
from derive.derivations.model import Derivation
from derive.derivations.scope import Scope
from derive.kernels.building import Work, plan_units
from derive.kernels.drivers import driver
from derive.kernels.selecting import Target
from derive.store.local import LocalStore
from derive.words import count_text, duration_text, size_text

GUESS_NS = {"device": 20_000_000_000, "host": 4_000_000_000}
"""What one compile is taken to take before any was seen, by part."""

TESTS, QUICK_TESTS = "kernel-tests", "kernel-tests-quick"
"""The declared derivations that run the tests of kernels in the sandbox: all of them, and those that are quick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Something derived besides the units. ``expected_ns``: None where no past run tells, 0 where it is there."""

    shown: str
    derivation: Derivation
    expected_ns: int | None

    def __str__(self) -> str:
        match self.expected_ns:
            case None:
                return f"{self.shown} (never run here)"
            case 0:
                return f"{self.shown} (in the store)"
            case _:
                return f"{self.shown} ({duration_text(self.expected_ns)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlan:
    """What a check would do. ``again`` are the steps to do once more, ``equal`` counts those found equal before.

    ``tests`` and ``caches`` are derived besides. ``guessed``: of some compiles no past run tells how long they take.
    """

    work: Work
    again: tuple[Derivation, ...]
    equal: int
    tests: tuple[Beside, ...]
    caches: tuple[Beside, ...]
    jobs: int
    expected_ns: int
    guessed: bool
    disk_bytes: int
    free_bytes: int


def plan_check(
    targets: Sequence[Target],
    store: LocalStore,
    options: Options,
    *,
    tests: Sequence[tuple[str, Derivation]] = (),
    caches: Sequence[tuple[str, Derivation]] = (),
    anew: bool = False,
    to_run: bool = True,
) -> CheckPlan:
    """Plan a check; ``tests`` and ``caches`` with what they are called. ``anew``: also what was found equal before.

    What a plan that is ``to_run`` finds in the store is kept from being collected.
    """
    work = plan_units(targets, store, options.root, to_run=to_run)
    steps = [step for target in targets for step in target.steps]
    equal = set() if anew else _found_equal(steps, work, store)
    again = tuple(step for step in steps if step.id not in equal)
    prices = work.prices(store, options.jobs)
    each = {price.step.derivation.id: price.expected_ns for price in prices.prices}
    each |= {step.id: work.steps[step.id].expected_ns for step in steps if work.is_done(step)}
    unknown = [step for step in steps if each[step.id] is None]
    guessed_ns = sum(map(_guess, unknown))
    second_ns = sum(each[step.id] or _guess(step) for step in again)
    besides = [
        [_beside(shown, one, store, options.root, to_run=to_run) for shown, one in some] for some in (tests, caches)
    ]
    besides_ns = sum(one.expected_ns or 0 for some in besides for one in some)
    return CheckPlan(
        work=work,
        again=again,
        equal=len(equal),
        tests=tuple(besides[0]),
        caches=tuple(besides[1]),
        jobs=options.jobs,
        expected_ns=(prices.expected_ns or 0) + (guessed_ns + second_ns) // options.jobs + besides_ns,
        guessed=bool(unknown),
        disk_bytes=max(work.plan.disk_bytes, prices.written_bytes or 0) if work.to_do else 0,
        free_bytes=free_bytes(store),
    )


def _guess(step: Derivation) -> int:
    return GUESS_NS[str(step.arguments["part"])]


def _beside(shown: str, derivation: Derivation, store: LocalStore, root: Path | None, *, to_run: bool) -> Beside:
    plan = plan_for(derivation, store, root, to_run=to_run)
    own = plan.steps[-1]
    if own.action is Action.REUSE:
        return Beside(shown=shown, derivation=derivation, expected_ns=0)
    prices = forecast(plan, past_of(store.database, plan), 1).prices
    expected = next((price.expected_ns for price in prices if price.step.derivation.id == derivation.id), None)
    return Beside(shown=shown, derivation=derivation, expected_ns=expected)


def _found_equal(steps: Sequence[Derivation], work: Work, store: LocalStore) -> set[Digest]:
    """Return the steps that came out equal before, with the programs that would make them now."""
    resolved = store.database.resolved_ids(step.id for step in steps)
    found = set()
    for step in steps:
        output = work.output(step)
        if output is not None and step.id in resolved:
            said = store.database.memo(equal_key(resolved[step.id]))
            if said == str(output):
                found.add(step.id)
    return found


def equal_key(resolved: Digest) -> Digest:
    """Return what an equal outcome is remembered under: also by the programs, should one change without a version."""
    programs = {part: sha256(driver(part)).hex for part in ("device", "host")}
    return digest_document({"derive": "kernel-equal/2", "resolved": resolved.hex, "programs": programs})


def tests_of(scope: Scope, *, quick: bool) -> tuple[tuple[str, Derivation], ...]:
    """Return the steps that test kernels in the sandbox, of which a project has one or none, with their names."""
    name = QUICK_TESTS if quick else TESTS
    if name not in scope.declared:
        return ()
    return ((name, Evaluator(scope).derivation(name, scope.project.settings.build_platform)),)


def plan_lines(plan: CheckPlan) -> Iterator[str]:
    """Yield what a check would do, how long it would take and how much room it needs, as lines for a person."""
    work = plan.work
    kernels = sorted({target.unit.kernel for target in work.targets})
    gpus = sorted({target.unit.gpu for target in work.targets})
    units = count_text(len(work.targets), "unit")
    yield f"check: {units} of {count_text(len(kernels), 'kernel')}, for {', '.join(gpus) or 'no GPU'}"
    new = [step for target in work.targets for step in target.steps if not work.is_done(step)]
    yield f"  to compile        {_parts(new)}"
    yield f"  to compile again  {_parts(plan.again)}; {plan.equal} found equal before"
    yield f"  besides           {', '.join(map(str, (*plan.caches, *plan.tests))) or 'nothing'}"
    basis = f"some guessed at {duration_text(GUESS_NS['device'])} a unit" if plan.guessed else "from past runs"
    yield f"  expected          {duration_text(plan.expected_ns)} with {count_text(plan.jobs, 'job')}, {basis}"
    too_little = "  TOO LITTLE" if plan.disk_bytes > plan.free_bytes else ""
    yield f"  disk              up to {size_text(plan.disk_bytes)} of {size_text(plan.free_bytes)} free{too_little}"


def _parts(steps: Sequence[Derivation]) -> str:
    hosts = sum(step.arguments["part"] == "host" for step in steps)
    return f"{count_text(len(steps) - hosts, 'unit')}, {count_text(hosts, 'host part')}"
