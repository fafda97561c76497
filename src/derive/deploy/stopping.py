# SPDX-License-Identifier: Apache-2.0
"""Stops a service on all nodes, or a container that no deploy started: guards of ours last, guards of old names first.

Edge: the site's file, the nodes and their engines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, TypeVar

from derive.deploy import arming, engines
from derive.deploy.consents import NEVER, is_aside, restart_policy
from derive.deploy.effects import read_state, read_states, renew_lease, this_process, write_state
from derive.deploy.former import STOPPED, launches_of, mended
from derive.deploy.held import hold
from derive.deploy.model import NodeState
from derive.deploy.node_errors import ConnectionLost, EffectFailed, NodeSlow, together
from derive.deploy.reach import reach
from derive.deploy.room import STOP_S, stop_guard
from derive.deploy.service import site_of
from derive.deploy.services import only_one
from derive.deploy.situation import UP
from derive.deploy.steps import is_of_a_deploy
from derive.deploy.told import Told
from derive.errors import DeriveError, InputErrors
from derive.render.plan import LAUNCH_BUNDLE_LABEL

if TYPE_CHECKING:
    from derive.canonical import Json
    from derive.deploy.held import Held
    from derive.deploy.lease import Owner, Taken
    from derive.deploy.model import Container
    from derive.deploy.reach import Reach
    from derive.deploy.remote import Node

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """What is to be stopped: a service, None for the only one, or a container by name. ``what`` is the command."""

    service: str | None
    container: str | None
    what: str
    apply: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What was found, and what was done: by node, in order of rank, what ran and what is so now.

    ``unreachable`` are the nodes that could not be asked, or not be stopped, with why: what they run is not known.
    """

    name: str
    ran: Mapping[str, str]
    now: Mapping[str, str]
    unreachable: Mapping[str, DeriveError]

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield a row for each node."""
        for node, text in self.ran.items():
            yield node, text, self.now.get(node, "not known" if node in self.unreachable else "as it was")
        for node in self.unreachable:
            if node not in self.ran:
                yield node, "not to be asked", "not known"

    def body(self) -> dict[str, Json]:
        """Return it as the body of a record."""
        nodes: list[Json] = [{"node": node, "ran": ran, "now": self.now.get(node)} for node, ran in self.ran.items()]
        return {"nodes": nodes, "unreachable": {node: one.message for node, one in self.unreachable.items()}}


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a node has: all of its containers by name, and the services that it remembers."""

    containers: Mapping[str, Container]
    services: Collection[str]


async def stop(environ: Mapping[str, str], site: str | None, wanted: Stopping, say: Callable[[str], None]) -> Stopped:
    """Stop it on every node that can be asked, or only say what runs; a node that cannot keeps none from being stopped.

    Raises:
        DeriveError: no node can be asked, or none be stopped.
        InputErrors: when there is no such service, or several of which none is named.
        LeaseHeld: when somebody deploys.
    """
    place = site_of(environ, site)
    told = Told.to(say, time.monotonic_ns, (node.name for node in place.nodes))
    async with reach(place, require_all=False) as reached, AsyncExitStack() as stack:
        lost = dict(reached.unreachable)
        reached.leave_out_unreachable()
        seen = _answered(reached, await reached.each(lambda node: _look(node, place.folder, wanted)), lost)
        name = wanted.container or only_one(wanted.service, _services(seen), nothing=_NOTHING)
        ran = {node: _text(one.containers.get(name)) for node, one in seen.items()}
        if wanted.container is not None and not any(name in one.containers for one in seen.values()):
            raise InputErrors.one(f"no node has a container {name!r}", hint="on a node: docker ps --all")
        if not wanted.apply:
            return Stopped(name=name, ran=ran, now={}, unreachable=lost)
        held = await _leases(stack, reached, this_process(wanted.what), told, lost)
        memory = None if wanted.container is not None else await _memory(reached, name, seen)

        async def one(node: Node) -> str:
            told.line(node.name, "stop", "begins")
            text = await _stop(node, held, name, memory)
            told.line(node.name, "stop", f"done: {text}")
            return text

        now = _answered(reached, await reached.each(one), lost)
        return Stopped(name=name, ran=ran, now=now, unreachable=lost)


_NOTHING = "for a container that no deploy started: --container NAME"


def _answered(reached: Reach, answers: Mapping[str, T | DeriveError], lost: dict[str, DeriveError]) -> dict[str, T]:
    """Return the answers, and go on without the nodes that gave none: raises their errors where none did."""
    lost |= {name: one for name, one in answers.items() if isinstance(one, DeriveError)}
    found = {name: one for name, one in answers.items() if not isinstance(one, DeriveError)}
    if not found:
        raise together(tuple(lost.values()))
    reached.names = tuple(name for name in reached.names if name in found)
    return found


async def _look(node: Node, folder: str, wanted: Stopping) -> _Seen:
    found = {one.name: one for one in await node.ask(engines.containers)}
    return _Seen(found, () if wanted.container is not None else tuple(await read_states(node, folder)))


def _services(seen: Mapping[str, _Seen]) -> list[str]:
    """Return the services that any node remembers, or runs though it remembers nothing."""
    run = [one for node in seen.values() for one in node.containers.values() if is_of_a_deploy(one)]
    kept = {one.name for one in run if not is_aside(one.name)}
    return sorted({service for node in seen.values() for service in node.services} | kept)


async def _leases(
    stack: AsyncExitStack, reached: Reach, owner: Owner, told: Told, lost: dict[str, DeriveError]
) -> Held:
    """Hold the leases of all nodes that can give one; raises LeaseHeld when somebody else is at work on any."""

    def taken(node: str, lease: Taken) -> None:
        told.line(node, "lease", "done" if lease.why is None else f"done: {lease.why}")

    while True:
        try:
            return await stack.enter_async_context(hold(reached, reached.site.folder, owner, taken, lambda: None))
        except DeriveError as error:
            errors: tuple[DeriveError, ...] = getattr(error, "errors", (error,))
            names = {one.node: one for one in errors if isinstance(one, EffectFailed | ConnectionLost | NodeSlow)}
            if len(names) < len(errors):
                raise  # somebody else is at work, above all
            for name, one in names.items():
                told.line(name, "lease", f"failed: {one.message}")
            _answered(reached, {name: names.get(name) or "" for name in reached.names}, lost)


async def _memory(reached: Reach, name: str, seen: Mapping[str, _Seen]) -> dict[str, NodeState | None]:
    """Return what each node is to remember; of one that forgot, what the others know of it."""
    answers = await reached.each(lambda node: read_state(node, reached.site.folder, name))
    states = {node: one for node, one in answers.items() if not isinstance(one, DeriveError)}
    ran = {node: launches_of(tuple(one.containers.values()), name) for node, one in seen.items()}
    return mended(
        {node: one.state for node, one in states.items()},
        {node: {*one.launches, *ran.get(node, ())} for node, one in states.items()},
        {node: one.link for node, one in states.items()},
    )


def _text(container: Container | None) -> str:
    """Name what a container runs by the launch that it was started from."""
    if container is None:
        return "no container"
    launch = container.labels.get(LAUNCH_BUNDLE_LABEL, "").rpartition(":")[2][:12]
    goes = ", removed by its engine once it ends (--rm)" if container.host.get("AutoRemove") is True else ""
    return f"{launch or 'what no deploy started'}, {container.state}{goes}"


async def _stop(node: Node, held: Held, name: str, memory: Mapping[str, NodeState | None] | None) -> str:
    """Stop a service, whose ``memory`` by node is given, or a container, of which nobody remembers anything."""
    if memory is None:
        return await _stop_container(node, held, name)
    await arming.stop(node, name, fence=held.fence, seconds=STOP_S)
    found = await node.ask(engines.containers, [name])
    if any(is_of_a_deploy(one) for one in found):
        await renew_lease(node, held.fence)
        await node.ask(engines.stop, name, STOP_S)
    await write_state(node, held.fence, _stopped(name, memory.get(node.name)))
    if any(one.state in UP and not is_of_a_deploy(one) for one in found):
        return f"stopped; one of that name that no deploy started runs on: --container {name}"
    return "stopped"


async def _stop_container(node: Node, held: Held, name: str) -> str:
    guard = await stop_guard(node, held.fence, f"{name}-memguard.service")
    found = await node.ask(engines.containers, [name])
    policy = restart_policy(found[0]) if found else NEVER
    if is_aside(name) and policy != NEVER:
        await node.ask(engines.set_restart, name, NEVER)
    was_running = await node.ask(engines.stop, name, STOP_S)
    text = f"{guard}{'stopped' if was_running else 'was stopped already'}"
    if policy == "always" and not is_aside(name):
        # An engine starts such a one again when the machine is up again, and its guard may be no more.
        text += f"; it starts again with its engine: docker update --restart=no {name}"
    return text


def _stopped(name: str, before: NodeState | None) -> NodeState:
    """Return what a node is to remember of a service that somebody stopped: what it had, it keeps."""
    return NodeState(
        service=name,
        deploy=f"stop-{token_hex(3)}",
        step=STOPPED,
        wanted=None if before is None else before.current,
        current=None if before is None else before.current,
        healthy=() if before is None else before.healthy,
        at_s=int(time.time()),
    )
