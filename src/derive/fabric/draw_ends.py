# SPDX-License-Identifier: Apache-2.0
"""What drawings of a site say of its cables: each end of each path, in words and as a table.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from derive.fabric.cabling import MTU
from derive.fabric.draw_canvas import Ink, inked
from derive.fabric.site import Cable, End, Path, Site
from derive.words import columns

Side: TypeAlias = Literal["left", "right"]

PATH_INKS: tuple[Ink, ...] = ("path1", "path2")
_NUMBERS = {3: "three", 4: "four"}


def headline(site: Site) -> str:
    """Return what a site is, in one line."""
    form = "in a ring" if site.cabling == "ring4" else "in a triangle"
    count = _NUMBERS.get(len(site.nodes), str(len(site.nodes)))
    return f"{site.name}: {count} Sparks {form}, head {site.nodes[0].name}, MTU {MTU}"


def cable_of(site: Site, one: int, other: int) -> Cable | None:
    """Return the cable between two ranks."""
    return next((cable for cable in site.cables if set(cable.ranks) == {one, other}), None)


def port_of(cable: Cable, rank: int) -> int:
    """Return the cage that a cable is in at a rank."""
    return cable.ports[cable.ranks.index(rank)]


def ends_from(path: Path, rank: int) -> tuple[End, End]:
    """Return the ends of a path, that at a rank first."""
    return path.ends if path.ends[0].rank == rank else path.ends[::-1]


def cable_tables(site: Site, width: int, *, colour: bool) -> Iterator[str]:
    """Yield each cable with every end of its paths."""
    found = [_Rows.of(site, cable) for cable in site.cables]
    wide = columns([row for one in found for row in one.wide])
    narrow = columns([row for one in found for row in one.narrow])
    use_wide = all(len(line) + 2 <= width for line in wide)
    lines = iter(wide if use_wide else narrow)
    for one in found:
        inks = one.inks if use_wide else [ink for ink in one.inks for _ in range(2)]
        shown = [f"  {inked(next(lines), ink, colour=colour)}" for ink in inks]
        yield "\n".join([inked(one.title, "strong", colour=colour), *shown])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """A cable in the table: one row for each path where the terminal is wide, and else two."""

    title: str
    inks: tuple[Ink, ...]
    wide: tuple[tuple[str, ...], ...]
    narrow: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, site: Site, cable: Cable) -> _Rows:
        one, other = (site.nodes[rank] for rank in cable.ranks)
        wide, narrow = [], []
        for path in cable.paths:
            here, there = ends_from(path, cable.ranks[0])
            left, right = (here.interface, here.device, here.address), (there.address, there.device, there.interface)
            wide.append((f"path {path.number}", path.subnet, *left, "──", *right))
            narrow.append((f"path {path.number}", path.subnet, one.name, here.address, here.device, here.interface))
            narrow.append(("", "", other.name, there.address, there.device, there.interface))
        return cls(
            title=f"{one.name} port {cable.ports[0]} ── port {cable.ports[1]} {other.name}",
            inks=tuple(PATH_INKS[index % 2] for index in range(len(cable.paths))),
            wide=tuple(wide),
            narrow=tuple(narrow),
        )
