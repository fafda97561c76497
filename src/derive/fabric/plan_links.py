# SPDX-License-Identifier: Apache-2.0
"""What the bytes of a collective go through: cables, and the PCIe roots that the two cages of a machine share.

Core: no IO. Standard library only.

A cable has two paths, one over each PCIe root of the network card, and what is sent is striped over both. A root is
thus shared by both cages: it can be full while neither cable is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from derive.fabric.plan_count import ELEMENT_BYTES, Counts, Way, shares
from derive.fabric.site import Site

Kind: TypeAlias = Literal["cable", "root"]

_DEVICE = re.compile(r"(.+)f\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What each kind of link carries one way, in bytes per second, by its specification."""

    cable: int
    root: int

    def of(self, kind: Kind) -> int:
        """Return the rate of a kind."""
        return self.cable if kind == "cable" else self.root


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one link carries one way in one collective, and for how long at its rate.

    ``ranks`` are both ends of a cable, the sender first; or the one machine of a root, ``where`` then ``NAME out`` or
    ``NAME in``: out of the machine's memory and into it.
    """

    kind: Kind
    ranks: tuple[int, ...]
    where: str
    size_bytes: int
    time_s: Fraction


def cable_ways(site: Site) -> tuple[Way, ...]:
    """Return the pairs of ranks that a site has cables between."""
    return tuple(cable.ranks for cable in site.cables)


def loads(site: Site, counts: Counts, rates: Rates) -> tuple[Load, ...]:
    """Return what each link of a site carries: all cables, then all roots, idle ones too."""
    return (*_cable_loads(site, counts, rates), *_root_loads(site, counts, rates))


def limiting(carried: tuple[Load, ...]) -> tuple[Load, int]:
    """Return the link that is busy longest, and how many others are so for as long."""
    most = max(load.time_s for load in carried)
    busiest = [load for load in carried if load.time_s == most]
    return busiest[0], len(busiest) - 1


def root_name(device: str, path: int) -> str:
    """Return the PCIe root that an RDMA device hangs on: its name without the function that is its cage.

    A device whose name does not tell is on the root of its path's number, as paths are counted.
    """
    match = _DEVICE.fullmatch(device)
    return match[1] if match else f"path {path}"


def _cable_loads(site: Site, counts: Counts, rates: Rates) -> Iterator[Load]:
    for cable in site.cables:
        for way in (cable.ranks, cable.ranks[::-1]):
            size = counts.carried[way]
            where = f"{site.nodes[way[0]].name} to {site.nodes[way[1]].name}"
            yield Load(kind="cable", ranks=way, where=where, size_bytes=size, time_s=Fraction(size, rates.cable))


def _root_loads(site: Site, counts: Counts, rates: Rates) -> Iterator[Load]:
    """Yield what leaves each machine by each of its roots and enters it, in order of ranks and of paths."""
    found: dict[tuple[int, str], dict[str, int]] = {}
    for cable in site.cables:
        for way in (cable.ranks, cable.ranks[::-1]):
            leaving, entering = (_stripes(size[way], len(cable.paths)) for size in (counts.sent, counts.taken))
            for index, path in enumerate(cable.paths):
                for end in path.ends:
                    root = found.setdefault((end.rank, root_name(end.device, path.number)), {"out": 0, "in": 0})
                    if end.rank == way[0]:
                        root["out"] += leaving[index]
                    else:
                        root["in"] += entering[index]
    for (rank, name), sides in sorted(found.items(), key=lambda item: item[0][0]):
        for side, size in sides.items():
            time_s = Fraction(size, rates.root)
            yield Load(kind="root", ranks=(rank,), where=f"{name} {side}", size_bytes=size, time_s=time_s)


def _stripes(size: int, paths: int) -> tuple[int, ...]:
    """Divide what a cable carries over its paths; every piece, and so every sum of pieces, is whole elements."""
    return tuple(ELEMENT_BYTES * share for share in shares(size // ELEMENT_BYTES, paths))
