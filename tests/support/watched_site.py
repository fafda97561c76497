# SPDX-License-Identifier: Apache-2.0
"""FAKE nodes of a service that is watched: what they run and remember is kept here, and no SSH leads to them.

What decides is real: the watching itself, the steps of a restart, the judgement of machines, the records that are kept.
Fake is what lies behind a node: its state, its engine, its guards, its lease.

Edge: the file system.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from derive.deploy import arming, engines, evidence, steps, watching, work
from derive.deploy.held import Held
from derive.deploy.incident import Budget
from derive.deploy.kept import Kept
from derive.deploy.lease import Fence
from derive.deploy.model import Container, NodeState, Served, Target
from derive.deploy.node_errors import NodeUnreachable
from derive.deploy.plan import Seen
from derive.deploy.reach import answers_of
from derive.deploy.remote import Ran
from derive.deploy.seeing import Looked
from derive.deploy.status import NodeSeen
from derive.deploy.watching import Watch
from derive.deploy.work import Means
from derive.errors import DeriveError
from support.deploying import CONFIG, NOW_S, container_of, machines, site_of, target

TARGET = target()
NAMES = tuple(launch.node for launch in TARGET.bundle.launches)
NOW_NS = NOW_S * 10**9
Patch: TypeAlias = tuple[Any, str, Any]


@dataclass(slots=True)
class FakeNode:
    """One node: what it runs and remembers. ``lost`` says why it does not answer."""

    name: str
    rank: int
    container: Container | None
    state: NodeState
    lost: str | None = None
    full: bool = False
    said: list[str] = field(default_factory=list)

    async def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Answer as the node's engine would."""
        if function is engines.containers:
            return [] if self.container is None else [self.container]
        if function is engines.image_ids:
            return [str(CONFIG)]
        if function is engines.engine_facts:
            return {"warnings": []}
        assert function is engines.stop
        self.said.append("engine stop")
        self.end(137)
        return True

    async def run(self, argv: object, **_: object) -> Ran:
        """Answer nothing."""
        return Ran(code=0, out=b"", err=b"")

    def end(self, code: int) -> None:
        """Let the container end, if it runs."""
        if self.container is not None and self.container.state == "running":
            finished = "2026-11-30T17:28:40.000000000Z"
            self.container = replace(self.container, state="exited", exit_code=code, finished=finished, pid=None)


@dataclass(slots=True)
class FakeSite:
    """All nodes, as whoever watches them, stops them and starts them meets them."""

    nodes: dict[str, FakeNode]
    ready: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """What each wait for readiness does, the next one first; nothing where none is left."""
    on_lost: Callable[[], None] = lambda: None
    held: Held | None = None
    stops: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    looks: list[Callable[[], None]] = field(default_factory=list)
    """What happens before each look, the next one first."""

    @property
    def site(self) -> Any:
        return TARGET.bundle.site

    async def look(self, service: str) -> tuple[NodeSeen, ...]:
        assert service == TARGET.service
        if self.looks:
            self.looks.pop(0)()
        return tuple(
            NodeSeen(
                node=one.name,
                rank=one.rank,
                trouble=one.lost,
                state=one.state,
                containers=() if one.container is None else (one.container,),
                answered_ns=1 if one.lost else NOW_NS,
            )
            for one in self.nodes.values()
        )

    async def kills(self, _service: str) -> Mapping[str, Mapping[str, Any]]:
        return {}

    def node(self, name: str) -> FakeNode:
        return self.nodes[name]

    @property
    def running(self) -> list[str]:
        """Return the nodes whose container runs."""
        return [one.name for one in self.nodes.values() if one.container and one.container.state == "running"]

    @property
    def steps(self) -> set[str]:
        """Return what the nodes remember."""
        return {one.state.step for one in self.nodes.values()}


class FakeReach:
    """Some of the nodes, to do something on."""

    def __init__(self, fake: FakeSite, names: Collection[str]) -> None:
        self.fake, self.names, self.site, self.patience_s = fake, tuple(names), TARGET.bundle.site, 0.0

    async def node(self, name: str) -> FakeNode:
        return self.fake.nodes[name]

    async def each(self, function: Callable[[Any], Awaitable[Any]], only: Collection[str] | None = None) -> Any:
        async def one(name: str) -> Any:
            node = self.fake.nodes[name]
            try:
                if node.lost is not None:
                    raise NodeUnreachable(node.lost, node=name)
                return await function(node)
            except DeriveError as error:
                return error

        names = self.names if only is None else tuple(only)
        return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))

    async def all_of(self, function: Callable[[Any], Awaitable[Any]], only: Collection[str] | None = None) -> Any:
        return answers_of(await self.each(function, only))


def fake_site(monkeypatch: pytest.MonkeyPatch) -> FakeSite:
    """Put nodes that all serve in the place of those that SSH would lead to."""
    serving = NodeState(
        service=TARGET.service,
        deploy="d1",
        step="serving",
        wanted=TARGET.served,
        current=TARGET.served,
        healthy=(TARGET.served,),
        at_s=1,
    )
    fake = FakeSite(
        {one.node: FakeNode(one.node, one.rank, container_of(one), serving) for one in TARGET.bundle.launches}
    )

    for module, name, value in (*_ways(fake), *_memory(fake), *_running(fake), *_rest()):
        monkeypatch.setattr(module, name, value)
    return fake


def _ways(fake: FakeSite) -> Iterable[Patch]:
    @asynccontextmanager
    async def lookout(*_: object) -> AsyncIterator[FakeSite]:
        yield fake

    @asynccontextmanager
    async def reach(site: Any, *_: object) -> AsyncIterator[FakeReach]:
        yield FakeReach(fake, [node.name for node in site.nodes])

    @asynccontextmanager
    async def hold(_n: object, folder: str, owner: Any, _t: object, on_lost: Callable[[], None]) -> AsyncIterator[Held]:
        fake.on_lost = on_lost
        fake.held = Held(fence=Fence(folder=folder, nonce="n"), owner=owner)
        yield fake.held

    return ((watching, "lookout", lookout), (watching, "reach", reach), (watching, "hold", hold))


def _memory(fake: FakeSite) -> Iterable[Patch]:
    async def remembered(node: FakeNode, *_: object) -> Any:
        return type("StateSeen", (), {"state": node.state})

    async def write(node: FakeNode, _fence: object, state: NodeState) -> None:
        if node.full:
            raise DeriveError("no space left")
        node.state = state

    async def activate(node: FakeNode, _fence: object, _launch: object, state: NodeState) -> None:
        await write(node, None, state)

    async def look(_reach: object, wanted: Target, _kept: object, now_s: int, **_: object) -> Looked:
        assert now_s == NOW_S, "seconds"
        seen = {one.name: () if one.container is None else (one.container,) for one in fake.nodes.values()}
        states = {one.name: one.state for one in fake.nodes.values()}
        return Looked(
            seen=Seen(machines=machines(wanted), containers=seen, states=states, moves={}, situation=None, seen_s=now_s)
        )

    return (
        (watching, "read_state", remembered),
        (watching, "look", look),
        (work, "write_state", write),
        (work, "activate", activate),
    )


def _running(fake: FakeSite) -> Iterable[Patch]:
    async def start(node: FakeNode, wanted: Target, **_: object) -> None:
        node.said.append("start")
        node.container = container_of(wanted.bundle.launches[node.rank], id=f"{len(node.said):064x}")

    async def stop(node: FakeNode, *_: object, **__: object) -> None:
        node.said.append("stop")
        if fake.stops:
            await fake.stops.pop(0)()
        # A unit stops what it started: a container of a hand's is none of its.
        if node.container is not None and node.container.id != "by hand":
            node.end(143)

    async def await_ready(*_: object) -> str:
        if fake.ready:
            await fake.ready.pop(0)()
        return "answered"

    return ((arming, "start", start), (arming, "stop", stop), (steps, "await_ready", await_ready))


def _rest() -> Iterable[Patch]:
    async def nothing(*_: object, **__: object) -> Any:
        return None

    async def put(*_: object, **__: object) -> Any:
        return type("Put", (), {"kept": True, "bytes_moved": 0})

    async def guards(*_: object) -> Any:
        return [type("Guard", (), {"phase": "steady", "alive": True})]

    return (
        (watching, "_PAUSE_S", 0),
        (watching, "renew_lease", nothing),
        (evidence, "keep", nothing),
        (time, "time_ns", lambda: NOW_NS),
        (steps, "guard_of", nothing),
        (steps, "put_tree", put),
        (steps, "prune", nothing),
        (arming, "stage_guard", nothing),
        (arming, "arm", nothing),
        (arming, "steady", nothing),
        (arming, "seen", guards),
    )


def watch_of(folder: Path, say: Callable[[str], None], restarts: int = 2, aim: Target | None = None) -> Watch:
    """Return what is watched, and how often it may be restarted."""

    def aimed(_served: Served) -> Target:
        return aim or TARGET

    means = Means(store=folder, kept=Kept(folder=folder / "kept"), clock=lambda: 0, now_s=lambda: NOW_S, by="a test")
    settings: Any = None
    return Watch(
        site=site_of(TARGET),
        settings=settings,
        service=TARGET.service,
        budget=Budget(restarts=restarts, within_s=600),
        interval_s=0.01,
        means=means,
        say=say,
        aim=aimed,
    )
