# SPDX-License-Identifier: Apache-2.0
"""What the lab is called, and who is in it: cables, names, addresses, and where it lies on this machine.

Cages and interfaces are named as on a Spark. Cage 0 of each node leads to the next one, cage 1 to the one before.
There is one lab at a time on a machine, unless DERIVE_LAB gives another one a name of its own.

Edge: reads the environment.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Cabling = Literal["triangle", "ring4"]
Init = Literal["systemd", "tini"]
Images = Literal["overlay2", "containerd"]

NAME: Final = "-".join(["derive-lab", *filter(None, [os.environ.get("DERIVE_LAB")])])
FOLDER: Final = Path("/var/tmp", NAME)
"""Where the lab lies. Its path is short, for sockets have their names in it."""
LOCK: Final = f"\0{NAME}"
GROUP: Final = NAME
"""The control group that holds all its processes."""

OPERATOR: Final = "operator"
OPERATOR_ID: Final = 2000
HOME: Final = Path("/home/operator")
PROJECT: Final = HOME / "project"
STORE: Final = HOME / "store"
SITE: Final = HOME / ".config/derive/site.toml"
MANAGEMENT: Final = "enP7s7"
MTU: Final = 9000
GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Path2:
    """One of the two paths of a cable: its number and, for either end, interface, RDMA device and address."""

    number: int
    interfaces: tuple[str, str]
    devices: tuple[str, str]
    addresses: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """A cable from cage 0 of its first node to cage 1 of its second."""

    ends: tuple[str, str]
    paths: tuple[Path2, Path2]


def names(cabling: Cabling) -> tuple[str, ...]:
    """Return the nodes of a cabling, the head first."""
    return tuple(f"spark{number}" for number in range(1, 5 if cabling == "ring4" else 4))


def address(name: str) -> str:
    """Return a node's address in the management network, without the length of its prefix."""
    return f"10.0.1.{70 + int(name.removeprefix('spark'))}"


def cables(cabling: Cabling) -> tuple[Cable, ...]:
    """Return the cables, from each node to the next and from the last to the first."""
    there = names(cabling)
    return tuple(_cable(one, there[(index + 1) % len(there)]) for index, one in enumerate(there))


def _cable(one: str, other: str) -> Cable:
    first, second = int(one[-1]), int(other[-1])
    low, high = sorted((first, second))
    return Cable(
        ends=(one, other),
        paths=(
            _path(1, "p1s0f", f"10.{low}{high}.1", (first, second)),
            _path(2, "P2p1s0f", f"10.{low}{high}.2", (first, second)),
        ),
    )


def _path(number: int, place: str, subnet: str, ends: tuple[int, int]) -> Path2:
    return Path2(
        number=number,
        interfaces=(f"en{place}0np0", f"en{place}1np1"),
        devices=(f"roce{place}0", f"roce{place}1"),
        addresses=(f"{subnet}.{ends[0]}", f"{subnet}.{ends[1]}"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKind:
    """What a node is made with: its first process, and its engine's store of images."""

    init: Init = "systemd"
    images: Images = "overlay2"
