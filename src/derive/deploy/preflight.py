# SPDX-License-Identifier: Apache-2.0
"""Whether the machines of a site can run a launch: every rule about each node, and about all of them together.

Core: no IO. Standard library only.

A fact that is not known is no pass. What changes from minute to minute (ports, memory, containers) is judged only where
somebody looked at what runs now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from derive.deploy.consents import Consent, running
from derive.deploy.machine_values import MEMORY_SAVER, Machine
from derive.deploy.model import Container, Served, Target
from derive.deploy.preflight_engine import engine_findings
from derive.deploy.preflight_finding import NOTHING_KNOWN, Finding, OneNode, Severity
from derive.deploy.preflight_host import host_findings, unlike_findings
from derive.deploy.preflight_place import (
    former_guard,
    guard_findings,
    kept_findings,
    mount_findings,
    network_findings,
    port_findings,
    ports,
    space_findings,
)
from derive.fabric.rule import SiteInput

__all__ = ["Finding", "Severity", "Wanted", "judge", "wanted"]

_ENGINE_ROOTS = ("/var/lib/docker", "/var/lib/containerd")
"""Where engines keep images unless they are told otherwise."""
_MODULES = ("nvidia", MEMORY_SAVER, "nvidia_peermem")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a node is to be asked before a launch.

    ``disks`` are folders whose file systems matter; ``paths`` the sources of mounts, and devices, that must be there.
    """

    disks: tuple[str, ...]
    paths: tuple[str, ...]
    ports: tuple[int, ...]
    units: tuple[str, ...]
    modules: tuple[str, ...]


def wanted(target: Target, rank: int, *, engine_root: str | None = None) -> Wanted:
    """Return what the facts of a node must tell; ``engine_root`` is where its engine keeps images, if that is known."""
    launch, resolved = target.bundle.launches[rank], target.bundle.resolved
    sources = (
        *(mount.source for mount in launch.mounts),
        *(device.partition(":")[0] for device in launch.container.devices),
    )
    units = (former_guard(target.service), *filter(None, (resolved.host.memory_unit,)))
    roots = _ENGINE_ROOTS if engine_root is None else (engine_root, *_ENGINE_ROOTS)
    return Wanted(
        disks=tuple(dict.fromkeys((target.bundle.site.folder, *roots))),
        paths=tuple(dict.fromkeys(sources)),
        ports=ports(resolved.master_port, launch.port, rank),
        units=units,
        modules=_MODULES,
    )


def judge(
    target: Target,
    site: SiteInput,
    machines: Mapping[str, Machine],
    containers: Mapping[str, Sequence[Container]],
    consents: Collection[Consent] = (),
    *,
    known: Mapping[str, Collection[Served]] | None = None,
    moves: Mapping[str, int | None] | None = None,
    others: Mapping[str, Collection[str]] | None = None,
    only_ahead: bool = False,
) -> tuple[Finding, ...]:
    """Return everything about the machines that stands against a launch, errors first, then by rank.

    ``known`` are the launches that each node remembers; ``moves`` the bytes that each has still to get, None where
    unknown; ``others`` names what is ended on each beside the service's own container, what was asked for by name
    included. ``only_ahead``: nothing ends yet.
    """
    in_the_way = running(target, containers, known or {})
    found = list(unlike_findings(machines, target.bundle.resolved.host))
    for node in site.site.nodes:
        machine = machines.get(node.name)
        if machine is None:
            fix = "see that it is up and SSH reaches it, then ask again: derive deploy"
            message = "nothing is known of this machine"
            found.append(Finding(node=node.name, id=NOTHING_KNOWN, severity="error", message=message, fix=fix))
            continue
        given = OneNode(
            target=target,
            site=site,
            node=node,
            launch=target.bundle.launches[node.rank],
            machine=machine,
            containers=containers.get(node.name),
            in_the_way=in_the_way.get(node.name, ()),
            move_bytes=(moves or {}).get(node.name),
            consents=consents,
            others=(others or {}).get(node.name, ()),
            hosts={name: one.host for name, one in machines.items()},
        )
        found += _of_node(given)
        found += () if only_ahead else kept_findings(given)
    ranks = {node.name: node.rank for node in site.site.nodes}
    return tuple(sorted(found, key=lambda one: (one.severity != "error", ranks.get(one.node, -1))))


def _of_node(given: OneNode) -> Iterator[Finding]:
    yield from host_findings(given)
    yield from engine_findings(given)
    yield from network_findings(given)
    yield from space_findings(given)
    yield from mount_findings(given)
    yield from port_findings(given)
    yield from guard_findings(given)
