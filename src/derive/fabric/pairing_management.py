# SPDX-License-Identifier: Apache-2.0
"""Which network is that of management, and at which index devices have their addresses, as facts show.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network

from derive.errors import Problem
from derive.fabric.facts import NodeFacts
from derive.fabric.pairing_ends import Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Management:
    """A node's interface and address of the management network."""

    interface: str
    address: str


def management_of(
    facts: Sequence[NodeFacts],
    files: Sequence[str],
    wanted: str | None,
    cabled: set[IPv4Network],
    problems: list[Problem],
) -> list[Management] | None:
    """Return each node's end of the one network that all are in with an address of its own."""
    of_devices = [{name for device in node.devices for name in device.interfaces} for node in facts]
    if wanted is not None:
        return _named(facts, files, wanted, problems)
    shared: dict[IPv4Network, dict[int, Management]] = {}
    for index, node in enumerate(facts):
        for one in node.interfaces:
            for text in one.addresses if one.name not in of_devices[index] else ():
                address = IPv4Interface(text)
                if not address.ip.is_link_local and not address.ip.is_loopback and address.network not in cabled:
                    there = Management(interface=one.name, address=str(address.ip))
                    shared.setdefault(address.network, {}).setdefault(index, there)
    # The bridges of Docker have one address on all machines.
    real = {
        net: ends for net, ends in sorted(shared.items()) if len({one.address for one in ends.values()}) == len(ends)
    }
    whole = {network: ends for network, ends in real.items() if len(ends) == len(facts)}
    if len(whole) == 1:
        ends = next(iter(whole.values()))
        return [ends[index] for index in range(len(facts))]
    problems.append(_several(whole, facts, files) if whole else _none(real, facts, files))
    return None


def _several(
    whole: Mapping[IPv4Network, Mapping[int, Management]], facts: Sequence[NodeFacts], files: Sequence[str]
) -> Problem:
    return Problem(
        where=files[0],
        message="several networks join all of these machines beside the cables: which is that of management?",
        detail=tuple(f"{network}  {ends[0].interface} of {facts[0].host}" for network, ends in whole.items()),
        hint="name its interface with --interface",
    )


def _none(
    real: Mapping[IPv4Network, Mapping[int, Management]], facts: Sequence[NodeFacts], files: Sequence[str]
) -> Problem:
    networks = [", ".join(str(network) for network, ends in real.items() if at in ends) for at in range(len(facts))]
    return Problem(
        where=files[0],
        message="no network joins all of these machines beside the cables, and they are managed over one",
        detail=tuple(f"{node.host}  {there or 'none'}" for node, there in zip(facts, networks, strict=True)),
        hint="give each an address in one network, or name the interface with --interface",
    )


def _named(
    facts: Sequence[NodeFacts], files: Sequence[str], wanted: str, problems: list[Problem]
) -> list[Management] | None:
    found = []
    for node, file in zip(facts, files, strict=True):
        interface = node.interface(wanted)
        addresses = [IPv4Interface(text).ip for text in interface.addresses] if interface is not None else []
        usable = [str(address) for address in addresses if not address.is_link_local]
        if interface is None:
            there = ", ".join(one.name for one in node.interfaces) or "none"
            message = f"no interface {wanted} on {node.host}"
            problems.append(Problem(where=file, message=message, detail=(f"there are {there}",)))
        elif not usable:
            problems.append(Problem(where=file, message=f"{wanted} of {node.host} has no IPv4 address"))
        else:
            found.append(Management(interface=wanted, address=usable[0]))
    return found if len(found) == len(facts) else None


def gid_index_of(
    node: NodeFacts,
    file: str,
    index: int,
    found: Found,
    problems: list[Problem],
) -> int | None:
    """Return the index at which every cabled device of a node has its address as RoCE v2; None where none is known."""
    ends = [end for paths in found.values() for _, pair_ in paths for end in pair_ if end.node == index]
    at: dict[str, set[int]] = {}
    for end in ends:
        device = node.device(end.device)
        if device is not None and device.gids:
            at[end.device] = {gid.index for gid in device.gids if gid.ipv4 == end.address}
    common = set.intersection(*at.values()) if at else set()
    if at and not common:
        detail = tuple(f"{name}  {', '.join(map(str, sorted(there))) or 'none'}" for name, there in sorted(at.items()))
        message = f"the devices of {node.host} have their RoCE v2 addresses at no common index"
        problems.append(
            Problem(where=file, message=message, detail=detail, hint="bring the links down and up together")
        )
    return min(common) if common else None
