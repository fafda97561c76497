# SPDX-License-Identifier: Apache-2.0
"""A deploy from its lease to its record: each step in its order, and on any failure or Ctrl-C everything back.

Edge: the nodes, signals, the clock, the operator's folder. What is judged is judged by core modules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from traceback import extract_tb
from typing import TYPE_CHECKING

from derive.deploy import evidence as kept_evidence
from derive.deploy import steps, undo
from derive.deploy.consents import Consent
from derive.deploy.cut_off import cut_off
from derive.deploy.effects import this_process
from derive.deploy.former import changes_machines, former_of
from derive.deploy.held import hold
from derive.deploy.history import Deployed, StepTook
from derive.deploy.interrupts import GIVE_UP, interrupts
from derive.deploy.model import Step
from derive.deploy.node_errors import ConnectionLost, Fenced, NodeSlow, NodeUnreachable, together
from derive.deploy.planning import planned, standing_in_the_way
from derive.deploy.refused import Refused, failure_of
from derive.deploy.seeing import look
from derive.deploy.situation import Kind
from derive.deploy.work import Work
from derive.errors import DeriveError, Interrupted
from derive.render.site_digest import site_digest
from derive.words import duration_text

if TYPE_CHECKING:
    from pathlib import Path

    from derive.deploy.held import Held
    from derive.deploy.history import Outcome
    from derive.deploy.lease import Taken
    from derive.deploy.model import Target
    from derive.deploy.planning import Asked
    from derive.deploy.reach import Reach
    from derive.deploy.situation import Situation
    from derive.deploy.told import Told
    from derive.deploy.undo import Back
    from derive.deploy.work import Means


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be done. ``what`` is the command, for whoever meets the lease; ``deploy`` names this deploy.

    ``distribute`` brings a target's image to all nodes and returns how many bytes moved, None where nobody counted.
    """

    asked: Asked
    deploy: str
    what: str
    distribute: Callable[[Work, Target], Awaitable[int | None]]

    @property
    def only_ahead(self) -> bool:
        """Say whether nothing that serves is touched: image and files are there for later."""
        return self.asked.only_ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a deploy ended. ``error`` is what failed, None where nothing did; ``back`` how going back went.

    ``evidence`` and ``record`` are paths in the operator's folder, None where there is none. ``unchanged`` says that
    all nodes ran it already, as its bundle says.
    """

    deployed: Deployed
    error: DeriveError | None
    back: Back | None = None
    evidence: Path | None = None
    record: Path | None = None
    unchanged: bool = False


@dataclass(slots=True, kw_only=True)
class _Run:
    """One deploy as it goes on: ``now`` is what an interrupt ends, the way forward or the way back."""

    order: Order
    reach: Reach
    told: Told
    means: Means
    stack: AsyncExitStack
    step: Step = Step.LEASE
    took: list[StepTook] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    moved: int | None = None
    held: Held | None = None
    work: Work | None = None
    unchanged: bool = False
    going_back: bool = False
    now: asyncio.Task[None] | None = None

    def interrupted(self, count: int) -> None:
        """End what goes on; going back is only given up when asked for again and again."""
        if self.going_back and count < GIVE_UP:
            self.told.line("all", undo.STEP, f"interrupted: {GIVE_UP - count} more, and going back is given up")
        elif self.now is not None:
            self.told.line("all", undo.STEP if self.going_back else self.step.value, "interrupted")
            self.now.cancel()

    def lost(self) -> None:
        """End what goes on, as a lease is lost; the way back is only ended where another deploy has the node."""
        if self.now is not None and (not self.going_back or (self.held is not None and self.held.is_another)):
            self.now.cancel()


async def conduct(order: Order, reach: Reach, told: Told, means: Means) -> Ended:
    """Deploy; what fails is in the answer, and all is as it was before, or the answer says what is not."""
    async with AsyncExitStack() as stack:
        run = _Run(order=order, reach=reach, told=told, means=means, stack=stack)
        with interrupts(run.interrupted):
            error = await _outcome(run, _forward(run))
            if error is None:
                return _ended(run, "done", None)
            if run.work is None or _is_fenced(error):
                return _ended(run, "failed", error)
            return await _back(run, run.work, error)
    raise AssertionError


async def _outcome(run: _Run, going: Awaitable[None]) -> DeriveError | None:
    """Wait for the way forward or back; return what ended it."""
    run.now = asyncio.ensure_future(going)
    try:
        await run.now
    except asyncio.CancelledError:
        if run.held is not None and run.held.lost is not None:
            return run.held.lost
        return Interrupted("interrupted")
    except DeriveError as error:
        return error
    except Exception as error:  # noqa: BLE001 - whatever it is, what runs on the nodes must not be left half done
        frame = extract_tb(error.__traceback__)[-1]
        detail = [f"{type(error).__name__}: {error}", f"at {frame.filename}:{frame.lineno}"]
        return DeriveError("a fault of derive itself", detail=detail, hint="please report it")
    finally:
        run.now = None
    return None


async def _forward(run: _Run) -> None:
    asked = run.order.asked
    target = asked.target
    async with _Timed(run, Step.LEASE):
        run.held = await run.stack.enter_async_context(
            hold(
                run.reach,
                run.reach.site.folder,
                this_process(run.order.what),
                lambda name, taken: _tell_taken(run, name, taken),
                run.lost,
            )
        )
        work = Work(
            deploy=run.order.deploy,
            target=target,
            reach=run.reach,
            held=run.held,
            told=run.told,
            means=run.means,
            distribute=run.order.distribute,
        )
    if await _judged(run, work):
        return
    run.work = work
    async with _Timed(run, Step.DISTRIBUTE):
        run.moved = await run.order.distribute(work, target)
    async with _Timed(run, Step.STAGE):
        await steps.stage(work)
    if run.order.only_ahead:
        return
    _record_cut_off(run, work)
    async with _Timed(run, Step.STOP):
        await steps.stop(work)
    for step, function in (
        (Step.ACTIVATE, steps.activate),
        (Step.ARM, steps.arm),
        (Step.START, steps.start),
        (Step.READY, steps.ready),
        (Step.STEADY, steps.steady),
    ):
        async with _Timed(run, step):
            await function(work, target, step.value)
    async with _Timed(run, Step.OBSERVE):
        run.ids = await steps.observe(work, target, Step.OBSERVE.value)
    async with _Timed(run, Step.RECORD):
        await steps.confirm(work, target, Step.RECORD.value)


async def _judged(run: _Run, work: Work) -> bool:
    """Look at all nodes and judge; return whether there is nothing to do, as they run it already.

    Raises:
        Refused: with everything that stands against it.
    """
    asked = run.order.asked
    async with _Timed(run, Step.FACTS):
        own = work.held.fence.nonce
        looked = await look(run.reach, work.target, run.means.kept, run.means.now_s(), own=own, again=asked.again)
        for name in run.reach.names:
            failed = looked.failed.get(name)
            run.told.line(name, run.step.value, "done" if failed is None else f"failed: {failed.message}")
        for name, why in looked.damaged.items():
            run.told.line(name, run.step.value, f"warn: what it remembers cannot be read, and is not gone by: {why}")
        if looked.failed:
            raise together(tuple(looked.failed.values()))
    async with _Timed(run, Step.PREFLIGHT):
        seen = looked.seen
        work.with_systemd = frozenset(name for name, one in seen.machines.items() if one.systemd is not None)
        others = standing_in_the_way(asked, seen)
        work.former = former_of(seen.states, seen.containers, others, service=work.service)
        if is_left(asked) and is_served(work.target, seen.situation):
            run.ids = await steps.observed(work, work.target, run.step.value)
            run.unchanged = True
            return True
        plan = planned(asked, seen)
        for finding in plan.findings:
            run.told.line(finding.node or "all", run.step.value, f"{finding.severity}: {finding.message}")
        problems = plan.problems()
        if problems:
            raise Refused(problems)
    return False


def is_left(asked: Asked) -> bool:
    """Say whether what runs already, as it should, is left as it is: nobody asked for more than that it runs."""
    return not asked.only_ahead and asked.adopt is None and Consent.REPLACE not in asked.consents


def is_served(target: Target, situation: Situation | None) -> bool:
    """Say whether all nodes run the very launch already: what its files say is in its digest."""
    if situation is None or situation.kind is not Kind.SERVING or situation.served is None:
        return False
    return situation.served.launch_bundle == target.served.launch_bundle


def _tell_taken(run: _Run, name: str, taken: Taken) -> None:
    before = "" if taken.former is None else f", after {taken.former.owner.words()}: {taken.why}"
    run.told.line(name, Step.LEASE.value, f"done{before}")


def _record_cut_off(run: _Run, work: Work) -> None:
    """Record the deploy before this one where it was killed, before its traces on the nodes are written over."""
    asked = run.order.asked
    if work.former is None:
        return
    lost = cut_off(work.former, asked.history, service=work.service, site=site_digest(asked.site.site))
    if lost is not None:
        _recorded(run, lost)


def _recorded(run: _Run, deployed: Deployed) -> Path | None:
    """Record a deploy; a record that cannot be written is told, and changes nothing."""
    try:
        return run.means.kept.add_deploy(deployed)
    except DeriveError as trouble:
        run.told.line("all", Step.RECORD.value, f"a deploy could not be recorded: {trouble.message}")
        return None


class _Timed:
    """A step: tells that it begins and how long it took, and notes that."""

    def __init__(self, run: _Run, step: Step) -> None:
        self._run, self._step, self._began_ns = run, step, 0

    async def __aenter__(self) -> None:
        run = self._run
        run.step = self._step
        if run.held is not None:
            run.held.check()
        run.told.line("all", self._step.value, "begins")
        self._began_ns = run.means.clock()

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        took = self._run.means.clock() - self._began_ns
        self._run.took.append(StepTook(step=self._step, duration_ns=took))
        if error is None:
            self._run.told.line("all", self._step.value, f"done in {duration_text(took)}")


async def _back(run: _Run, work: Work, error: DeriveError) -> Ended:
    """Keep what tells why, and go back; returns how that ended."""
    run.going_back = True
    run.told.line("all", run.step.value, f"failed: {error.message}")
    kept: list[Path | None] = [None]
    found: list[Back] = []

    async def both() -> None:
        if changes_machines(run.step):
            kept[0] = await kept_evidence.keep(work, run.step.value)
        found.append(await undo.go_back(work, run.step))

    trouble = await _outcome(run, both())
    back = found[0] if found else undo.Back(to=None, errors={"": trouble or DeriveError("going back did not end")})
    is_whole = back.is_whole and trouble is None
    word: Outcome = "failed" if not is_whole else "interrupted" if isinstance(error, Interrupted) else "rolled-back"
    return _ended(run, word, error, back=back, evidence=kept[0])


def _is_fenced(error: DeriveError) -> bool:
    errors = getattr(error, "errors", (error,))
    return any(isinstance(one, Fenced) for one in errors)


def _ended(
    run: _Run, word: Outcome, error: DeriveError | None, *, back: Back | None = None, evidence: Path | None = None
) -> Ended:
    """Record how it ended, where anything was done."""
    target = run.order.asked.target
    former = None if run.work is None or run.work.former is None else run.work.former
    deployed = Deployed(
        served=target.served,
        service=target.service,
        site=site_digest(run.order.asked.site.site),
        nodes={name: run.ids.get(name) for name in run.reach.names},
        steps=tuple(run.took),
        outcome=word,
        why=None if error is None else f"{run.step.value}: {error.message}",
        former=None if former is None or not former.starts else former.served,
        by=run.means.by,
        at_s=run.means.now_s(),
        moved_bytes=run.moved,
    )
    record = None
    if run.work is not None and not run.order.only_ahead and not run.unchanged:
        record = _recorded(run, deployed)
    failure = None
    if error is not None:
        failure = failure_of(
            error, run.step, back, evidence, went=run.work is not None, following=_following(run, back)
        )
    return Ended(deployed=deployed, error=failure, back=back, evidence=evidence, record=record, unchanged=run.unchanged)


def _following(run: _Run, back: Back | None) -> str:
    """Return the one command that comes next where not all is as it was."""
    again = run.order.asked.again
    if back is None or not back.left:
        return f"see what the nodes run: {again.command('derive status')}"
    lost = [
        name for name in back.left if isinstance(back.errors.get(name), NodeUnreachable | ConnectionLost | NodeSlow)
    ]
    once = f"once {' and '.join(lost)} can be reached: " if lost else ""
    to, target = back.to, run.order.asked.target
    if to is None:
        return once + again.command(f"derive stop {target.service} --apply")
    options = {one.value for one in run.order.asked.consents} | {Consent.REPLACE.value}
    if to.shape != target.served.shape:
        options.add(Consent.CHANGE_SHAPE.value)
    # What was to be adopted ran beside the former release, or in its place: that is not to go again.
    return once + again.deploy(to, options)
