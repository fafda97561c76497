# SPDX-License-Identifier: Apache-2.0
"""Asks all nodes at once what a deploy is judged by, keeps their answers for later, and reads what was kept.

Edge: the nodes, their engines, the operator's folder. Changes nothing on a node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from derive.deploy import engines
from derive.deploy.again import PLAIN, Again
from derive.deploy.effects import StateSeen, Wanted, facts, read_state
from derive.deploy.former import launches_of, mended
from derive.deploy.look import lease_or_damage, lease_seen
from derive.deploy.machine import machine
from derive.deploy.plan import Seen
from derive.deploy.preflight import wanted
from derive.deploy.recovery import judge
from derive.deploy.situation import LeaseSeen, told_of_each_other
from derive.errors import Corrupt, DeriveError

if TYPE_CHECKING:
    from derive.canonical import Json
    from derive.deploy.kept import Kept
    from derive.deploy.lease import Lease
    from derive.deploy.machine import Machine
    from derive.deploy.model import Container, Target
    from derive.deploy.reach import Reach
    from derive.deploy.remote import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLook:
    """What one node answered. ``engine`` is None where its engine did not."""

    facts: Mapping[str, Json]
    engine: Mapping[str, Json] | None
    containers: tuple[Container, ...]
    state: StateSeen
    lease: Lease | None
    seen_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What was seen of all nodes, and of which nodes nothing was: with the error of each.

    ``damaged`` are the nodes whose state of the service cannot be read, with why: it is taken for none.
    """

    seen: Seen
    failed: Mapping[str, DeriveError] = field(default_factory=dict)
    damaged: Mapping[str, str] = field(default_factory=dict)


async def look(
    reach: Reach, target: Target, kept: Kept, now_s: int, *, own: str | None = None, again: Again = PLAIN
) -> Looked:
    """Ask all nodes at once; ``now_s`` is the operator's clock, in seconds since 1970.

    What machines said is kept in the operator's folder. ``own`` is the nonce of whoever asks, ``again`` what the
    commands that are proposed repeat.
    """
    answers = await reach.each(lambda node: _look_at(node, target))
    failed = {name: answer for name, answer in answers.items() if isinstance(answer, DeriveError)}
    looks = {name: answer for name, answer in answers.items() if not isinstance(answer, DeriveError)}
    for name, one in looks.items():
        with suppress(DeriveError):  # a look that nobody can keep is worth as much
            kept.write_facts(name, now_s, one.facts, one.engine)
    damaged = {name: one.state.damaged for name, one in looks.items() if one.state.damaged is not None}
    return Looked(seen=_seen(target, looks, now_s, own, again), failed=failed, damaged=damaged)


async def _look_at(node: Node, target: Target) -> NodeLook:
    folder, service = target.bundle.site.folder, target.service
    (said, seen_ns), state, (lease, _), (engine, containers) = await asyncio.gather(
        _facts(node, target),
        read_state(node, folder, service),
        lease_or_damage(node, folder),
        _engine(node),
    )
    return NodeLook(facts=said, engine=engine, containers=containers, state=state, lease=lease, seen_ns=seen_ns)


async def _facts(node: Node, target: Target) -> tuple[Mapping[str, Json], int]:
    """Return what the machine says, and when, by this machine's clock: in the middle of asking."""
    before = time.time_ns()
    said = await facts(node, _wanted(target, node.rank))
    return said, (before + time.time_ns()) // 2


async def _engine(node: Node) -> tuple[Mapping[str, Json] | None, tuple[Container, ...]]:
    """Return what the engine says of itself and its containers; nothing where it is not there: a finding says so."""
    from derive.deploy.node_errors import EngineRefuses

    try:
        said = await node.ask(engines.engine_facts)
        found = await node.ask(engines.containers)
    except EngineRefuses:
        return None, ()
    return said, tuple(found)


def _wanted(target: Target, rank: int) -> Wanted:
    asked = wanted(target, rank)
    return Wanted(
        folders=asked.disks,
        mounts=asked.paths,
        ports=asked.ports,
        modules=asked.modules,
        units=asked.units,
        lldp=True,
    )


def _seen(target: Target, looks: Mapping[str, NodeLook], now_s: int, own: str | None, again: Again) -> Seen:
    states = {name: one.state.state for name, one in looks.items()}
    containers = {name: one.containers for name, one in looks.items()}
    leases = told_of_each_other({name: _lease(one.lease, own) for name, one in looks.items()})
    every = [node.name for node in target.bundle.site.nodes]
    situation = judge(
        {name: states.get(name) for name in every},
        {name: containers.get(name) for name in every},
        {name: leases.get(name) for name in every},
        service=target.service,
        again=again,
    )
    return Seen(
        machines={name: machine(name, one.facts, one.engine, seen_ns=one.seen_ns) for name, one in looks.items()},
        containers=containers,
        # What a node forgot, the others remember: what ran is not lost with one file.
        states=mended(
            states,
            {name: {*one.state.launches, *launches_of(one.containers, target.service)} for name, one in looks.items()},
            {name: one.state.link for name, one in looks.items()},
        ),
        moves=dict.fromkeys(looks),
        situation=situation,
        seen_s=now_s,
    )


def _lease(lease: Lease | None, own: str | None) -> LeaseSeen | None:
    if lease is None or lease.nonce == own:
        return None
    return lease_seen(lease)


def stored(target: Target, kept: Kept) -> Seen | None:
    """Return what was last seen of the machines, the oldest look's time with it; None where one was never seen.

    What runs on them is not among it.
    """
    found = kept.facts()
    names = [node.name for node in target.bundle.site.nodes]
    machines: dict[str, Machine] = {}
    for name in names:
        one = found.get(name)
        if one is None:
            continue
        try:
            machines[name] = _without_skew(machine(name, one.facts, one.engine, seen_ns=one.seen_s * 10**9))
        except Corrupt:
            continue  # written by an earlier derive: the next look replaces it
    if not machines:
        return None
    return Seen(
        machines=machines,
        containers={},
        states={},
        moves=dict.fromkeys(machines),
        situation=None,
        seen_s=min(found[name].seen_s for name in machines),
    )


def _without_skew(one: Machine) -> Machine:
    """Return a machine of which it is not known what its clock is ahead: when it was asked is kept in whole seconds."""
    return replace(one, seen_ns=one.clock_ns)
