# SPDX-License-Identifier: Apache-2.0
"""The ends of cables, as the facts of several machines show them: two in one subnet are the two of one path.

Core: no IO. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network
from typing import TypeAlias

from derive.errors import Problem
from derive.fabric.cabling import PATHS, PREFIX_LENGTH
from derive.fabric.facts import NodeFacts

_PORT = re.compile(r"f([01])(np[01])?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """An address behind an RDMA device that is no end of a cable, and why."""

    node: str
    device: str
    interface: str
    address: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An address behind an RDMA device; ``node`` counts machines as they were given."""

    node: int
    device: str
    interface: str
    address: str

    @property
    def port(self) -> int | None:
        """The cage that the device or interface is behind, where its name tells."""
        match = _PORT.search(self.device) or _PORT.search(self.interface)
        return int(match.group(1)) if match is not None else None


Ends: TypeAlias = "tuple[Seen, Seen]"
Found: TypeAlias = "Mapping[tuple[int, int], list[tuple[IPv4Network, Ends]]]"
"""The paths between each two machines, the earlier one first: subnets, in order, with the end at each."""


def networks_of(facts: Sequence[NodeFacts], ignored: list[Ignored]) -> dict[IPv4Network, list[Seen]]:
    """Return the ends behind RDMA devices by their subnets."""
    networks: dict[IPv4Network, list[Seen]] = {}
    for index, node in enumerate(facts):
        for device in node.devices:
            for name in device.interfaces:
                interface = node.interface(name)
                addresses = interface.addresses if interface is not None else ()
                for text in addresses or (None,):
                    reason = _reason(text)
                    if reason is not None or text is None:
                        ignored.append(
                            Ignored(
                                node=node.host, device=device.name, interface=name, address=text, reason=reason or ""
                            )
                        )
                        continue
                    address = IPv4Interface(text)
                    seen = Seen(node=index, device=device.name, interface=name, address=str(address.ip))
                    networks.setdefault(address.network, []).append(seen)
    return networks


def _reason(text: str | None) -> str | None:
    if text is None:
        return "it has no IPv4 address"
    address = IPv4Interface(text)
    if address.ip.is_link_local:
        return "a link-local address: nobody gave it one of its own"
    if address.network.prefixlen != PREFIX_LENGTH:
        return f"its subnet has {address.network.prefixlen} bits, and a path's has {PREFIX_LENGTH}"
    return None


def paths_of(
    networks: Mapping[IPv4Network, list[Seen]],
    facts: Sequence[NodeFacts],
    files: Sequence[str],
    ignored: list[Ignored],
    problems: list[Problem],
) -> Iterator[tuple[tuple[int, int], list[tuple[IPv4Network, Ends]]]]:
    """Yield the paths between each two nodes, by subnet, the lower node's end first."""
    between: dict[tuple[int, int], list[tuple[IPv4Network, Ends]]] = {}
    for network, ends in sorted(networks.items()):
        if len(ends) == 1:
            ignored.append(_alone(ends[0], network, facts))
        elif len(ends) > 2 or ends[0].node == ends[1].node:
            detail = tuple(f"{facts[end.node].host}  {end.device} {end.address}" for end in ends)
            message = f"{network} has {len(ends)} ends, and a path has two, on two machines"
            hint = "give each path a subnet of its own"
            problems.append(Problem(where=files[ends[-1].node], message=message, detail=detail, hint=hint))
        else:
            between.setdefault((ends[0].node, ends[1].node), []).append((network, (ends[0], ends[1])))
    for pair_, paths in between.items():
        if len(paths) > len(PATHS):
            message = f"{len(paths)} subnets join {facts[pair_[0]].host} and {facts[pair_[1]].host}"
            detail = tuple(str(network) for network, _ in paths)
            problems.append(
                Problem(where=files[pair_[1]], message=f"{message}, and a cable has two paths at most", detail=detail)
            )
        yield pair_, paths


def _alone(end: Seen, network: IPv4Network, facts: Sequence[NodeFacts]) -> Ignored:
    return Ignored(
        node=facts[end.node].host,
        device=end.device,
        interface=end.interface,
        address=f"{end.address}/{network.prefixlen}",
        reason=f"no other of these machines is in {network}",
    )
