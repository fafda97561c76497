# SPDX-License-Identifier: Apache-2.0
"""Judges of a site's cables: which there are, their cages, devices, interfaces, subnets and addresses.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Network

from derive.errors import Problem, expected_got
from derive.fabric.cabling import NODES, PREFIX_LENGTH, edges
from derive.fabric.rule import SiteInput
from derive.fabric.site import Cable, End, Path
from derive.fabric.site_addresses import LINK_LOCAL, address_of, network_of, strict_hint, unless_abstract, unusable


def _ends(given: SiteInput) -> Iterator[tuple[int, Cable, int, Path, int, End]]:
    """Yield each end: index and cable, index and path, side and end; of cables that are there twice, the first."""
    for index, cable in _cables(given):
        for number, path in enumerate(cable.paths):
            for side, end in enumerate(path.ends):
                yield index, cable, number, path, side, end


def _cables(given: SiteInput) -> Iterator[tuple[int, Cable]]:
    """Yield the cables, without those that one between the same nodes went before: one judge says that."""
    seen: set[tuple[int, int]] = set()
    for index, cable in enumerate(given.site.cables):
        if cable.ranks not in seen:
            yield index, cable
        seen.add(cable.ranks)


@unless_abstract
def cabled(given: SiteInput) -> Iterator[Problem]:
    """Judge whether there is a cable where the cabling has one, and nowhere else."""
    wanted = set(edges(len(given.site.nodes))) if len(given.site.nodes) == NODES[given.site.cabling] else None
    if wanted is None:
        return
    seen: dict[tuple[int, int], int] = {}
    for index, cable in enumerate(given.site.cables):
        if cable.ranks in seen:
            other = given.at_cable(seen[cable.ranks]).rpartition(": ")[2]
            message = f"a second cable between {given.between(cable)}"
            yield Problem(where=given.at_cable(index), message=message, detail=(f"the first {other}",))
        elif cable.ranks not in wanted:
            yield Problem(
                where=given.at_cable(index),
                message=f"a {_word(given)} has no cable between {given.between(cable)}",
                hint="the order of the nodes is the order of the cables: name the nodes as one meets them going round",
            )
        seen.setdefault(cable.ranks, index)
    missing = sorted(wanted - seen.keys())
    if missing:
        pairs = "; ".join(f"{given.name(a)} and {given.name(b)}" for a, b in missing)
        chain = f": this is a chain, and no {_word(given)}" if len(missing) == 1 and not seen.keys() - wanted else ""
        yield Problem(where=given.at("cables"), message=f"no cable between {pairs}{chain}")


def _word(given: SiteInput) -> str:
    return "triangle" if given.site.cabling == "triangle" else "ring"


@unless_abstract
def stripes(given: SiteInput) -> Iterator[Problem]:
    """Judge the paths of each cable."""
    for index, cable in enumerate(given.site.cables):
        if not 1 <= len(cable.paths) <= 2 or [path.number for path in cable.paths] != [*range(1, len(cable.paths) + 1)]:
            yield Problem(
                where=given.at_cable(index, "paths"),
                message="a cable has one path or two, numbered from 1",
                detail=expected_got("1 or 2 paths", f"{len(cable.paths)} paths"),
            )
        for number, path in enumerate(cable.paths):
            if tuple(end.rank for end in path.ends) != cable.ranks:
                place = given.at_cable(index, f"paths[{number}]")
                yield Problem(where=place, message="a path ends where its cable does not")


@unless_abstract
def cages(given: SiteInput) -> Iterator[Problem]:
    """Judge whether each cage has one cable."""
    seen: dict[tuple[int, int], int] = {}
    for index, cable in _cables(given):
        for side, (rank, port) in enumerate(zip(cable.ranks, cable.ports, strict=True)):
            if (rank, port) in seen:
                other = given.between(given.site.cables[seen[rank, port]])
                yield Problem(
                    where=given.at_cable(index, "ports"),
                    message=f"port {port} of {given.name(rank)} has two cables",
                    detail=(f"also      the one between {other}",),
                    hint=f"the cable between {given.between(cable)} is in the other port of "
                    f"{given.name(cable.ranks[side])}",
                )
            seen.setdefault((rank, port), index)


@unless_abstract
def devices(given: SiteInput) -> Iterator[Problem]:
    """Judge whether each RDMA device serves one path."""
    yield from _used_once(given, "devices", lambda end: end.device, "device")


@unless_abstract
def interfaces(given: SiteInput) -> Iterator[Problem]:
    """Judge whether each interface serves one path, and none the management network's."""
    yield from _used_once(given, "interfaces", lambda end: end.interface, "interface")
    for index, _, number, _, _, end in _ends(given):
        if end.rank < len(given.site.nodes) and end.interface == given.site.nodes[end.rank].interface:
            yield Problem(
                where=given.at_cable(index, f"paths[{number}].interfaces"),
                message=f"{end.interface} of {given.name(end.rank)} is its management interface",
            )


def _used_once(given: SiteInput, key: str, of: Callable[[End], str], what: str) -> Iterator[Problem]:
    seen: dict[tuple[int, str], tuple[int, int]] = {}
    cages_: dict[tuple[int, int], int] = {}
    for index, cable, number, path, side, end in _ends(given):
        if cages_.setdefault((end.rank, cable.ports[side]), index) != index:
            continue  # in a cage that is taken: what is behind it is another's, and the cage is said
        used = (end.rank, of(end))
        if used in seen:
            peer = given.name(path.ends[1 - side].rank)
            first = seen[used]
            before = given.site.cables[first[0]].paths[first[1]]
            other = next(given.name(one.rank) for one in before.ends if one.rank != end.rank)
            both = f"serves two peers, {other} and {peer}" if other != peer else f"serves two paths to {peer}"
            yield Problem(
                where=given.at_cable(index, f"paths[{number}].{key}"),
                message=f"{what} {of(end)} of {given.name(end.rank)} {both}",
            )
        seen.setdefault(used, (index, number))


@unless_abstract
def subnets(given: SiteInput) -> Iterator[Problem]:
    """Judge the subnets of paths."""
    seen: dict[IPv4Network, str] = {}
    for index, cable in _cables(given):
        for number, path in enumerate(cable.paths):
            place = given.at_cable(index, f"paths[{number}].subnet")
            network = network_of(path.subnet)
            if network is None:
                yield Problem(
                    where=place,
                    message=f"{path.subnet} is no subnet of {PREFIX_LENGTH} bits with the others zero",
                    hint=strict_hint(path.subnet),
                )
                continue
            said = unusable(str(network.network_address), subnet=True)
            if said is not None:
                yield Problem(where=place, message=f"{path.subnet} {said}")
            if network in seen:
                yield Problem(
                    where=place,
                    message=f"{path.subnet} is the subnet of two paths",
                    detail=(f"also of   {seen[network]}",),
                    hint="a subnet is at the two ends of one path, and nowhere else",
                )
            seen.setdefault(network, place.rpartition(": ")[2])
            for rank, node in enumerate(given.site.nodes):
                address = address_of(node.address)
                if address is not None and address in network:
                    message = f"the management address of {node.name} lies in the subnet of a cable, {path.subnet}"
                    yield Problem(where=given.at(f"nodes[{rank}].address"), message=message)


@unless_abstract
def addresses(given: SiteInput) -> Iterator[Problem]:
    """Judge the addresses at the ends of paths."""
    seen: dict[str, str] = {}
    for index, _, number, path, _, end in _ends(given):
        place = given.at_cable(index, f"paths[{number}].addresses")
        name = given.name(end.rank)
        address, network = address_of(end.address), network_of(path.subnet)
        if address is None or network is None:
            if address is None:
                yield Problem(where=place, message=f"{end.address} of {name} is no IPv4 address")
        elif address.is_link_local:
            yield Problem(where=place, message=f"{end.address} of {name} {LINK_LOCAL}")
        elif address not in network:
            detail = expected_got(path.subnet, end.address)
            yield Problem(where=place, message=f"the address of {name} is outside its subnet", detail=detail)
        elif address in (network.network_address, network.broadcast_address):
            yield Problem(where=place, message=f"{end.address} of {name} is no address of a host in {path.subnet}")
        elif end.address in seen:
            message = f"{end.address} of {name} is the address of two ends"
            yield Problem(where=place, message=message, detail=(f"also of   {seen[end.address]}",))
        seen.setdefault(end.address, name)
