# SPDX-License-Identifier: Apache-2.0
"""The rules that every site obeys, as a table, and the judges of its machines; those of its cables stand apart.

Core: no IO. Standard library only.

The abstract site says nothing, and so breaks none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from derive.errors import Problem, expected_got
from derive.fabric import cable_rules as of_cables
from derive.fabric.cabling import NODES
from derive.fabric.rule import SiteInput, SiteRule
from derive.fabric.site import Cabling
from derive.fabric.site_addresses import unless_abstract, unusable


def breaches(given: SiteInput, *, of_cables: bool = True) -> list[Problem]:
    """Return each breach of a site; without ``of_cables``, of the rules about machines alone."""
    rules = SITE_RULES if of_cables else NODE_RULES
    return [problem for rule in rules for problem in rule.judge(given)]


TWO = (
    "two Sparks are refused: over two ranks the weights alone would take about 145 GiB of each, and a Spark has "
    "119.7 GiB that can be used (97.5 GiB of weights a rank over three, 73.6 GiB over four)"
)


def _count_problems(count: int, cabling: Cabling, file: str) -> Iterator[Problem]:
    if count not in NODES.values():
        yield _refused(count, f"{file}: nodes")
    elif count != NODES[cabling]:
        right = next(name for name, wanted in NODES.items() if wanted == count)
        yield Problem(
            where=f"{file}: cabling",
            message=f"a {cabling} has another number of nodes",
            detail=expected_got(f"{NODES[cabling]} nodes", f"{count} nodes"),
            hint=f'{count} Sparks are cabled as cabling = "{right}"',
        )


def _refused(count: int, where: str) -> Problem:
    if count == 2:
        return Problem(where=where, message=TWO, hint="add a third Spark, with a cable from it to each of the two")
    words = {0: "no Sparks are", 1: "one Spark is", 5: "five Sparks are", 6: "six Sparks are"}
    message = (
        f"{words.get(count, f'{count} Sparks are')} refused: three are cabled as a triangle and four as a ring, and "
        "no transport knows another way without a switch"
    )
    return Problem(where=where, message=message, hint="name three nodes, or four")


@unless_abstract
def node_count(given: SiteInput) -> Iterator[Problem]:
    """Judge the number of nodes."""
    yield from _count_problems(len(given.site.nodes), given.site.cabling, given.file)


@unless_abstract
def ranks(given: SiteInput) -> Iterator[Problem]:
    """Judge whether ranks go by the nodes' order."""
    for place, node in enumerate(given.site.nodes):
        if node.rank != place:
            detail = expected_got(f"rank {place}", f"rank {node.rank}")
            yield Problem(where=given.at(f"nodes[{place}]"), message="ranks go by the nodes' order", detail=detail)


def _twice(given: SiteInput, key: str, values: Iterable[str], what: str) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, value in enumerate(values):
        if value in seen:
            yield Problem(
                where=given.at(f"nodes[{index}].{key}"),
                message=f"{value} is the {what} of two nodes",
                detail=(f"also of   nodes[{seen[value]}]",),
            )
        seen.setdefault(value, index)


@unless_abstract
def names(given: SiteInput) -> Iterator[Problem]:
    """Judge whether names are distinct."""
    yield from _twice(given, "name", (node.name for node in given.site.nodes), "name")
    yield from _alike(given)


def _alike(given: SiteInput) -> Iterator[Problem]:
    """Yield names that are one on a file system, or for a resolver, that does not tell capital letters from small."""
    seen: dict[str, tuple[int, str]] = {}
    for index, node in enumerate(given.site.nodes):
        other, name = seen.setdefault(node.name.lower(), (index, node.name))
        if name != node.name:
            yield Problem(
                where=given.at(f"nodes[{index}].name"),
                message=f"{node.name} is the name of another node, but for capital letters",
                detail=(f"{name} is   nodes[{other}]",),
            )


@unless_abstract
def management(given: SiteInput) -> Iterator[Problem]:
    """Judge the addresses of the management network."""
    yield from _twice(given, "address", (node.address for node in given.site.nodes), "management address")
    for index, node in enumerate(given.site.nodes):
        said = unusable(node.address)
        if said is not None:
            yield Problem(where=given.at(f"nodes[{index}].address"), message=f"{node.address} {said}")


@unless_abstract
def ssh_hosts(given: SiteInput) -> Iterator[Problem]:
    """Judge whether SSH hosts are distinct."""
    # Two nodes of one name are said to be that, and nothing else.
    names = [node.name for node in given.site.nodes]
    if len(set(names)) == len(names):
        yield from _twice(given, "ssh-host", (node.ssh_host for node in given.site.nodes), "SSH host")


NODE_RULES: tuple[SiteRule, ...] = (
    SiteRule(
        id="fabric.node-count",
        why="three Sparks are cabled as a triangle and four as a ring; no other number has a cabling without a switch",
        fix="name three nodes for a triangle, four for a ring",
        judge=node_count,
    ),
    SiteRule(
        id="fabric.ranks",
        why="the order of the nodes is the order of the cables and of the ranks, and the first is the head",
        fix="number ranks from 0 in the order of the nodes",
        judge=ranks,
    ),
    SiteRule(
        id="fabric.names-distinct",
        why="commands, launch files and evidence name a machine by its name alone",
        fix="give each node a name of its own",
        judge=names,
    ),
    SiteRule(
        id="fabric.management-addresses",
        why="each rank announces its management address to the others; one that two share, or that routes nowhere, "
        "makes them wait for each other",
        fix="give each node the address that the others reach it at over the management network",
        judge=management,
    ),
    SiteRule(
        id="fabric.ssh-hosts",
        why="one machine reached twice would be prepared twice, and another never",
        fix="give each node an ssh-host of its own",
        judge=ssh_hosts,
    ),
)

SITE_RULES: tuple[SiteRule, ...] = (
    *NODE_RULES,
    SiteRule(
        id="fabric.peers",
        why="collectives go through cables: with a triangle every rank has one to every other, with a ring to the rank "
        "before it and after it, and to no other",
        fix="name a cable for each neighbouring pair of nodes, going round",
        judge=of_cables.cabled,
    ),
    SiteRule(
        id="fabric.stripes",
        why="a cable carries two paths at most, one for each PCIe root, and both ends count them alike",
        fix="give each cable one path or two",
        judge=of_cables.stripes,
    ),
    SiteRule(
        id="fabric.ports",
        why="a cage holds one cable",
        fix="say which cage each end of the cable is in",
        judge=of_cables.cages,
    ),
    SiteRule(
        id="fabric.device-one-peer",
        why="an RDMA device behind a cable reaches the machine at the other end and no other",
        fix="name for each path a device that no other path of that node names",
        judge=of_cables.devices,
    ),
    SiteRule(
        id="fabric.interface-one-path",
        why="an interface has the address of one path, and that of the management network has none of them",
        fix="name for each path an interface that no other path of that node names",
        judge=of_cables.interfaces,
    ),
    SiteRule(
        id="fabric.subnets",
        why="NCCL tells by the first 24 bits of its addresses which devices reach each other: a subnet is at the two "
        "ends of one path and nowhere else",
        fix="give each path a /24 of its own, such as 10.12.1.0/24 for path 1 between nodes 1 and 2",
        judge=of_cables.subnets,
    ),
    SiteRule(
        id="fabric.addresses",
        why="two ends reach each other only with two addresses of their path's subnet",
        fix="give each end an address in the subnet of its path",
        judge=of_cables.addresses,
    ),
)
