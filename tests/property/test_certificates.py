# SPDX-License-Identifier: Apache-2.0
"""k of n: as many builders count as can each be given a machine of their own, however they come."""

from __future__ import annotations

from itertools import combinations, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.certificates.hosts import most_on_unlike
from support.certificates import host

PAIRS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3)), max_size=7)


def most_by_trying(pairs: list[tuple[str, int]]) -> int:
    """Return the size of the largest set of pairs that share neither builder nor host, by trying all."""
    known = sorted(set(pairs))
    for size in range(len(known), 0, -1):
        for chosen in combinations(known, size):
            if len({name for name, _ in chosen}) == len({number for _, number in chosen}) == size:
                return size
    return 0


@given(PAIRS)
@settings(max_examples=60)
def test_no_assignment_of_hosts_counts_more_builders(pairs: list[tuple[str, int]]) -> None:
    said = [(name, host(str(number))) for name, number in pairs]
    assert len(most_on_unlike(said)) == most_by_trying(pairs)


@given(PAIRS.filter(lambda pairs: len(pairs) < 5))
@settings(max_examples=20)
def test_the_order_of_certificates_does_not_matter(pairs: list[tuple[str, int]]) -> None:
    said = [(name, host(str(number))) for name, number in pairs]
    assert len({most_on_unlike(one) for one in permutations(said)}) <= 1


@given(PAIRS, st.sampled_from("abcd"), st.integers(0, 3))
@settings(max_examples=40)
def test_one_certificate_more_never_counts_less(pairs: list[tuple[str, int]], name: str, number: int) -> None:
    said = [(one, host(str(which))) for one, which in pairs]
    assert len(most_on_unlike([*said, (name, host(str(number)))])) >= len(most_on_unlike(said))


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=5))
def test_machines_that_share_a_boot_through_a_third_are_one(names: list[str]) -> None:
    chain = [host(f"h{at}", "left" if at % 2 else "right") for at in range(len(names))]
    links = [("x", host("h0", "left")), ("x", host("h0", "right"))]
    assert len(most_on_unlike([*zip(names, chain, strict=True), *links])) == 1
