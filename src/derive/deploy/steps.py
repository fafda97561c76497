# SPDX-License-Identifier: Apache-2.0
"""The steps that change nodes, one function each: those of a deploy, and again those of going back.

Edge: the nodes and their engines. Every function raises what failed on any node, all together, and may be repeated.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from derive.deploy import arming, engines
from derive.deploy.effects import prune, put_tree, renew_lease
from derive.deploy.guard import take_guard
from derive.deploy.machine import unheld_by
from derive.deploy.model import Step
from derive.deploy.observe import drift
from derive.deploy.room import put_aside
from derive.deploy.starting import await_ready
from derive.deploy.work import HEALTHY, with_newest
from derive.errors import CheckFailed
from derive.render.plan import LAUNCH_BUNDLE_LABEL
from derive.words import count_text, size_text

if TYPE_CHECKING:
    from derive.canonical import Digest
    from derive.deploy.guard import GuardFile
    from derive.deploy.model import Container, Served, Target
    from derive.deploy.remote import Node
    from derive.deploy.work import Work
    from derive.render.launch import Launch

SERVING = "serving"
"""The step of a state that a deploy left when all was well."""
_STOP_MARGIN_S = 10


async def guard_of(work: Work, target: Target) -> GuardFile | None:
    """Return the guard out of a target's image; None where its recipe has none.

    Raises:
        Missing: when the store has the image no more, or it has no guard.
    """
    image = target.served.image
    if not any(launch.guard for launch in target.bundle.launches):
        return None
    if image not in work.guards:
        work.guards[image] = await asyncio.to_thread(_taken, work, image)
    return work.guards[image]


def _taken(work: Work, image: Digest) -> GuardFile:
    from derive.store.local import LocalStore

    with LocalStore(work.means.store, reading=True) as store:
        return take_guard(store, image, work.means.image_facts.get(image))


async def stage(work: Work, target: Target | None = None, step: str = Step.STAGE.value) -> None:
    """Put launch files and guard on every node, beside what is in use: those of the work's target if none is named."""
    wanted = target or work.target
    guard = await guard_of(work, wanted)

    async def one(node: Node) -> str:
        files = wanted.bundle.node(node.name)
        put = await put_tree(node, work.held.fence, work.service, wanted.served.launch_bundle, files)
        await arming.stage_guard(node, wanted, guard, fence=work.held.fence)
        said = "there already" if put.kept else size_text(put.bytes_moved)
        return f"{count_text(len(files), 'file')}, {said}"

    await work.on_all(step, one)


async def stop(work: Work) -> None:
    """Stop what runs under the service's name, guards last, and put aside what else is in the way."""
    others = () if work.former is None else work.former.others
    seconds = launch_of(work.target, 0).container.stop_seconds

    async def one(node: Node) -> str:
        await _mark(work, node, Step.STOP.value, work.target.served, work.current_of(node.name))
        await arming.stop(node, work.service, fence=work.held.fence, seconds=seconds)
        said = [await put_aside(work, node, other) for other in others if other.node == node.name]
        if await _stop_stray(work, node, seconds):
            said.append("a container that its unit did not start was stopped")
        return ", ".join(said)

    await work.on_all(Step.STOP.value, one)


async def _stop_stray(work: Work, node: Node, seconds: int) -> bool:
    """Stop a container of ours that somebody started past its unit, and which has the name all the same."""
    found = await node.ask(engines.containers, [work.service])
    if not any(is_of_a_deploy(one) for one in found):
        return False
    await renew_lease(node, work.held.fence)
    return await node.ask(engines.stop, work.service, seconds)


def is_of_a_deploy(container: Container) -> bool:
    """Say whether a container was started from launch files, by whomever."""
    return LAUNCH_BUNDLE_LABEL in container.labels


async def activate(work: Work, target: Target, step: str) -> None:
    """Let every node's link lead to the launch."""

    async def one(node: Node) -> str:
        state = work.state(
            _remembered(step), wanted=target.served, current=target.served, healthy=work.healthy_of(node.name)
        )
        await work.lead_to(node, target.served, state)
        return target.served.launch_bundle.short

    await work.on_all(step, one)


async def arm(work: Work, target: Target, step: str) -> None:
    """Have a guard at work on every node; where there is none, no container starts."""
    guard = await guard_of(work, target)

    async def one(node: Node) -> str:
        await _mark(work, node, step, target.served, target.served)
        await _arm(work, node, target, guard)
        return "guard at work" if launch_of(target, node.rank).guard else "the recipe has no guard"

    await work.on_all(step, one)


async def _arm(work: Work, node: Node, target: Target, guard: GuardFile | None) -> None:
    await arming.arm(node, target, guard, fence=work.held.fence)
    work.armed_ns[node.name] = work.means.clock()


def _waits_long(work: Work, node: Node, target: Target) -> bool:
    """Say whether a node's guard has waited so long for its container that it may soon give up: others came first."""
    waits = [phase.wait_seconds for phase in launch_of(target, node.rank).guard if phase.phase == "startup"]
    waited_ns = work.means.clock() - work.armed_ns.get(node.name, 0)
    return any(waited_ns * 2 > seconds * 10**9 for seconds in waits)


async def start(work: Work, target: Target, step: str) -> None:
    """Start the workers by rank, then the head, one after another; each below a guard that has not waited long."""
    guard = await guard_of(work, target)

    async def one(node: Node) -> str:
        if _waits_long(work, node, target):
            await _arm(work, node, target, guard)
        await arming.start(node, target, fence=work.held.fence)
        return ""

    await mark_all(work, step, target.served)
    for name in (*work.reach.names[1:], work.reach.names[0]):
        await work.on_all(step, one, [name], tell_begin=True)


async def ready(work: Work, target: Target, step: str) -> None:
    """Wait until the service answers, with every rank and guard alive."""
    await mark_all(work, step, target.served)
    work.say(step, await await_ready(work, target, step))


async def steady(work: Work, target: Target, step: str) -> None:
    """Hand over to the steady guards."""

    async def one(node: Node) -> str:
        await _mark(work, node, step, target.served, target.served)
        await arming.steady(node, target, fence=work.held.fence)
        return ""

    await work.on_all(step, one)


async def observe(work: Work, target: Target, step: str) -> dict[str, str]:
    """Require every container to be what its launch says, and every guard to live; returns the containers' ids.

    Raises:
        CheckFailed: with every difference.
    """
    ids: dict[str, str] = {}

    async def one(node: Node) -> str:
        await _mark(work, node, step, target.served, target.served)
        ids[node.name] = await _observed(node, launch_of(target, node.rank))
        return f"as the bundle says: {ids[node.name][:12]}"

    await work.on_all(step, one)
    return ids


async def observed(work: Work, target: Target, step: str) -> dict[str, str]:
    """Require the same as :func:`observe`, and write nothing."""
    ids: dict[str, str] = {}

    async def one(node: Node) -> str:
        ids[node.name] = await _observed(node, launch_of(target, node.rank), "to start it anew: --replace")
        return f"runs it already: {ids[node.name][:12]}"

    await work.on_all(step, one)
    return ids


async def _observed(node: Node, launch: Launch, hint: str | None = None) -> str:
    found = await node.ask(engines.containers, [launch.name])
    container = found[0] if found else None
    known = await node.ask(engines.image_ids, launch.reference)
    unheld = unheld_by(await node.ask(engines.engine_facts))
    differences = drift(launch, container, {launch.image, *known}, unheld=unheld)
    guards = {one.phase for one in await arming.seen(node, launch.name) if one.alive}
    dead = [phase.phase for phase in launch.guard if phase.phase == "steady" and phase.phase not in guards]
    if differences or dead or container is None:
        detail = [f"{one.field}: expected {one.expected}, got {one.got}" for one in differences]
        detail += [f"the {phase} guard is not at work" for phase in dead]
        raise CheckFailed(f"{launch.name} does not run as its bundle says", where=node.name, detail=detail, hint=hint)
    return container.id


async def confirm(work: Work, target: Target, step: str) -> None:
    """Let every node remember that this is healthy, and forget launches of long ago."""
    served = target.served

    async def one(node: Node) -> str:
        healthy = with_newest(served, work.healthy_of(node.name))
        await work.write(node, work.state(SERVING, wanted=served, current=served, healthy=healthy))
        await prune(node, work.held.fence, work.service, keep=HEALTHY, named=[one.launch_bundle for one in healthy])
        return "serving"

    await work.on_all(step, one)


async def take_down(work: Work, node: Node) -> str:
    """Stop and remove what was started on a node, guards last, whatever of it there is; nobody else's is touched."""
    seconds = launch_of(work.target, 0).container.stop_seconds
    await arming.stop(node, work.service, fence=work.held.fence, seconds=seconds)
    found = await node.ask(engines.containers, [work.service])
    if not any(is_of_a_deploy(one) for one in found):
        return "no container"
    await renew_lease(node, work.held.fence)  # an engine asks for no lease, and what is there may be a successor's
    await node.ask(engines.remove, work.service, force=True)
    return "container stopped and removed"


async def mark_all(work: Work, step: str, served: Served) -> None:
    """Let every node remember how far this is with what its link leads to."""

    async def one(node: Node) -> None:
        await _mark(work, node, step, served, served)

    await work.reach.all_of(one)


async def _mark(work: Work, node: Node, step: str, wanted: Served, current: Served | None) -> None:
    healthy = work.healthy_of(node.name)
    await work.write(node, work.state(_remembered(step), wanted=wanted, current=current, healthy=healthy))


def _remembered(step: str) -> str:
    """Return what a node remembers of a step: of going back no more than that."""
    return step.partition(" ")[0]


def launch_of(target: Target, rank: int) -> Launch:
    """Return what a rank is told."""
    return target.bundle.launches[rank]
