# SPDX-License-Identifier: Apache-2.0
"""A site: the machines of one place and the cables between them, as values.

Core: no IO. Standard library only.

The *abstract site* of a cabling has the same form, with ``${site:nodes[0].address}`` for what a site would say: launch
files written for it are the shape's, and belong to no place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Cabling: TypeAlias = Literal["triangle", "ring4"]


def is_loopback(host: str) -> bool:
    """Say whether a host of a reference to an image is the machine itself, with which Docker speaks plain HTTP."""
    return host == "localhost" or host.startswith("127.")


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One end of a path: the node's rank, its RDMA device, its network interface, and its IPv4 address."""

    rank: int
    device: str
    interface: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One of the two paths (stripes) through a cable: ``number`` 1 or 2, an IPv4 subnet, an end at each side."""

    number: int
    subnet: str
    ends: tuple[End, End]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """A cable between two ranks, the lower first; ``ports`` are the cages (0 or 1) that it is in."""

    ranks: tuple[int, int]
    ports: tuple[int, int]
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine. ``address`` is that of the management network; ``gid_index`` is text, as environments are."""

    name: str
    rank: int
    address: str
    interface: str
    ssh_host: str
    gid_index: str
    traffic_class: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One place. ``nodes`` in order of rank, the head first.

    ``folder`` is where launch files, caches and evidence lie on each node; ``models`` where checkpoints do, as a
    Hugging Face cache; ``images`` the registry and folder that images are pulled from: one on loopback is served by
    whoever deploys, through each node's SSH connection.
    """

    name: str
    cabling: Cabling
    ssh_user: str
    home: str
    folder: str
    models: str
    images: str
    nodes: tuple[Node, ...]
    cables: tuple[Cable, ...]
    shapes: tuple[tuple[str, str], ...] = ()
    """Pairs of a recipe's name and the shape of it that this site has picked."""
    example: bool = False
    """Whether this is an example of ``fabric/``, whose addresses are those of documentation."""

    @property
    def images_port(self) -> int | None:
        """Return the port of a node's loopback at which images are to be served, or None where a registry has them."""
        host, _, port = self.images.partition("/")[0].partition(":")
        return int(port) if is_loopback(host) else None

    def paths_of(self, rank: int) -> tuple[tuple[Cable, Path, End, End], ...]:
        """Return each path that ends at a rank: its cable, itself, the end here, and the end there."""
        found = []
        for cable in self.cables:
            for path in cable.paths:
                for here, there in (path.ends, path.ends[::-1]):
                    if here.rank == rank:
                        found.append((cable, path, here, there))
        return tuple(found)
