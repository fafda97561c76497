# SPDX-License-Identifier: Apache-2.0
"""Looks at the nodes of a site: what each remembers, runs and is guarded by, all at once, and time and again.

Edge: SSH and engines of the nodes. Changes nothing.

A connection that was lost is opened again in the background: a node that does not answer holds up no look at others.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from derive.deploy.arming import seen as guards_seen
from derive.deploy.effects import FileSeen, StateSeen, is_gone, read_files, read_lease, read_state, read_states
from derive.deploy.engines import containers
from derive.deploy.node_errors import NodeSlow, NodeUnreachable
from derive.deploy.remote import connect
from derive.deploy.situation import LeaseSeen, told_of_each_other
from derive.deploy.status import NodeSeen, services_of
from derive.errors import Corrupt, DeriveError

if TYPE_CHECKING:
    import docker

    from derive.deploy.lease import Lease
    from derive.deploy.remote import Node
    from derive.deploy.ssh_config import SshSettings
    from derive.fabric.site import Site

T = TypeVar("T")

LOOK_S = 20.0
"""How long a look at one node may take."""
OPEN_S = 2.0
"""How long a look waits for a lost connection to come back."""


@dataclass(slots=True)
class _Line:
    """A node, why it could not be asked last, what it was last seen with, and its connection that is being opened."""

    node: Node
    error: DeriveError | None = None
    last: NodeSeen | None = None
    opening: asyncio.Task[None] | None = None


@dataclass(slots=True, kw_only=True)
class Lookout:
    """Looks at the nodes of a site; opened by :func:`lookout`."""

    site: Site
    lines: tuple[_Line, ...]
    began_ns: int

    async def look(self, service: str) -> tuple[NodeSeen, ...]:
        """Return every node as it is now, in order of rank; one that cannot be asked says why, and when it last could.

        What such a node was last seen with is kept: its container and guards are those of then. One that never answered
        counts as having done so when this began.
        """
        seen = await asyncio.gather(*(self._look(line, service) for line in self.lines))
        leases = told_of_each_other({one.node: one.lease for one in seen})
        return tuple(replace(one, lease=leases[one.node]) for one in seen)

    async def services(self) -> tuple[str, ...]:
        """Return the names of the services that any node remembers or runs."""

        async def known(node: Node) -> tuple[NodeSeen, Iterable[str]]:
            states, found = await asyncio.gather(read_states(node, self.site.folder), node.ask(containers))
            return NodeSeen(node=node.name, rank=node.rank, containers=tuple(found)), states

        found = [one for one in await self._each(known) if one is not None]
        return services_of([seen for seen, _ in found], {name for _, names in found for name in names})

    async def kills(self, service: str) -> Mapping[str, Mapping[str, FileSeen]]:
        """Return the records that memory guards left of a service, by node and path, the newest of them."""
        folder = f"{self.site.folder}/{service}/evidence"

        async def of(node: Node) -> Mapping[str, FileSeen]:
            return await read_files(node, folders=[folder], newest=4)

        found = await self._each(of)
        return {line.node.name: files for line, files in zip(self.lines, found, strict=True) if files is not None}

    @property
    def troubles(self) -> Mapping[str, DeriveError]:
        """Why each node that could not be asked last could not, by name."""
        return {line.node.name: line.error for line in self.lines if line.error is not None}

    def node(self, name: str) -> Node:
        """Return a node, whether it is connected or not."""
        return next(line.node for line in self.lines if line.node.name == name)

    async def _look(self, line: _Line, service: str) -> NodeSeen:
        seen = await _asked(line, lambda node: _seen(node, self.site.folder, service))
        if seen is not None:
            line.last = seen
            return seen
        assert line.error is not None
        last = line.last or NodeSeen(node=line.node.name, rank=line.node.rank, answered_ns=self.began_ns)
        why = line.error.problems()[0]
        return replace(last, trouble=f"{why.message}; {why.hint}" if why.hint else why.message)

    async def _each(self, of: Callable[[Node], Awaitable[T]]) -> list[T | None]:
        return await asyncio.gather(*(_asked(line, of) for line in self.lines))


@asynccontextmanager
async def lookout(
    site: Site, settings: SshSettings | None, *, only: Collection[str] | None = None
) -> AsyncIterator[Lookout]:
    """Connect to the nodes of a site, and keep the connections; none has to be there."""
    async with connect(site, settings, only=only, require_all=False) as nodes:
        lines = tuple(_Line(node, error=nodes.unreachable.get(node.name)) for node in nodes.all)
        try:
            yield Lookout(site=site, lines=lines, began_ns=time.time_ns())
        finally:
            opening = [line.opening for line in lines if line.opening is not None]
            for one in opening:
                one.cancel()
            await asyncio.gather(*opening, return_exceptions=True)


async def ahead_of_here(node: Node) -> int:
    """Return what a node's clock is ahead of this machine's, in nanoseconds, give or take half the time of the answer.

    Raises:
        DeriveError: when the node does not answer.
    """
    asked = time.time_ns()
    ran = await node.run(["date", "+%s%N"], timeout_s=10)
    answered = time.time_ns()
    with suppress(ValueError):
        return int(ran.out) - (asked + answered) // 2
    return 0


async def following(
    client: docker.DockerClient, name: str, *, tail: int | None = None, timestamps: bool = False
) -> AsyncIterator[bytes]:
    """Yield what a container writes, as it does, until it ends.

    Raises:
        DeriveError: when there is none of that name, or the connection is lost.
    """
    from derive.deploy.engines import follow

    parts: asyncio.Queue[bytes | DeriveError | None] = asyncio.Queue(64)
    loop = asyncio.get_running_loop()

    def put(part: bytes | DeriveError | None) -> None:
        asyncio.run_coroutine_threadsafe(parts.put(part), loop).result()

    def read() -> None:
        with suppress(RuntimeError, CancelledError):  # the loop is gone: nobody listens any more
            try:
                for part in follow(client, name, tail=tail, timestamps=timestamps):
                    put(part)
                put(None)
            except DeriveError as error:
                put(error)

    # Not a thread of the loop's own: those are waited for at its end, and this one waits for a container.
    threading.Thread(target=read, daemon=True).start()
    while (part := await parts.get()) is not None:
        if isinstance(part, DeriveError):
            raise part
        yield part


async def _asked(line: _Line, of: Callable[[Node], Awaitable[T]]) -> T | None:
    """Ask a node something; None where it cannot be asked: then the reason is taken note of."""
    try:
        if not line.node.is_connected:
            await _opened(line)
        async with asyncio.timeout(LOOK_S):
            found = await of(line.node)
    except DeriveError as error:
        line.error = error
    except TimeoutError:
        line.error = NodeSlow(f"no answer in {LOOK_S:.0f} s", node=line.node.name)
    else:
        line.error = None
        return found
    return None


async def _opened(line: _Line) -> None:
    """Have a connection, or raise why there is none; one that takes its time is waited for elsewhere."""
    opening = line.opening = line.opening or asyncio.create_task(line.node.connect())
    await asyncio.wait([opening], timeout=OPEN_S)
    if not opening.done():
        raise line.error or NodeUnreachable("no connection", node=line.node.name)
    if line.opening is opening:
        line.opening = None
    await opening


async def _seen(node: Node, folder: str, service: str) -> NodeSeen:
    state, (lease, unread), found, guards = await asyncio.gather(
        read_state(node, folder, service),
        lease_or_damage(node, folder),
        node.ask(containers),
        guards_seen(node, service),
    )
    return NodeSeen(
        node=node.name,
        rank=node.rank,
        state=state.state,
        damaged="; ".join(filter(None, (_damage(state, f"{folder}/{service}"), unread))) or None,
        containers=tuple(found),
        guards=guards,
        lease=None if lease is None else lease_seen(lease),
        answered_ns=time.time_ns(),
    )


def lease_seen(lease: Lease) -> LeaseSeen:
    """Return a node's lease as it is to be judged, its owner looked for on this machine."""
    gone = lease.is_gone or is_gone(lease.owner)
    return LeaseSeen(
        owner=lease.owner.words(),
        nonce=lease.nonce,
        alive=lease.left_s > 0 and not gone,
        expires_in_s=int(lease.left_s),
        is_gone=gone,
    )


async def lease_or_damage(node: Node, folder: str) -> tuple[Lease | None, str | None]:
    """Return a node's lease, and in words what is wrong with one that cannot be read; None for each there is none of.

    Raises:
        DeriveError: when the node cannot be asked.
    """
    try:
        return await read_lease(node, folder), None
    except Corrupt as error:
        return None, f"its lease cannot be read, and the next deploy or stop takes it over: {error.message}"


def _damage(state: StateSeen, folder: str) -> str | None:
    """Say what is wrong with a node's state or link; ``folder`` is the service's there."""
    if state.damaged is not None:
        said = f"{folder}/state.json cannot be read ({state.damaged})"
        return f"{said}: the next deploy or stop writes it anew"
    if state.odd is not None:
        return f"its link {folder}/current {state.odd}: what runs could not be started again; deploy it again"
    current = None if state.state is None else state.state.current
    if current is None:
        return None
    if state.link is None:
        return f"its link {folder}/current is gone: what runs could not be started again; deploy it again"
    if state.link != current.launch_bundle:
        return f"its link leads to the launch {state.link.short}, and its state says {current.launch_bundle.short}"
    return None
