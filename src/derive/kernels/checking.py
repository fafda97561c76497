# SPDX-License-Identifier: Apache-2.0
"""Checks units: each compiled again another way and compared byte for byte, caches that hold what they should, tests.

Edge: threads, the store. What was found equal is remembered, so that a check that was stopped goes on where it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from typing import Literal, TypeAlias

from derive.build.check import compare
from derive.build.execute import Executor, Progress
from derive.build.plan import resolved_of
from derive.build.service import Options, executor, plan_for, preflight, realise
from derive.canonical import Digest, Json
from derive.derivations.model import Derivation, Output, ResolvedDerivation
from derive.errors import BuildFailed, DeriveError, InputErrors, Interrupted
from derive.kernels.answers import read_facts
from derive.kernels.building import Work, plan_units, realise_roots, realise_units
from derive.kernels.facts import Facts, clashes
from derive.kernels.planning import Beside, CheckPlan, equal_key
from derive.kernels.selecting import Target
from derive.store.local import LocalStore
from derive.trees.listing import File

Kind: TypeAlias = Literal["fails", "differs", "tests", "cache", "keys"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing wrong. ``name`` is a unit's, or a derivation's; ``error`` is there when a build ended so."""

    kind: Kind
    name: str
    what: str
    detail: tuple[str, ...] = ()
    error: DeriveError | None = None

    def document(self) -> dict[str, Json]:
        """Return the finding as it stands in a record."""
        return {"kind": self.kind, "name": self.name, "what": self.what, "detail": list(self.detail)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check found. ``compiled_again`` and ``equal_before`` count steps; ``facts`` has all units built."""

    findings: tuple[Finding, ...]
    facts: Mapping[str, Facts]
    units: int
    compiled_again: int
    equal_before: int

    @property
    def spills(self) -> Mapping[str, int]:
        """Bytes that units spill to local memory, of those that do."""
        return {name: one.resources.spill_bytes for name, one in self.facts.items() if one.resources.spill_bytes}

    def document(self) -> dict[str, Json]:
        """Return it as a record's body."""
        return {
            "units": self.units,
            "compiled_again": self.compiled_again,
            "equal_before": self.equal_before,
            "spill_bytes": dict(self.spills),
            "findings": [one.document() for one in self.findings],
        }


def check(plan: CheckPlan, store: LocalStore, options: Options, progress: Progress) -> Checked:
    """Do what a plan says, all of it whatever is found on the way.

    Raises:
        DeriveError: when what the units need cannot be had, or this machine cannot do it.
        Interrupted: on Ctrl-C; what was found equal until then is remembered.
    """
    failed = realise_units(plan.work, store, options, progress)
    findings = [_failure("fails", name, error) for name, error in failed.items()]
    targets = [target for target in plan.work.targets if target.unit.name not in failed]
    work = plan_units(targets, store, options.root)
    own = {step.id for target in targets for step in target.steps}
    again = [step for step in plan.again if step.id in own]
    findings += _compile_again(again, work, store, options, progress)
    facts = {target.unit.name: _facts(work, target, store) for target in targets}
    cubins = {target.unit.name: _cubin(work, target, store) for target in targets}
    findings += [Finding(kind="keys", name=name, what=what) for name, what in clashes(facts, cubins)]
    findings += _place_findings(work, facts, store)
    if not failed:
        findings += _derived("cache", plan.caches, store, options, progress)
    findings += _derived("tests", plan.tests, store, options, progress)
    return Checked(
        findings=tuple(findings),
        facts=facts,
        units=len(plan.work.targets),
        compiled_again=len(again),
        equal_before=plan.equal,
    )


def _compile_again(
    steps: Sequence[Derivation], work: Work, store: LocalStore, options: Options, progress: Progress
) -> list[Finding]:
    if not steps:
        return []
    roots = realise_roots(work.targets, store, options, progress)
    outputs = {key: step.outputs or {} for key, step in (*roots.items(), *work.steps.items())}
    # Another job count than units are built with, and one CPU for each: what depends on them shows.
    maker = executor(store, options, progress, inner_jobs=2)
    cpus = cycle(sorted(os.sched_getaffinity(0)))

    def again(step: Derivation) -> list[Finding]:
        inputs = {role: outputs[one.derivation.id][one.output] for role, one in step.inputs.items()}
        return _again(step, resolved_of(step, inputs), outputs[step.id], maker, progress)

    # No step waits for another, so the longest goes first: no other order keeps the jobs busy to the end.
    longest_first = sorted(steps, key=lambda one: -work.steps[one.id].expected_ns)
    with ThreadPoolExecutor(options.jobs, thread_name_prefix="check", initializer=lambda: _stay_on(next(cpus))) as pool:
        try:
            results = {step.id: pool.submit(again, step) for step in longest_first}
            return [finding for step in steps for finding in results[step.id].result()]
        except BaseException as error:
            maker.cancel()
            pool.shutdown(wait=True, cancel_futures=True)
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted("stopped", hint="run the same command again: everything finished is kept") from None
            raise


def _stay_on(cpu: int) -> None:
    """Keep this thread, and every program that it starts, on one CPU."""
    os.sched_setaffinity(0, {cpu})


def _again(
    step: Derivation, resolved: ResolvedDerivation, first: Mapping[str, Output], maker: Executor, progress: Progress
) -> list[Finding]:
    """Do a step once more in a folder of its own, and remember when it came out as before."""
    try:
        second = maker.build(step, resolved, f"{step.id.hex}.check.log")
    except BuildFailed as error:
        return [_failure("fails", step.name, error)]
    found = list(compare(maker.store, step.name, first, second))
    progress.checked(step, len(found))
    if not found:
        maker.store.database.set_memo(equal_key(resolved.id), str(first["out"]))
    return [
        Finding(
            kind="differs",
            name=step.name,
            what=f"{one.path or 'its one file'}, {one.what}"
            + ("" if one.offset is None else f", at byte {one.offset}"),
            detail=(f"first     {one.first}", f"second    {one.second}"),
        )
        for one in found
    ]


def _facts(work: Work, target: Target, store: LocalStore) -> Facts:
    output = work.output(target.device)
    assert output is not None
    return read_facts(store, output, target.unit.name)


def _cubin(work: Work, target: Target, store: LocalStore) -> Digest | None:
    output = work.output(target.device)
    assert output is not None
    entry = store.listing(output.digest).get(b"kernel.cubin")
    return entry.sha256 if isinstance(entry, File) else None


def _place_findings(work: Work, facts: Mapping[str, Facts], store: LocalStore) -> Iterator[Finding]:
    """Yield hosts' parts that do not lie where their unit's key says."""
    for target in work.targets:
        keys = facts[target.unit.name].launch.keys
        for host in target.hosts:
            output, machine = work.output(host), str(host.arguments["machine"])
            assert output is not None
            folder = f"/linux-{machine}/kernels/{keys.get(machine, '')}/".encode()
            if not any(folder in b"/" + path for path in store.listing(output.digest)):
                key = keys.get(machine)
                what = f"has no key for {machine}" if key is None else f"is not in its cache entry under {key[:12]}"
                yield Finding(kind="keys", name=host.name, what=what)


def _derived(
    kind: Kind, wanted: Sequence[Beside], store: LocalStore, options: Options, progress: Progress
) -> list[Finding]:
    findings = []
    for one in wanted:
        plan = plan_for(one.derivation, store, options.root)
        preflight(plan, store, options)
        try:
            realise(plan, store, options, progress)
        except (BuildFailed, InputErrors) as error:
            findings.append(_failure(kind, one.shown, error))
    return findings


def _failure(kind: Kind, name: str, error: DeriveError) -> Finding:
    problems = error.problems()
    detail = [row for problem in problems for row in problem.detail]
    if len(problems) > 1:
        detail = [f"{problem.where}: {problem.message}" for problem in problems]
    return Finding(kind=kind, name=name, what=problems[0].message, detail=tuple(detail), error=error)
