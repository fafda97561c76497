# SPDX-License-Identifier: Apache-2.0
"""Stops a service on all nodes, or a container that no deploy started: guards of ours last, guards of old names first.

Edge: the site's file, the nodes and their engines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING

from derive.deploy import arming, engines
from derive.deploy.effects import StateSeen, read_state, read_states, this_process, write_state
from derive.deploy.former import STOPPED
from derive.deploy.held import hold
from derive.deploy.model import NodeState
from derive.deploy.reach import reach
from derive.deploy.room import STOP_S, stop_guard
from derive.deploy.service import site_of
from derive.deploy.situation import UP
from derive.deploy.steps import is_of_a_deploy
from derive.deploy.told import Told
from derive.errors import DeriveError, InputErrors
from derive.render.plan import LAUNCH_BUNDLE_LABEL
from derive.words import near

if TYPE_CHECKING:
    from derive.canonical import Json
    from derive.deploy.held import Held
    from derive.deploy.lease import Taken
    from derive.deploy.model import Container
    from derive.deploy.reach import Reach
    from derive.deploy.remote import Node


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

    ``unreachable`` are the nodes that could not be asked, with why: what they run is not known.
    """

    name: str
    ran: Mapping[str, str]
    now: Mapping[str, str]
    unreachable: Mapping[str, DeriveError]

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield a row for each node."""
        for node, text in self.ran.items():
            yield node, text, self.now.get(node, "as it was")
        for node in self.unreachable:
            yield node, "not to be asked", "not known"

    def body(self) -> dict[str, Json]:
        """Return it as the body of a record."""
        nodes: list[Json] = [{"node": node, "ran": ran, "now": self.now.get(node)} for node, ran in self.ran.items()]
        return {"nodes": nodes, "unreachable": {node: one.message for node, one in self.unreachable.items()}}


async def stop(environ: Mapping[str, str], site: str | None, wanted: Stopping, say: Callable[[str], None]) -> Stopped:
    """Stop it on every node that can be reached, or only say what runs.

    Raises:
        DeriveError: what failed on any node, all together, after all were tried; or no node can be reached.
        InputErrors: when there is no such service, or several of which none is named.
        LeaseHeld: when somebody deploys.
    """
    place = site_of(environ, site)
    told = Told.to(say, time.monotonic_ns, (node.name for node in place.nodes))
    async with reach(place, require_all=False) as reached:
        reached.leave_out_unreachable()
        name = wanted.container or await _service(reached, wanted.service)
        seen = await reached.all_of(lambda node: node.ask(engines.containers, [name]))
        ran = {node: _text(found[0] if found else None) for node, found in seen.items()}
        if wanted.container is not None and not any(seen.values()):
            raise InputErrors.one(f"no node has a container {name!r}", hint="on a node: docker ps --all")
        if not wanted.apply:
            return Stopped(name=name, ran=ran, now={}, unreachable=reached.unreachable)

        def taken(node: str, lease: Taken) -> None:
            told.line(node, "lease", "done" if lease.why is None else f"done: {lease.why}")

        owner = this_process(wanted.what)
        async with hold(reached, place.folder, owner, taken, lambda: None) as held:

            async def one(node: Node) -> str:
                told.line(node.name, "stop", "begins")
                text = await _stop(node, held, name, is_service=wanted.container is None)
                told.line(node.name, "stop", f"done: {text}")
                return text

            now = await reached.all_of(one)
        return Stopped(name=name, ran=ran, now=now, unreachable=reached.unreachable)


async def _service(reached: Reach, named: str | None) -> str:
    found = await reached.all_of(lambda node: read_states(node, reached.site.folder))
    services = sorted({service for states in found.values() for service in states})
    if named is not None and named in services:
        return named
    if named is not None:
        hint = near(named, services) or (f"there is {', '.join(services)}" if services else "nothing was deployed here")
        raise InputErrors.one(f"no node knows a service {named!r}", hint=hint)
    if len(services) != 1:
        hint = f"name one: {', '.join(services)}" if services else "a container of another: --container NAME"
        raise InputErrors.one("several services are there" if services else "no service was deployed here", hint=hint)
    return services[0]


def _text(container: Container | None) -> str:
    """Name what a container runs by the launch that it was started from."""
    if container is None:
        return "no container"
    launch = container.labels.get(LAUNCH_BUNDLE_LABEL, "").rpartition(":")[2][:12]
    return f"{launch or 'what no deploy started'}, {container.state}"


async def _stop(node: Node, held: Held, name: str, *, is_service: bool) -> str:
    if not is_service:
        guard = await stop_guard(node, held.fence, f"{name}-memguard.service")
        was_running = await node.ask(engines.stop, name, STOP_S)
        return f"{guard}{'stopped' if was_running else 'was stopped already'}"
    await arming.stop(node, name, fence=held.fence, seconds=STOP_S)
    found = await node.ask(engines.containers, [name])
    if any(is_of_a_deploy(one) for one in found):
        await node.ask(engines.stop, name, STOP_S)
    await _remember(node, held, await read_state(node, held.fence.folder, name), name)
    if any(one.state in UP and not is_of_a_deploy(one) for one in found):
        return f"stopped; one of that name that no deploy started runs on: --container {name}"
    return "stopped"


async def _remember(node: Node, held: Held, seen: StateSeen, name: str) -> None:
    """Let the node remember that somebody stopped it: what it had, it keeps."""
    before = seen.state
    state = NodeState(
        service=name,
        deploy=f"stop-{token_hex(3)}",
        step=STOPPED,
        wanted=None if before is None else before.current,
        current=None if before is None else before.current,
        healthy=() if before is None else before.healthy,
        at_s=int(time.time()),
    )
    await write_state(node, held.fence, state)
