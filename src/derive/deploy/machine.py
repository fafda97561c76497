# SPDX-License-Identifier: Apache-2.0
"""Reads what a machine said of itself (``machine-facts/1``) and what its engine said, into values.

Core: no IO.

A group of facts that the machine could not gather is null, and its reason stands in ``unread``. Keys that are not known
here are left out: a node's program may be newer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from derive.canonical import Json
from derive.deploy.machine_values import (
    MEMORY_SAVER,
    PACKING,
    Disk,
    EngineSeen,
    Machine,
    Module,
    MountSeen,
    Neighbour,
    unheld_by,
)
from derive.errors import Corrupt, InputErrors, expected_got
from derive.fabric.facts import KIND, NodeFacts, read_facts
from derive.records.model import record

__all__ = [
    "MEMORY_SAVER",
    "PACKING",
    "TAG",
    "Disk",
    "EngineSeen",
    "Machine",
    "Module",
    "MountSeen",
    "Neighbour",
    "machine",
    "unheld_by",
]

TAG = "machine-facts/1"
_NUMBERS = re.compile(r"\d+")


def machine(node: str, facts: Json, engine: Json, *, seen_ns: int) -> Machine:
    """Read what a node's program and its engine said; ``engine`` is None where it does not answer.

    ``seen_ns`` is when they came, in nanoseconds since 1970 by the clock of whoever asked.

    Raises:
        Corrupt: when it is no such document.
    """
    try:
        return _machine(node, facts, engine, seen_ns)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        got = f"no {error}" if isinstance(error, KeyError) else str(error)
        hint = "ask again; if it stays so, another derive has answered there"
        raise Corrupt("not the facts of a machine", where=node, detail=expected_got(TAG, got), hint=hint) from error


def _machine(node: str, facts: Any, engine: Any, seen_ns: int) -> Machine:
    if facts.get("derive") != TAG:
        raise ValueError(facts.get("derive"))
    memory, user, swaps = facts["memory"] or {}, facts["user"] or {}, facts["swaps"]
    cgroup, systemd = facts["cgroup"] or {}, facts["systemd"] or {}
    neighbours = facts["neighbours"]
    unread = [*map(str, facts["unread"])]
    return Machine(
        node=node,
        host=str(facts["host"]),
        boot_id=str(facts["boot_id"]),
        clock_ns=1_000_000 * int(facts["at_ms"]),
        seen_ns=seen_ns,
        user=user.get("name"),
        groups=frozenset(user.get("groups", ())),
        kernel=str(facts["kernel"]),
        architecture=str(facts["machine"]),
        page_size=int(facts["page_bytes"]),
        memory_total=memory.get("total_bytes"),
        memory_available=memory.get("available_bytes"),
        swap=None if swaps is None else {str(one["file"]): int(one["size_bytes"]) for one in swaps},
        driver=facts["driver"],
        transparent_huge_pages=facts["transparent_huge_pages"],
        min_free_kbytes=facts["min_free_kbytes"],
        modules={name: _module(name, one) for name, one in _there(facts["modules"])},
        network=_network(facts["network"], node, unread),
        neighbours=None if neighbours is None else tuple(map(_neighbour, neighbours)),
        disks={folder: _disk(folder, one) for folder, one in _there(facts["space"])},
        mounts={source: _mount(source, one) for source, one in _there(facts["mounts"])},
        systemd=int(systemd["version"]) if systemd.get("running") else None,
        cgroup=cgroup.get("version"),
        controllers=frozenset(cgroup.get("controllers", ())),
        python=_version(str(facts["python"])),
        sudo=facts["sudo"] is True,
        listening=frozenset(int(port) for port, taken in _there(facts["ports"]) if taken),
        units={name: str(one["active"]) for name, one in _there(facts["units"]) if one.get("load") != "not-found"},
        unread=tuple(unread),
        engine=None if engine is None else _engine(engine),
    )


def _there(table: Mapping[str, Any] | None) -> Sequence[tuple[str, Any]]:
    """Return the entries of a table that say something."""
    return [(key, value) for key, value in (table or {}).items() if value is not None]


def _module(name: str, one: Any) -> Module:
    parameters = {str(key): str(value) for key, value in one["parameters"].items()}
    return Module(name=name, version=one["version"], srcversion=one["srcversion"], parameters=parameters)


def _disk(folder: str, one: Any) -> Disk:
    free, total = int(one["free_bytes"]), int(one["total_bytes"])
    return Disk(folder=folder, free_bytes=free, total_bytes=total, device=int(one["device"]))


def _mount(source: str, one: Any) -> MountSeen:
    return MountSeen(
        source=source,
        kind=one["kind"],
        readable=one["readable"] is True,
        writable=one["writable"] is True,
        reason=one["reason"],
    )


def _neighbour(one: Any) -> Neighbour:
    return Neighbour(interface=str(one["interface"]), host=one["host"], port=one["port"])


def _network(body: Any, node: str, unread: list[str]) -> NodeFacts | None:
    """Read the network's part by the rules of ``derive site facts``; what breaks them is as if it had not been read."""
    if body is None:
        return None
    try:
        return read_facts(json.dumps(record(KIND, str(body["host"]), body)).encode("utf-8"), node)
    except InputErrors as error:
        unread += [f"network: {one.where.removeprefix(f'{node}: ')}: {one.message}" for one in error.problems()]
        return None


def _engine(one: Any) -> EngineSeen:
    return EngineSeen(
        version=str(one["version"]),
        image_store=str(one["image_store"]),
        cgroup_driver=str(one["cgroup_driver"]),
        cgroup_version=int(one["cgroup_version"]),
        architecture=str(one["architecture"]),
        runtimes=frozenset(map(str, one["runtimes"])),
        devices=frozenset(map(str, one.get("devices") or ())),
        root=str(one["root"]),
        warnings=tuple(map(str, one.get("warnings") or ())),
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _NUMBERS.findall(text)[:3])
