# SPDX-License-Identifier: Apache-2.0
"""Watches a service: one rank's death stops all ranks, is written down, and is followed by a restart within a budget.

Edge: the nodes, the clocks, the operator's folder. What is judged is judged by core modules.

Collectives leave no rank of use without the others, and one that waits for a dead one may wait for ever. A restart is
a start like that of a deploy: guards first, readiness by progress, observed as the bundle says; what fails counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from derive.deploy import arming, engines, evidence, preflight, steps
from derive.deploy.again import PLAIN, Again
from derive.deploy.died import who_died
from derive.deploy.effects import new_nonce, read_state, renew_lease, this_process
from derive.deploy.former import Former
from derive.deploy.held import hold
from derive.deploy.incident import Death, Incident
from derive.deploy.interrupts import GIVE_UP, interrupts
from derive.deploy.ledger import Ledger
from derive.deploy.look import lookout
from derive.deploy.model import Step
from derive.deploy.node_errors import Fenced, NodeError, SeveralNodes
from derive.deploy.reach import reach
from derive.deploy.recovery_known import FAILED, SUPERVISED
from derive.deploy.seeing import look
from derive.deploy.told import Told
from derive.deploy.watched import RESTART, Died, Paused, decide, died_lines, judge
from derive.deploy.work import Work
from derive.errors import CheckFailed, DeriveError, Interrupted, expected_got

if TYPE_CHECKING:
    from pathlib import Path

    from derive.canonical import Json
    from derive.deploy.effects import StateSeen
    from derive.deploy.incident import Budget
    from derive.deploy.lease import Taken
    from derive.deploy.look import Lookout
    from derive.deploy.model import Served, Target
    from derive.deploy.remote import Node
    from derive.deploy.ssh_config import SshSettings
    from derive.deploy.watched import Verdict
    from derive.deploy.work import Means
    from derive.fabric.rule import SiteInput
    from derive.fabric.site import Site

SILENT_S = 60
"""How long a node may not answer before it counts as dead."""
_TRIES, _PAUSE_S = 3, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is watched, how often (``interval_s``), and what a restart is made with.

    ``aim`` renders the release that serves; ``say`` is told lines for people; ``again`` is what commands repeat.
    """

    site: SiteInput
    settings: SshSettings
    service: str
    budget: Budget
    interval_s: float
    means: Means
    say: Callable[[str], None]
    aim: Callable[[Served], Target]
    again: Again = PLAIN


@dataclass(frozen=True, slots=True)
class _Decided:
    decided: str
    why: str
    spent: int


async def watch(given: Watch) -> None:
    """Watch until the budget is spent, or a restart cannot be.

    Raises:
        CheckFailed: then, with who died first and of what.
    """
    ledger = Ledger(given.means.kept, given.service, given.say)
    ledger.read()
    async with lookout(given.site.site, given.settings) as nodes:
        said, target = "", None
        while True:
            verdict = await _look(given, nodes)
            if isinstance(verdict, Died):
                # Seen twice: between two answers of a node, a deploy may have begun or ended.
                verdict = await _look(given, nodes)
            if not isinstance(verdict, Paused) and (target is None or target.served != verdict.served):
                target = await asyncio.to_thread(_aimed, given, verdict.served)
            if isinstance(verdict, Died) and target is not None:
                text = await _ended(given, nodes, verdict, target, ledger)
            else:
                text = verdict.text
            if text != said:
                given.say(f"{given.service}: {text}")
                said = text
            await asyncio.sleep(given.interval_s)


async def _look(given: Watch, nodes: Lookout) -> Verdict:
    seen = await nodes.look(given.service)
    return judge(given.service, seen, now_ns=time.time_ns(), silent_ns=SILENT_S * 10**9)


def _aimed(given: Watch, served: Served) -> Target:
    """Render what serves, while it does: what would be started again must be what was deployed.

    Raises:
        CheckFailed: when the site, or what renders, is another than it was then.
    """
    target = given.aim(served)
    if target.served.launch_bundle != served.launch_bundle:
        detail = expected_got(served.launch_bundle, target.served.launch_bundle)
        hint = f"deploy it as it is now: {given.again.deploy(served, ('--replace',))}"
        raise CheckFailed(f"{served.release} renders to another launch than was deployed", detail=detail, hint=hint)
    return target


async def _ended(given: Watch, nodes: Lookout, died: Died, target: Target, ledger: Ledger) -> str:
    """Stop all ranks, write the incident down, and start again or raise."""
    found = await who_died(nodes, given.service, died.deaths)
    if not found:
        return "every rank that answers lives again"
    under_way: list[asyncio.Task[None]] = []

    def cut(count: int) -> None:
        # The first cuts short what is done, the last also the stop that follows.
        if under_way and count in (1, GIVE_UP):
            under_way[-1].cancel()

    try:
        async with _at_work(given, target, {one.node for one in found if one.kind == "lost"}, lambda: cut(1)) as work:
            for line in died_lines(found, {node.name: node.rank for node in given.site.site.nodes}):
                given.say(f"{given.service}: {line}")
            under_way.append(asyncio.create_task(_settle(given, work, found, ledger)))
            with interrupts(cut):
                await _settled(given, under_way, work)
    except (NodeError, SeveralNodes) as error:
        # Somebody else is at work, or a node was lost just now: what follows is seen at the next looks.
        return f"left as it is for now: {error.problems()[0].message}"
    return f"{died.served.release} serves again"


async def _settled(given: Watch, under_way: list[asyncio.Task[None]], work: Work) -> None:
    """Wait for it; cut short by Ctrl-C or a lease that ran out, all ranks are stopped, and remembered to be."""
    try:
        await under_way[0]
    except asyncio.CancelledError:
        if work.held.is_another:
            work.held.check()
    else:
        return
    lost, hint = work.held.lost, f"see what to do: {given.again.command('derive status')}"
    why = "interrupted" if lost is None else lost.message
    given.say(f"{given.service}: {why}: all ranks are stopped; the third Ctrl-C gives that up")
    under_way.append(asyncio.create_task(_stop_for_good(work)))
    try:
        await under_way[1]
    except asyncio.CancelledError:
        if work.held.is_another:
            work.held.check()
        raise Interrupted(f"{why}: ranks may still run", hint=hint) from None
    if lost is not None:
        raise CheckFailed(f"{given.service} is stopped: {why}", detail=lost.detail, hint=hint)
    raise Interrupted("interrupted: all ranks are stopped", hint=hint)


async def _stop_for_good(work: Work) -> None:
    await _stop(work)
    await _give_up(work)


async def _settle(given: Watch, work: Work, found: tuple[Death, ...], ledger: Ledger) -> None:
    """Decide, restart, and decide again for as long as a restart fails and the budget lasts."""
    stopped = await _stop(work)
    while True:
        logs = await evidence.keep(work, "incident")
        findings = () if any(one.kind == "lost" for one in found) else await _findings_that_stay(given, work)
        spent = given.budget.spent(ledger.bodies(), given.service, given.means.now_s())
        decided, why = decide(found, given.budget, spent, findings)
        incident = _incident(given, work, found, _Decided(decided, why, spent), stopped, logs)
        given.say(f"{given.service}: {why}; {ledger.add(incident.body())}")
        if decided != RESTART:
            await _give_up(work)
            raise _spent(given, found, why, logs)
        failure = await _restarted(given, work, ledger)
        if failure is None:
            return
        if _is_fenced(failure):
            # Another has the nodes now: nothing may be done to them any more, and no start of ours has failed.
            raise failure
        found = (_failed_start(failure, work),)
        stopped = await _stop(work)


async def _restarted(given: Watch, work: Work, ledger: Ledger) -> DeriveError | None:
    """Bring the release up by the steps of a deploy; returns what failed."""
    began = given.means.clock()
    try:
        await steps.stage(work)
        await steps.activate(work, work.target, Step.ACTIVATE.value)
        await steps.arm(work, work.target, Step.ARM.value)
        await steps.start(work, work.target, Step.START.value)
        await steps.ready(work, work.target, Step.READY.value)
        await steps.steady(work, work.target, Step.STEADY.value)
        ids = await steps.observe(work, work.target, Step.OBSERVE.value)
        await steps.confirm(work, work.target, Step.RECORD.value)
    except DeriveError as error:
        given.say(f"{given.service}: it did not start: {error.message}")
        return error
    body: dict[str, Json] = {"event": "restarted", "service": given.service, "at_s": given.means.now_s()}
    body |= {"nodes": dict(ids), "took_ns": given.means.clock() - began}
    ledger.add(body)
    return None


async def _stop(work: Work) -> dict[str, str | None]:
    """Stop every rank that can be reached; returns what went wrong, by node."""
    seconds = steps.launch_of(work.target, 0).container.stop_seconds

    async def one(node: Node) -> str:
        forgets = await _mark_stopping(work, node)
        await arming.stop(node, work.service, fence=work.held.fence, seconds=seconds)
        if any(steps.is_of_a_deploy(one) for one in await node.ask(engines.containers, [work.service])):
            # One that somebody started past its unit has the name all the same, and nothing guards it.
            await renew_lease(node, work.held.fence)
            await node.ask(engines.stop, work.service, seconds)
        if forgets is not None:
            raise forgets
        return ""

    answers = await work.tried(Step.STOP.value, one)
    return {name: answer.message if isinstance(answer, DeriveError) else None for name, answer in answers.items()}


async def _mark_stopping(work: Work, node: Node) -> DeriveError | None:
    """Let a node remember that it is stopped; returns why it cannot: a full disk keeps no rank from being stopped."""
    served = work.target.served
    state = work.state(Step.STOP.value, wanted=served, current=served, healthy=work.healthy_of(node.name))
    try:
        await work.write(node, state)
    except Fenced:
        raise
    except DeriveError as error:
        return error
    return None


async def _give_up(work: Work) -> None:
    """Let every node remember that what was to serve does not."""

    async def one(node: Node) -> str:
        served = work.target.served
        await work.write(node, work.state(FAILED, wanted=served, current=served, healthy=work.healthy_of(node.name)))
        return "stopped"

    await work.tried(FAILED, one)


async def _findings_that_stay(given: Watch, work: Work) -> tuple[str, ...]:
    """Return what stands against a start after a while, too: what was killed gives its memory back by and by."""
    for _ in range(_TRIES - 1):
        if not await _findings(given, work):
            return ()
        await asyncio.sleep(_PAUSE_S)
    return await _findings(given, work)


async def _findings(given: Watch, work: Work) -> tuple[str, ...]:
    """Return what stands against a start: the machines are asked and judged as before a deploy."""
    try:
        looked = await look(work.reach, work.target, given.means.kept, given.means.now_s(), own=work.held.fence.nonce)
    except DeriveError as error:
        return (error.message,)
    seen = looked.seen
    found = preflight.judge(work.target, given.site, seen.machines, seen.containers, ())
    errors = [f"{one.node}: {one.message}" if one.node else one.message for one in found if one.severity == "error"]
    return (*(f"{name}: {error.message}" for name, error in looked.failed.items()), *errors)


@asynccontextmanager
async def _at_work(given: Watch, target: Target, lost: set[str], on_lost: Callable[[], None]) -> AsyncIterator[Work]:
    """Hold the leases of all nodes that can be reached, and yield what is needed to stop and start there.

    ``on_lost`` is called when a lease is lost.

    Raises:
        LeaseHeld: when somebody else is at work.
    """
    site = given.site.site
    there = replace(site, nodes=tuple(node for node in site.nodes if node.name not in lost))
    told = Told.to(given.say, given.means.clock, [node.name for node in site.nodes])
    owner = this_process(f"derive supervise {given.service}")
    async with reach(there) as nodes, hold(nodes, site.folder, owner, _taken, on_lost) as held:
        states = {name: seen.state for name, seen in (await nodes.all_of(_state_of(given, site))).items()}
        yield Work(
            deploy=f"{SUPERVISED}{new_nonce()[:12]}",
            target=target,
            reach=nodes,
            held=held,
            told=told,
            means=given.means,
            former=Former(served=target.served, was_running=True, states=states),
        )


def _taken(_name: str, _lease: Taken) -> None:
    """Hear of a lease that was taken: nobody is told."""


def _state_of(given: Watch, site: Site) -> Callable[[Node], Awaitable[StateSeen]]:
    async def of(node: Node) -> StateSeen:
        return await read_state(node, site.folder, given.service)

    return of


def _incident(
    given: Watch,
    work: Work,
    found: tuple[Death, ...],
    ended: _Decided,
    stopped: Mapping[str, str | None],
    logs: Path | None,
) -> Incident:
    return Incident(
        service=given.service,
        served=work.target.served,
        deaths=found,
        at_s=given.means.now_s(),
        decided=ended.decided,
        why=ended.why,
        restarts=ended.spent,
        budget=given.budget,
        stopped=stopped,
        logs=None if logs is None else str(logs),
    )


def _failed_start(error: DeriveError, work: Work) -> Death:
    """Return a start that failed as a death: of the rank that it failed on, else of the head."""
    name = getattr(error, "node", None) or work.reach.names[0]
    problem = error.problems()[0]
    why = f"it did not start again: {problem.message}"
    return Death(node=name, rank=work.rank_of(name), kind="start", why=why, at_ns=time.time_ns(), container=None)


def _is_fenced(error: DeriveError) -> bool:
    return any(isinstance(one, Fenced) for one in getattr(error, "errors", (error,)))


def _spent(given: Watch, found: tuple[Death, ...], why: str, logs: Path | None) -> CheckFailed:
    names = {node.name: node.rank for node in given.site.site.nodes}
    detail = [*died_lines(found, names), *([] if logs is None else [f"logs: {logs}"])]
    logs_of = given.again.command(f"derive logs {found[0].node} --former")
    hint = f"read why: {logs_of}; then see what to do: {given.again.command('derive status')}"
    return CheckFailed(f"{given.service} is stopped: {why}", detail=detail, hint=hint)
