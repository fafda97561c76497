# SPDX-License-Identifier: Apache-2.0
"""What a node without systemd is told of a service's guards: their command lines, and the group at which they look.

Core: no IO. Standard library only.

A unit names the control group of its slice. Without systemd a container engine makes the group itself (its driver
``cgroupfs``), and where depends on the engine's own: what ``--cgroup-parent`` names lies, in version 1, below the group
that the engine runs in, and in version 2 beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Json
from derive.recipes.resolved import GuardPhase
from derive.render.launch import Launch
from derive.render.plan import LAUNCH_BUNDLE_LABEL
from derive.render.units import evidence_folder, guard_words, ready_file

V2 = "/sys/fs/cgroup"
_CONTROLLERS = ("freezer", "pids", "memory", "name=systemd")
"""Hierarchies of version 1 in the order in which they are taken: the first can be frozen before it is killed."""


class PlaceError(ValueError):
    """Where an engine puts its containers' control groups cannot be told; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hierarchy:
    point: str
    root: str
    version: int
    options: frozenset[str]


def group_of(launch: Launch, groups: str, mounts: str) -> str:
    """Return the control group that a launch's container will be in, as an absolute path.

    ``groups`` is what ``/proc/PID/cgroup`` says of the engine, ``mounts`` what ``/proc/self/mountinfo`` says.

    Raises:
        PlaceError: when there is no hierarchy in which it can be looked at, or the engine's group is not seen there.
    """
    hierarchies = list(_hierarchies(mounts))
    own = dict(_own_groups(groups))
    for one in hierarchies:
        if one.version == 2 and one.point == V2:
            above = _within(own.get("", "/"), one).rpartition("/")[0]
            return f"{one.point}{above}/{launch.slice}"
    for controller in _CONTROLLERS:
        for one in hierarchies:
            if one.version == 1 and controller in one.options and controller in own:
                return f"{one.point}{_within(own[controller], one).rstrip('/')}/{launch.slice}"
    raise PlaceError("no hierarchy of control groups is mounted in which a container could be seen")


def supervised_words(launch: Launch, phase: GuardPhase, group: str) -> tuple[str, ...]:
    """Return the guard's command line for one phase, with another group than that of the unit's slice."""
    words = list(guard_words(launch, phase))
    words[words.index("--cgroup") + 1] = group
    return tuple(words)


def supervised(launch: Launch, group: str, folders: tuple[str, ...]) -> Mapping[str, Json]:
    """Return what a supervisor is told; ``folders`` are those that must be there, beside that of the evidence."""
    guards: dict[str, Json] = {
        phase.phase: {
            "words": list(supervised_words(launch, phase, group)),
            "ready": ready_file(launch, phase.phase),
        }
        for phase in launch.guard
    }
    return {
        "service": launch.name,
        "launch": launch.labels[LAUNCH_BUNDLE_LABEL],
        "run": f"{launch.folder}/run",
        "group": group,
        "guards": guards,
        "folders": [evidence_folder(launch), *folders],
        "stop_seconds": launch.container.stop_seconds,
    }


def _within(group: str, hierarchy: _Hierarchy) -> str:
    """Return a group's path below where its hierarchy is mounted."""
    root = hierarchy.root.rstrip("/")
    if group.startswith("/..") or (root and group != root and not group.startswith(f"{root}/")):
        raise PlaceError(f"the engine's control group {group} is not below {hierarchy.root}, which is mounted")
    return group[len(root) :] or "/"


def _own_groups(text: str) -> Iterator[tuple[str, str]]:
    """Yield each controller (empty for version 2) with the group, of lines ``ID:CONTROLLERS:GROUP``."""
    for line in text.splitlines():
        _, controllers, group = line.split(":", 2)
        yield from ((controller, group) for controller in controllers.split(","))


def _hierarchies(mounts: str) -> Iterator[_Hierarchy]:
    """Yield the hierarchies that are mounted; of those at one place the last, which is what is seen there."""
    found: dict[str, _Hierarchy] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        words, kind = before.split(" "), after.split(" ")
        point = _unescaped(words[4])
        if kind[0] not in ("cgroup", "cgroup2"):
            found.pop(point, None)
            continue
        version = 2 if kind[0] == "cgroup2" else 1
        options = frozenset(kind[2].split(","))
        found[point] = _Hierarchy(point=point, root=_unescaped(words[3]), version=version, options=options)
    yield from found.values()


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
