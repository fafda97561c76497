# SPDX-License-Identifier: Apache-2.0
"""Cables from the facts of several machines: two ends in one subnet are the two ends of one path.

Core: no IO. Standard library only.

Nothing depends on the order in which a machine lists its devices: paths are paired by their subnets, cable by cable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from derive.errors import InputErrors, Problem
from derive.fabric.cabling import default_ports, edges
from derive.fabric.facts import NodeFacts
from derive.fabric.pairing_ends import Found, Ignored, Seen, networks_of, paths_of
from derive.fabric.pairing_management import Management, gid_index_of, management_of
from derive.fabric.site import Cable, End, Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """What facts come to. ``nodes`` are in order of rank; ``reordered`` says whether the files were in another order.

    ``gid_indices`` has None for a node whose tables of addresses are not known.
    """

    nodes: tuple[NodeFacts, ...]
    reordered: bool
    management: tuple[Management, ...]
    cables: tuple[Cable, ...]
    gid_indices: tuple[int | None, ...]
    ignored: tuple[Ignored, ...]


def pair(facts: Sequence[NodeFacts], files: Sequence[str], interface: str | None = None) -> Paired:
    """Pair ports into cables, and put nodes in the order of a round along them.

    ``files`` are what messages call the facts; ``interface`` is that of the management network where there are several
    that all nodes are in. Cables that a cabling would need and that are not there are left to whoever judges the site.

    Raises:
        InputErrors: every problem: two machines of one name, a subnet of three ends, no management network, ...
    """
    problems = list(_same_hosts(facts, files))
    if problems:
        raise InputErrors(problems)
    ignored: list[Ignored] = []
    networks = networks_of(facts, ignored)
    found = dict(paths_of(networks, facts, files, ignored, problems))
    management = management_of(facts, files, interface, set(networks), problems)
    gids = [gid_index_of(node, files[index], index, found, problems) for index, node in enumerate(facts)]
    if problems or management is None:
        raise InputErrors(problems)
    order = _round(facts, found)
    rank_of = {node: rank for rank, node in enumerate(order)}
    return Paired(
        nodes=tuple(facts[node] for node in order),
        reordered=list(order) != sorted(order),
        management=tuple(management[node] for node in order),
        cables=tuple(sorted(_cables(found, rank_of), key=lambda cable: cable.ranks)),
        gid_indices=tuple(gids[node] for node in order),
        ignored=tuple(ignored),
    )


def _same_hosts(facts: Sequence[NodeFacts], files: Sequence[str]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for node, file in zip(facts, files, strict=True):
        if node.host in seen:
            message = f"the facts of {node.host} a second time"
            yield Problem(where=file, message=message, detail=(f"first     {seen[node.host]}",))
        seen.setdefault(node.host, file)


def _round(facts: Sequence[NodeFacts], found: Found) -> tuple[int, ...]:
    """Return the nodes in an order in which each has a cable to the next: the given one if it is such, else another.

    The first stays first, as the head; of the two ways round, the one that leaves it by cage 0.
    """
    count = len(facts)
    given = tuple(range(count))
    if count < 3 or _goes_round(given, found):
        return given
    others = [(0, *rest) for rest in permutations(range(1, count)) if _goes_round((0, *rest), found)]
    if not others:
        return given

    def by_cage_0(order: tuple[int, ...]) -> bool:
        low, high = sorted(order[:2])
        ends = [end for _, pair_ in found[low, high] for end in pair_ if end.node == order[0]]
        return all(end.port == 0 for end in ends)

    return next((order for order in others if by_cage_0(order)), others[0])


def _goes_round(order: tuple[int, ...], found: Mapping[tuple[int, int], object]) -> bool:
    return all(tuple(sorted((order[a], order[b]))) in found for a, b in edges(len(order)))


def _cables(found: Found, rank_of: Mapping[int, int]) -> Iterator[Cable]:
    for nodes, paths in found.items():
        turned = rank_of[nodes[0]] > rank_of[nodes[1]]
        low, high = sorted(rank_of[node] for node in nodes)
        rows = [(network, (ends[1], ends[0]) if turned else ends) for network, ends in paths]
        usual = default_ports((low, high), len(rank_of))
        sides = [[ends[side].port for _, ends in rows] for side in (0, 1)]
        ports = tuple(
            known if len(set(side)) == 1 and (known := side[0]) is not None else usual[at]
            for at, side in enumerate(sides)
        )
        yield Cable(
            ranks=(low, high),
            ports=(ports[0], ports[1]),
            paths=tuple(
                Path(number=number, subnet=str(network), ends=(_end(ends[0], low), _end(ends[1], high)))
                for number, (network, ends) in enumerate(rows, start=1)
            ),
        )


def _end(seen: Seen, rank: int) -> End:
    return End(rank=rank, device=seen.device, interface=seen.interface, address=seen.address)
