# SPDX-License-Identifier: Apache-2.0
"""Schedules, carried out on paper: what each algorithm moves is what arithmetic says, and no schedule cheats."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.fabric.collectives import ALGORITHMS, COLLECTIVES, Algorithm, Collective, Piece, Transfer, schedule
from derive.fabric.plan_count import Counts, NotCarriedOut, carry, piece_sizes, shares

RING = [(0, 1), (1, 2), (2, 3), (0, 3)]
TRIANGLE = [(0, 1), (1, 2), (0, 2)]
CABLES = {3: TRIANGLE, 4: RING}

CARRIED: list[tuple[Algorithm, int]] = [
    ("direct", 3),
    ("ring", 3),
    ("ring-both", 3),
    ("ring", 4),
    ("ring-both", 4),
    ("relay", 4),
    ("mesh", 4),
]
EVEN = 2 * 3 * 4 * 1024

carried = pytest.mark.parametrize(("algorithm", "ranks"), CARRIED)
of_every_collective = pytest.mark.parametrize("collective", COLLECTIVES)
sizes = st.integers(1, 2**24).map(lambda elements: 2 * elements)


def count(collective: Collective, algorithm: Algorithm, ranks: int, size: int = EVEN) -> Counts:
    return carry(schedule(collective, algorithm, ranks), size, CABLES[ranks])


def leaving(counts: Counts, rank: int) -> int:
    return sum(size for way, size in counts.sent.items() if way[0] == rank)


def entering(counts: Counts, rank: int) -> int:
    return sum(size for way, size in counts.taken.items() if way[1] == rank)


@pytest.mark.parametrize(
    ("collective", "algorithm", "ranks", "busiest", "steps", "hops"),
    [
        ("all-reduce", "direct", 3, "1", 1, 1),
        ("all-reduce", "ring", 3, "4/3", 4, 4),
        ("all-reduce", "ring-both", 3, "2/3", 4, 4),
        ("all-reduce", "ring", 4, "3/2", 6, 6),
        ("all-reduce", "ring-both", 4, "3/4", 6, 6),
        ("all-reduce", "relay", 4, "3/2", 2, 2),
        ("all-reduce", "mesh", 4, "2", 1, 2),
        ("all-gather", "direct", 3, "1/3", 1, 1),
        ("all-gather", "ring", 4, "3/4", 3, 3),
        ("all-gather", "relay", 4, "3/8", 2, 2),
        ("all-gather", "mesh", 4, "1/2", 1, 2),
        ("reduce-scatter", "direct", 3, "1/3", 1, 1),
        ("reduce-scatter", "ring-both", 4, "3/8", 3, 3),
        ("reduce-scatter", "relay", 4, "1/2", 2, 2),
    ],
)
def test_the_busiest_cable_carries_the_part_of_the_vector_that_arithmetic_says(
    collective: Collective, algorithm: Algorithm, ranks: int, busiest: str, steps: int, hops: int
) -> None:
    found = count(collective, algorithm, ranks)
    assert max(found.carried.values()) == Fraction(busiest) * EVEN
    assert (found.steps, found.hops) == (steps, hops)


@carried
@of_every_collective
def test_all_that_leaves_a_memory_enters_another(collective: Collective, algorithm: Algorithm, ranks: int) -> None:
    found = count(collective, algorithm, ranks)
    assert sum(found.sent.values()) == sum(found.taken.values())


@carried
@of_every_collective
def test_only_a_forwarding_network_card_carries_what_it_neither_sends_nor_takes(
    collective: Collective, algorithm: Algorithm, ranks: int
) -> None:
    found = count(collective, algorithm, ranks)
    passing = sum(found.carried.values()) - sum(found.sent.values())
    assert (passing > 0) == (algorithm == "mesh")
    assert (found.carried == found.sent == found.taken) == (algorithm != "mesh")


@carried
@of_every_collective
def test_no_rank_does_more_than_another(collective: Collective, algorithm: Algorithm, ranks: int) -> None:
    found = count(collective, algorithm, ranks)
    assert len({leaving(found, rank) for rank in range(ranks)}) == 1
    assert len({entering(found, rank) for rank in range(ranks)}) == 1


@pytest.mark.parametrize(("algorithm", "ranks"), [pair for pair in CARRIED if pair[0] != "ring"])
@of_every_collective
def test_all_but_one_ring_load_both_directions_of_every_cable_alike(
    collective: Collective, algorithm: Algorithm, ranks: int
) -> None:
    assert len(set(count(collective, algorithm, ranks).carried.values())) == 1


@pytest.mark.parametrize("ranks", [3, 4])
def test_one_ring_leaves_one_direction_idle(ranks: int) -> None:
    found = count("all-reduce", "ring", ranks).carried
    assert all(found[rank, (rank + 1) % ranks] > 0 == found[(rank + 1) % ranks, rank] for rank in range(ranks))


@carried
@settings(max_examples=40)
@given(size=sizes)
def test_no_all_reduce_moves_less_than_the_lower_bound(algorithm: Algorithm, ranks: int, size: int) -> None:
    found = count("all-reduce", algorithm, ranks, size)
    # The bound of 2 (n - 1) / n, over all ranks together; nothing is lost to rounding there.
    assert sum(found.taken.values()) >= 2 * (ranks - 1) * size


@pytest.mark.parametrize("ranks", [3, 4])
@pytest.mark.parametrize("algorithm", ["ring", "ring-both"])
@settings(max_examples=40)
@given(size=sizes)
def test_rings_meet_the_lower_bound_at_any_size(algorithm: Algorithm, ranks: int, size: int) -> None:
    assert sum(count("all-reduce", algorithm, ranks, size).sent.values()) == 2 * (ranks - 1) * size


@settings(max_examples=40)
@given(size=sizes)
def test_gathering_directly_loads_a_triangle_as_two_rings_do(size: int) -> None:
    direct, rings = (count("all-gather", algorithm, 3, size) for algorithm in ("direct", "ring-both"))
    assert sum(direct.carried.values()) == sum(rings.carried.values())
    assert all(abs(direct.carried[way] - rings.carried[way]) <= 4 for way in direct.carried)


@given(size=sizes, ranks=st.sampled_from([3, 4]))
def test_pieces_add_up_and_are_whole_elements(size: int, ranks: int) -> None:
    pieces = piece_sizes(size, ranks)
    assert sum(pieces.values()) == size
    assert all(piece % 2 == 0 for piece in pieces.values())
    assert max(pieces.values()) - min(pieces.values()) <= 4


@given(whole=st.integers(0, 10**9), parts=st.integers(1, 9))
def test_shares_add_up_and_differ_by_one_at_most(whole: int, parts: int) -> None:
    found = shares(whole, parts)
    assert sum(found) == whole
    assert found[0] - found[-1] in (0, 1)


@pytest.mark.parametrize("size", [0, 1, 3, -2])
def test_a_size_that_is_no_whole_number_of_elements_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="whole number of elements"):
        count("all-reduce", "ring", 4, size)


@pytest.mark.parametrize(("algorithm", "ranks"), [("relay", 3), ("mesh", 3), ("ring", 2), ("direct", 1)])
def test_an_algorithm_is_refused_among_ranks_that_it_is_not_for(algorithm: Algorithm, ranks: int) -> None:
    with pytest.raises(ValueError, match=f"no {algorithm} among {ranks} ranks"):
        schedule("all-reduce", algorithm, ranks)


@of_every_collective
def test_nothing_goes_where_no_cable_is(collective: Collective) -> None:
    with pytest.raises(NotCarriedOut, match="no cable between ranks 0 and 2"):
        count(collective, "direct", 4)


@pytest.mark.parametrize(("algorithm", "ranks"), [(algorithm, ranks) for algorithm in ALGORITHMS for ranks in (3, 4)])
@of_every_collective
def test_a_schedule_that_leaves_any_transfer_out_is_found_out(
    collective: Collective, algorithm: Algorithm, ranks: int
) -> None:
    if (algorithm, ranks) not in CARRIED:
        return
    whole = schedule(collective, algorithm, ranks)
    for number, step in enumerate(whole.steps):
        for left_out in range(len(step)):
            shorter = (*step[:left_out], *step[left_out + 1 :])
            steps = (*whole.steps[:number], shorter, *whole.steps[number + 1 :])
            with pytest.raises(NotCarriedOut):
                carry(replace(whole, steps=steps), EVEN, CABLES[ranks])


def test_a_rank_cannot_send_one_part_of_a_sum_that_it_got() -> None:
    whole = schedule("all-reduce", "ring", 3)
    first = Transfer(route=(0, 1), summed=frozenset({0}), pieces=(Piece(0, 0),))
    summed = Transfer(route=(1, 2), summed=frozenset({0, 1}), pieces=(Piece(0, 0),))
    apart = Transfer(route=(2, 0), summed=frozenset({1}), pieces=(Piece(0, 0),))
    with pytest.raises(NotCarriedOut, match=r"rank 2 does not hold .* of 1"):
        carry(replace(whole, steps=((first,), (summed,), (apart,))), EVEN, TRIANGLE)


def test_transfers_of_one_step_do_not_wait_for_each_other() -> None:
    whole = schedule("all-gather", "ring", 3)
    together = tuple(transfer for step in whole.steps for transfer in step)
    with pytest.raises(NotCarriedOut, match="does not hold"):
        carry(replace(whole, steps=(together,)), EVEN, TRIANGLE)
