# SPDX-License-Identifier: Apache-2.0
"""Carry a schedule out on paper, and count what crosses each cable and what leaves and enters each machine.

Core: no IO. Standard library only.

Nothing is estimated here. A rank can send only what it holds, a cable must be there, and at the end every rank must
hold what the collective promises: else the schedule is wrong, and that is raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from derive.fabric.collectives import Piece, Schedule, Transfer, all_pieces

ELEMENT_BYTES = 2
"""Of a BF16 number: nothing smaller is cut off a vector."""

Way: TypeAlias = tuple[int, int]
"""A cable in one direction: from a rank to a rank."""

_Held: TypeAlias = dict[Piece, dict[frozenset[int], int]]
"""What a rank holds of each piece: the sums, by whose they are, and how many cables the last of each has crossed."""


class NotCarriedOut(ValueError):
    """A schedule sends what its sender does not hold, or where no cable is, or leaves something undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What one collective moves, in bytes, by cable and direction; ways that nothing takes are there with 0.

    ``carried`` is what crosses the cable; ``sent`` what leaves the memory of its first rank by it, ``taken`` what
    enters that of its second. They differ where a network card forwards. ``hops`` is the number of cables that the
    last byte depends on, one after the other.
    """

    steps: int
    hops: int
    carried: Mapping[Way, int]
    sent: Mapping[Way, int]
    taken: Mapping[Way, int]


def carry(schedule: Schedule, size: int, cables: Collection[Way]) -> Counts:
    """Carry out a schedule for vectors of ``size`` bytes; in an all-gather that is the gathered one.

    ``cables`` are pairs of ranks, either way round.

    Raises:
        NotCarriedOut: when it cannot be, or does not do what its collective promises.
        ValueError: when the size is no whole number of elements above 0.
    """
    sizes = piece_sizes(size, schedule.ranks)
    ways = sorted({way for a, b in cables for way in ((a, b), (b, a))})
    carried: Counter[Way] = Counter(dict.fromkeys(ways, 0))
    sent, taken = carried.copy(), carried.copy()
    held = _at_first(schedule)
    hops = 0
    for step in schedule.steps:
        arrivals = []
        for transfer in step:
            crossed = _crossed(transfer, carried)
            moved = sum(sizes[piece] for piece in transfer.pieces)
            for way in crossed:
                carried[way] += moved
            sent[crossed[0]] += moved
            taken[crossed[-1]] += moved
            arrivals += [(transfer, piece, _depth(transfer, piece, held) + len(crossed)) for piece in transfer.pieces]
        for transfer, piece, depth in arrivals:
            sums = held[transfer.route[-1]].setdefault(piece, {})
            sums[transfer.summed] = min(depth, sums.get(transfer.summed, depth))
            hops = max(hops, depth)
    _require_done(schedule, held)
    return Counts(steps=len(schedule.steps), hops=hops, carried=carried, sent=sent, taken=taken)


def piece_sizes(size: int, ranks: int) -> dict[Piece, int]:
    """Cut so many bytes into pieces whose sizes differ by one element at most within each level."""
    if size < ELEMENT_BYTES or size % ELEMENT_BYTES:
        raise ValueError(f"{size} bytes are no whole number of elements of {ELEMENT_BYTES} bytes")
    sizes = {}
    for block, elements in enumerate(shares(size // ELEMENT_BYTES, ranks)):
        # The odd element of a block goes to one half and the other by turns, so that neither way gets them all.
        halves = shares(elements, 2)
        for half in (0, 1):
            sizes[Piece(block, half)] = ELEMENT_BYTES * halves[half ^ (block & 1)]
    return sizes


def shares(whole: int, count: int) -> tuple[int, ...]:
    """Divide a whole number as evenly as can be, the greater shares first."""
    least, more = divmod(whole, count)
    return tuple(least + (index < more) for index in range(count))


def _at_first(schedule: Schedule) -> list[_Held]:
    gathering = schedule.collective == "all-gather"
    return [
        {piece: {frozenset({rank}): 0} for piece in all_pieces(schedule.ranks) if not gathering or piece.block == rank}
        for rank in range(schedule.ranks)
    ]


def _crossed(transfer: Transfer, cables: Mapping[Way, int]) -> list[Way]:
    ways = list(zip(transfer.route, transfer.route[1:], strict=False))
    for way in ways:
        if way not in cables:
            raise NotCarriedOut(f"no cable between ranks {way[0]} and {way[1]}")
    return ways


def _depth(transfer: Transfer, piece: Piece, held: list[_Held]) -> int:
    """Return how many cables what is sent has crossed already."""
    depth = _formed(transfer.summed, held[transfer.route[0]].get(piece, {}))
    if depth is None:
        whose = ", ".join(map(str, sorted(transfer.summed)))
        raise NotCarriedOut(f"rank {transfer.route[0]} does not hold {piece} of {whose}, and is to send it")
    return depth


def _formed(wanted: frozenset[int], sums: Mapping[frozenset[int], int]) -> int | None:
    """Return the least depth at which a sum is had, from sums that have no rank in common; None if it cannot be."""
    if not wanted:
        return 0
    found = []
    first = min(wanted)
    for ranks, depth in sums.items():
        if first in ranks and ranks <= wanted:
            rest = _formed(wanted - ranks, sums)
            if rest is not None:
                found.append(max(depth, rest))
    return min(found, default=None)


def _require_done(schedule: Schedule, held: list[_Held]) -> None:
    everyone = frozenset(range(schedule.ranks))
    for rank, pieces in enumerate(held):
        for piece in all_pieces(schedule.ranks):
            if schedule.collective == "reduce-scatter" and piece.block != rank:
                continue
            wanted = frozenset({piece.block}) if schedule.collective == "all-gather" else everyone
            if _formed(wanted, pieces.get(piece, {})) is None:
                raise NotCarriedOut(f"rank {rank} lacks {piece} at the end")
