# SPDX-License-Identifier: Apache-2.0
"""What a cabling is: which ranks it joins, through which cages, and what devices, interfaces and subnets are called.

Core: no IO. Standard library only.

A Spark has two cages. Behind each lie two network devices, on two PCIe roots, and so a cable has two paths.
"""

from __future__ import annotations

from typing import get_args

from derive.fabric.site import Cabling

CABLINGS: tuple[Cabling, ...] = get_args(Cabling)
NODES: dict[Cabling, int] = {"triangle": 3, "ring4": 4}
MTU = 9000
"""Bytes of a frame on every path; a ping that may not be split carries 28 less."""
PREFIX_LENGTH = 24
PATHS = (1, 2)
_ROOTS = {1: ("p1", "rocep1"), 2: ("P2p1", "roceP2p1")}


def edges(nodes: int) -> tuple[tuple[int, int], ...]:
    """Return the pairs of ranks that cables join, the lower first, in order: each rank and the next, round.

    With three nodes that is every pair.
    """
    return tuple(sorted(((rank, rank + 1) if rank + 1 < nodes else (0, rank)) for rank in range(nodes)))


def default_ports(ranks: tuple[int, int], nodes: int) -> tuple[int, int]:
    """Return the cages of a cable: cage 0 leads to the next rank, cage 1 to the one before."""
    low, high = ranks
    return (0, 1) if (low + 1) % nodes == high else (1, 0)


def default_device(port: int, path: int) -> str:
    """Return the RDMA device of a path behind a cage, as the machine calls it."""
    return f"{_ROOTS[path][1]}s0f{port}"


def default_interface(port: int, path: int) -> str:
    """Return the network interface of a path behind a cage, as the machine calls it."""
    return f"en{_ROOTS[path][0]}s0f{port}np{port}"


def default_subnet(ranks: tuple[int, int], path: int) -> str:
    """Return the subnet of a path: ``10.<a><b>.<path>.0/24``, with a < b the nodes' numbers, counted from 1."""
    return f"10.{ranks[0] + 1}{ranks[1] + 1}.{path}.0/{PREFIX_LENGTH}"


def default_address(ranks: tuple[int, int], path: int, rank: int) -> str:
    """Return the address of a rank's end of a path: ``10.<a><b>.<path>.<node>``."""
    return f"10.{ranks[0] + 1}{ranks[1] + 1}.{path}.{rank + 1}"
