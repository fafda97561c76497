# SPDX-License-Identifier: Apache-2.0
"""Cables, found from what each node says of its peers: both ends must say the same.

Core: no IO.

A cable whose devices and subnets are the usual ones of its cabling is not written out: a site file's defaults give it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network

from derive.canonical import Json
from derive.errors import Problem, expected_got
from derive.fabric.cabling import (
    PATHS,
    default_device,
    default_interface,
    default_ports,
    default_subnet,
    edges,
)
from derive.importing.nodes import MapNode, NodeMap

_PORT = re.compile(r".*f([01])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stripe:
    """One path of a cable: the device at each end, the lower rank's first, and the subnet where one is said."""

    devices: tuple[str, str]
    subnet: str | None


def cables(nodes: NodeMap) -> tuple[list[Json], list[str], list[Problem]]:
    """Return the ``[[cables]]`` of a site (none where all are usual), what was assumed, and what is wrong."""
    problems = [*_peer_sets(nodes), *_shared_devices(nodes)]
    found: list[Json] = []
    assumed: list[str] = []
    usual = True
    for ranks in edges(len(nodes.nodes)):
        low, high = (nodes.nodes[rank] for rank in ranks)
        stripes, wrong = _stripes(nodes, low, high)
        problems += wrong
        cable, notes = _cable(nodes, low, high, stripes)
        usual = usual and _is_usual(ranks, len(nodes.nodes), stripes)
        found.append(cable)
        assumed += notes
    return ([] if usual else found), ([] if usual else assumed), problems


def _stripes(nodes: NodeMap, low: MapNode, high: MapNode) -> tuple[list[Stripe], list[Problem]]:
    """Pair the devices of two ends: by subnet where both say theirs, else by their place in the lists."""
    here, there = low.peers.get(high.rank, ()), high.peers.get(low.rank, ())
    where = f"{nodes.file}: nodes[{high.at}].roce_peer_hcas.{low.rank}"
    if not here or not there:
        return [], []  # said by the sets of peers
    if len(here) != len(there):
        detail = expected_got(f"{len(here)}, as {low.name} has", len(there))
        return [], [
            Problem(where=where, message="the ends of a cable have different numbers of stripes", detail=detail)
        ]
    if not all(device in node.subnets for node, devices in ((low, here), (high, there)) for device in devices):
        return [Stripe(devices=(one, other), subnet=None) for one, other in zip(here, there, strict=True)], []
    by_subnet = {high.subnets[device]: device for device in there}
    problems = []
    found = []
    for device in here:
        subnet = low.subnets[device]
        if subnet in by_subnet:
            found.append(Stripe(devices=(device, by_subnet[subnet]), subnet=subnet))
            continue
        ends = [f"{low.name}  {device} {subnet}", *(f"{high.name}  {one} {net}" for net, one in by_subnet.items())]
        hint = "a path is one subnet, at both of its ends"
        place = f"{nodes.file}: nodes[{low.at}].roce_subnets.{device}"
        message = "no such subnet at the other end"
        problems.append(Problem(where=place, message=message, detail=tuple(ends), hint=hint))
    problems += _bad_subnets(nodes, low, here)
    return found, problems


def _bad_subnets(nodes: NodeMap, node: MapNode, devices: tuple[str, ...]) -> Iterator[Problem]:
    for device in devices:
        text = node.subnets[device]
        try:
            if IPv4Network(text).prefixlen == 24:
                continue
        except ValueError:
            pass
        place = f"{nodes.file}: nodes[{node.at}].roce_subnets.{device}"
        yield Problem(where=place, message="not a subnet of 256 addresses", detail=expected_got("a.b.c.0/24", text))


def _cable(nodes: NodeMap, low: MapNode, high: MapNode, stripes: list[Stripe]) -> tuple[dict[str, Json], list[str]]:
    ranks, count = (low.rank, high.rank), len(nodes.nodes)
    ports = _ports(stripes) or default_ports(ranks, count)
    notes: list[str] = []
    paths: list[Json] = []
    for number, stripe in zip(PATHS, stripes, strict=False):
        path: dict[str, Json] = {}
        if stripe.subnet is not None and stripe.subnet != default_subnet(ranks, number):
            addresses = [_address(stripe.subnet, rank) for rank in ranks]
            path |= {"subnet": stripe.subnet, "addresses": addresses}
            notes.append(
                f"{low.name} and {high.name}: addresses {' and '.join(addresses)} are assumed, by the nodes' numbers"
            )
        if stripe.devices != tuple(default_device(port, number) for port in ports):
            interfaces = [
                _interface(node, device, port, number)
                for node, device, port in zip((low, high), stripe.devices, ports, strict=True)
            ]
            path |= {"devices": list(stripe.devices), "interfaces": interfaces}
            notes.append(f"{low.name} and {high.name}: interfaces {' and '.join(interfaces)} are assumed")
        paths.append(path)
    cable: dict[str, Json] = {"between": [low.name, high.name], "ports": list(ports)}
    if any(paths) or len(paths) != len(PATHS):
        cable["paths"] = [
            path or {"devices": list(stripe.devices)} for path, stripe in zip(paths, stripes, strict=False)
        ]
    return cable, notes


def _ports(stripes: list[Stripe]) -> tuple[int, int] | None:
    """Return the cage at each end, as the devices' names end; None where they do not agree."""
    found = {tuple(int(match[1]) for one in stripe.devices if (match := _PORT.fullmatch(one))) for stripe in stripes}
    only = found.pop() if len(found) == 1 else ()
    return (only[0], only[1]) if len(only) == 2 else None


def _interface(node: MapNode, device: str, port: int, path: int) -> str:
    return node.interfaces.get(device) or default_interface(port, path)


def _address(subnet: str, rank: int) -> str:
    return f"{subnet.rpartition('.')[0]}.{rank + 1}"


def _is_usual(ranks: tuple[int, int], count: int, stripes: list[Stripe]) -> bool:
    ports = default_ports(ranks, count)
    usual = [
        Stripe(
            devices=(default_device(ports[0], path), default_device(ports[1], path)), subnet=default_subnet(ranks, path)
        )
        for path in PATHS
    ]
    return [(one.devices, one.subnet or two.subnet) for one, two in zip(stripes, usual, strict=False)] == [
        (one.devices, one.subnet) for one in usual
    ]


def _peer_sets(nodes: NodeMap) -> Iterator[Problem]:
    count = len(nodes.nodes)
    for node in nodes.nodes:
        expected = {one for ranks in edges(count) if node.rank in ranks for one in ranks} - {node.rank}
        if set(node.peers) != expected:
            detail = expected_got(
                *(" ".join(map(str, sorted(ranks))) or "none" for ranks in (expected, set(node.peers)))
            )
            hint = "a cable joins each rank to the next, and the last to the first"
            where = f"{nodes.file}: nodes[{node.at}].roce_peer_hcas"
            yield Problem(where=where, message=f"not the peers of rank {node.rank}", detail=detail, hint=hint)


def _shared_devices(nodes: NodeMap) -> Iterator[Problem]:
    for node in nodes.nodes:
        leads: dict[str, list[int]] = {}
        for peer, devices in node.peers.items():
            for device in devices:
                leads.setdefault(device, []).append(peer)
        for device, peers in leads.items():
            if len(peers) > 1:
                where = f"{nodes.file}: nodes[{node.at}].roce_peer_hcas"
                detail = (f"ranks     {' '.join(map(str, peers))}",)
                yield Problem(where=where, message=f"{device} leads to more than one peer", detail=detail)
