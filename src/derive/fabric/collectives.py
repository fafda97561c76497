# SPDX-License-Identifier: Apache-2.0
"""Collectives as schedules: who sends which pieces of whose vector to whom, step by step.

Core: no IO. Standard library only.

A vector is cut into one block for each rank, and each block into two halves: what algorithms of two directions need.
Nothing here knows sizes or cables; :mod:`derive.fabric.plan_count` carries a schedule out and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Collective: TypeAlias = Literal["all-reduce", "all-gather", "reduce-scatter"]
Algorithm: TypeAlias = Literal["direct", "ring", "ring-both", "relay", "mesh"]

COLLECTIVES: tuple[Collective, ...] = get_args(Collective)
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)

WORDS: dict[Algorithm, str] = {
    "direct": "every rank sends to every other, at once",
    "ring": "one ring, one way: each rank adds and passes on to the next",
    "ring-both": "two rings of half the bytes, one each way",
    "relay": "to both neighbours at once, which pass half each on to the opposite rank",
    "mesh": "as direct; what is for the opposite rank is forwarded by the neighbours' network cards",
}
"""What each algorithm does, for people."""

_HALVES = (0, 1)


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """Half a block of the vector."""

    block: int
    half: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Pieces that go from the first rank of a route to its last, through the network cards of those between.

    What is sent is the sum of what the ranks in ``summed`` have put in.
    """

    route: tuple[int, ...]
    summed: frozenset[int]
    pieces: tuple[Piece, ...]


Step: TypeAlias = tuple[Transfer, ...]
"""Transfers that run at the same time: none sends what another of them brings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A collective done by one algorithm among so many ranks."""

    collective: Collective
    algorithm: Algorithm
    ranks: int
    steps: tuple[Step, ...]


def schedule(collective: Collective, algorithm: Algorithm, ranks: int) -> Schedule:
    """Return the schedule of a collective.

    Raises:
        ValueError: when fewer than three ranks take part, or not four in one that relays or forwards.
    """
    if ranks < 3 or (algorithm in ("relay", "mesh") and ranks != 4):
        raise ValueError(f"no {algorithm} among {ranks} ranks")
    return Schedule(
        collective=collective, algorithm=algorithm, ranks=ranks, steps=_BUILDERS[algorithm](collective, ranks)
    )


def all_pieces(ranks: int) -> tuple[Piece, ...]:
    """Return the pieces of a vector."""
    return tuple(Piece(block, half) for block in range(ranks) for half in _HALVES)


def _block(block: int, halves: Iterable[int] = _HALVES) -> tuple[Piece, ...]:
    return tuple(Piece(block, half) for half in halves)


def _wanted(collective: Collective, source: int, target: int, ranks: int) -> tuple[Piece, ...]:
    """Return what a rank has to send to another when all is sent as it is and added where it arrives."""
    match collective:
        case "all-reduce":
            return all_pieces(ranks)
        case "all-gather":
            return _block(source)
        case "reduce-scatter":
            return _block(target)


def _own(route: tuple[int, ...], pieces: Iterable[Piece]) -> Transfer:
    return Transfer(route=route, summed=frozenset({route[0]}), pieces=tuple(pieces))


def _direct(collective: Collective, ranks: int) -> tuple[Step, ...]:
    pairs = ((a, b) for a in range(ranks) for b in range(ranks) if a != b)
    return (tuple(_own((a, b), _wanted(collective, a, b, ranks)) for a, b in pairs),)


def _ring(collective: Collective, ranks: int) -> tuple[Step, ...]:
    return _turning(collective, ranks, +1, _HALVES)


def _ring_both(collective: Collective, ranks: int) -> tuple[Step, ...]:
    ways = (_turning(collective, ranks, +1, (0,)), _turning(collective, ranks, -1, (1,)))
    return tuple(one + other for one, other in zip(*ways, strict=True))


def _turning(collective: Collective, ranks: int, way: int, halves: tuple[int, ...]) -> tuple[Step, ...]:
    """Return the steps of one ring: adding up as blocks go round, then handing round what is whole."""
    steps = []
    if collective != "all-gather":
        steps += [_adding_step(ranks, turn, way, halves) for turn in range(ranks - 1)]
    if collective != "reduce-scatter":
        gathered = collective == "all-gather"
        steps += [_passing_step(ranks, turn, way, halves, gathered=gathered) for turn in range(ranks - 1)]
    return tuple(steps)


def _adding_step(ranks: int, turn: int, way: int, halves: tuple[int, ...]) -> Step:
    """Return a step in which each rank sends on the sum so far; a block ends at the rank of its number."""
    return tuple(
        Transfer(
            route=(rank, (rank + way) % ranks),
            summed=frozenset((rank - way * back) % ranks for back in range(turn + 1)),
            pieces=_block((rank - way * (turn + 1)) % ranks, halves),
        )
        for rank in range(ranks)
    )


def _passing_step(ranks: int, turn: int, way: int, halves: tuple[int, ...], *, gathered: bool) -> Step:
    """Return a step in which each rank passes on the block that it got in the one before."""
    everyone = frozenset(range(ranks))
    owners = [(rank - way * turn) % ranks for rank in range(ranks)]
    return tuple(
        Transfer(
            route=(rank, (rank + way) % ranks),
            summed=frozenset({owner}) if gathered else everyone,
            pieces=_block(owner, halves),
        )
        for rank, owner in enumerate(owners)
    )


def _relay(collective: Collective, ranks: int) -> tuple[Step, ...]:
    """Return two steps: to the neighbours, with what is for the opposite rank besides; then that passed on.

    One neighbour passes on the first halves, the other the second ones.
    """
    first, second = [], []
    for rank in range(ranks):
        opposite = (rank + 2) % ranks
        far = _wanted(collective, rank, opposite, ranks)
        for half, way in zip(_HALVES, (+1, -1), strict=True):
            through = (rank + way) % ranks
            passed = tuple(piece for piece in far if piece.half == half)
            near = _wanted(collective, rank, through, ranks)
            first.append(_own((rank, through), dict.fromkeys((*near, *passed))))
            second.append(Transfer(route=(through, opposite), summed=frozenset({rank}), pieces=passed))
    return tuple(first), tuple(second)


def _mesh(collective: Collective, ranks: int) -> tuple[Step, ...]:
    """Return one step; half of what is for the opposite rank goes through each neighbour's network card."""
    step = []
    for rank in range(ranks):
        opposite = (rank + 2) % ranks
        far = _wanted(collective, rank, opposite, ranks)
        for half, way in zip(_HALVES, (+1, -1), strict=True):
            through = (rank + way) % ranks
            step.append(_own((rank, through), _wanted(collective, rank, through, ranks)))
            step.append(_own((rank, through, opposite), (piece for piece in far if piece.half == half)))
    return (tuple(step),)


_BUILDERS: dict[Algorithm, Callable[[Collective, int], tuple[Step, ...]]] = {
    "direct": _direct,
    "ring": _ring,
    "ring-both": _ring_both,
    "relay": _relay,
    "mesh": _mesh,
}
