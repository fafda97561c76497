# SPDX-License-Identifier: Apache-2.0
"""Waits until a service has started: listens to every rank's container, guard and log, and asks the head itself.

Edge: the nodes, their engines, HTTP through the head's connection. What is heard is judged by
:mod:`derive.deploy.readiness`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from derive.deploy import arming, engines
from derive.deploy.asking import ask
from derive.deploy.readiness import (
    Answer,
    ContainerIs,
    Event,
    Failed,
    GuardIs,
    Line,
    Lost,
    Progress,
    Ready,
    Tick,
    Waiting,
)
from derive.errors import CheckFailed, DeriveError
from derive.render.plan import LAUNCH_BUNDLE_LABEL

if TYPE_CHECKING:
    from derive.deploy.model import Container, Target
    from derive.deploy.remote import Node
    from derive.deploy.work import Work

_POLL_S = 1.0
_NODE_S = 20.0
_APPEARS_NS = 20 * 10**9
"""A container that was started is made by its engine within this."""
_TELL_NS = 15 * 10**9
_ASK_PAUSE_S = 0.5


class NotReady(CheckFailed):
    """A service will not start; ``node`` is the rank that it failed on, None for no single one."""

    node: str | None = None


@dataclass(slots=True, kw_only=True)
class _Ear:
    """What one node was last heard to say."""

    name: str
    since_s: int = 0
    last: str = ""
    seen: bool = False


@dataclass(slots=True, kw_only=True)
class _Hearing:
    """Everything that was heard and not yet judged."""

    work: Work
    target: Target
    began_ns: int
    heard: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    wants_answer: asyncio.Event = field(default_factory=asyncio.Event)

    def now(self) -> int:
        return self.work.means.clock()


async def await_ready(work: Work, target: Target, step: str) -> str:
    """Return what answered once the service has started, on every node.

    Raises:
        NotReady: when it will not: a rank or a guard has ended, or there was no progress for too long.
    """
    hearing = _Hearing(work=work, target=target, began_ns=work.means.clock())
    progress = Progress(target, started_ns=hearing.began_ns)
    async with _listening(hearing):
        told, told_ns = "", 0
        while True:
            verdict = progress.feed(await _some(hearing))
            match verdict:
                case Ready():
                    return f"answered after {verdict.took_ns / 1e9:.1f} s"
                case Failed():
                    error = NotReady(verdict.why, where=verdict.node or work.service, detail=verdict.lines)
                    error.node = verdict.node
                    raise error
                case Waiting():
                    text, now = f"{verdict.stage}: {verdict.detail}", hearing.now()
                    if verdict.stage != told or now - told_ns > _TELL_NS:
                        work.say(step, text)
                        told, told_ns = verdict.stage, now
            if progress.wants_answer:
                hearing.wants_answer.set()


async def _some(hearing: _Hearing) -> list[Event]:
    """Return what was heard within a moment: at least that time goes by."""
    events: list[Event] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(_POLL_S):
            events.append(await hearing.heard.get())
    while not hearing.heard.empty():
        events.append(hearing.heard.get_nowait())
    return events or [Tick(at_ns=hearing.now())]


@asynccontextmanager
async def _listening(hearing: _Hearing) -> AsyncIterator[None]:
    listeners = [asyncio.create_task(_listen(hearing, _Ear(name=name))) for name in hearing.work.reach.names]
    listeners.append(asyncio.create_task(_ask(hearing)))
    try:
        yield
    finally:
        for one in listeners:
            one.cancel()
        await asyncio.gather(*listeners, return_exceptions=True)


async def _listen(hearing: _Hearing, ear: _Ear) -> None:
    while True:
        try:
            async with asyncio.timeout(_NODE_S):
                await _hear(hearing, ear, await hearing.work.reach.node(ear.name))
        except DeriveError as error:
            hearing.heard.put_nowait(Lost(node=ear.name, why=error.message, at_ns=hearing.now()))
        except TimeoutError:
            hearing.heard.put_nowait(Lost(node=ear.name, why=f"no answer in {_NODE_S:.0f} s", at_ns=hearing.now()))
        await asyncio.sleep(_POLL_S)


async def _hear(hearing: _Hearing, ear: _Ear, node: Node) -> None:
    service = hearing.work.service
    wanted = hearing.target.bundle.launches[node.rank].labels.get(LAUNCH_BUNDLE_LABEL)
    # One of another launch under the same name is not what was started, however well it answers.
    found = [
        one for one in await node.ask(engines.containers, [service]) if one.labels.get(LAUNCH_BUNDLE_LABEL) == wanted
    ]
    if found:
        ear.seen = True
        for line in _new_lines(
            ear, await node.ask(engines.logs, service, since_s=ear.since_s or None, timestamps=True)
        ):
            hearing.heard.put_nowait(Line(node=node.name, text=line, at_ns=hearing.now()))
    if found or ear.seen or hearing.now() - hearing.began_ns > _APPEARS_NS:
        hearing.heard.put_nowait(_is(node.name, found[0] if found else None, hearing.now()))
    for guard in await arming.seen(node, service):
        phase, alive, says = guard.phase, guard.alive, guard.says
        hearing.heard.put_nowait(GuardIs(node=node.name, phase=phase, alive=alive, says=says, at_ns=hearing.now()))


def _is(node: str, container: Container | None, now: int) -> ContainerIs:
    if container is None:
        return ContainerIs(node=node, running=False, at_ns=now, error="there is no such container")
    return ContainerIs(
        node=node,
        running=container.state in ("running", "paused"),
        at_ns=now,
        exit_code=container.exit_code,
        oom_killed=container.oom_killed,
        error=container.error,
    )


def _new_lines(ear: _Ear, data: bytes) -> list[str]:
    """Return lines that were not heard before: the engine gives whole seconds again, each line with its time."""
    fresh = []
    for line in data.decode("utf-8", "replace").splitlines():
        stamp, _, text = line.partition(" ")
        if stamp > ear.last:
            fresh.append(text)
            ear.last = stamp
    ear.since_s = _second(ear.last)
    return fresh


def _second(stamp: str) -> int:
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(f"{stamp[:19]}+00:00").timestamp())
    except ValueError:
        return 0


async def _ask(hearing: _Hearing) -> None:
    """Ask the head, from when that is wanted, until it gives a good answer."""
    launch, resolved = hearing.target.bundle.launches[0], hearing.target.bundle.resolved
    while True:
        await hearing.wants_answer.wait()
        try:
            node = await hearing.work.reach.node(launch.node)
            async with node.port_here(launch.port) as port:
                good, detail = await ask(port, launch.ready.path, completes=resolved.schema is not None)
        except DeriveError as error:
            good, detail = False, error.message
        hearing.heard.put_nowait(Answer(good=good, detail=detail, at_ns=hearing.now()))
        hearing.wants_answer.clear()
        await asyncio.sleep(_ASK_PAUSE_S)
