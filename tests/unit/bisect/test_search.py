# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.bisect.search import Search, Things, Verdict
from derive.bisect.units import units


class Runs:
    """A pure verdict: NEW where all of some things are there; counts each set that it is asked for once."""

    def __init__(self, needed: Things, unjudged: Things = frozenset()) -> None:
        self.needed, self.unjudged = needed, unjudged
        self.asked: dict[Things, None] = {}

    def __call__(self, things: Things) -> Verdict:
        self.asked[things] = None
        if 0 < len(things & self.unjudged) < len(self.unjudged):
            return Verdict.UNKNOWN
        return Verdict.NEW if self.needed <= things else Verdict.OLD


def test_one_of_many_is_found_by_halving() -> None:
    runs = Runs(frozenset({41}))
    assert Search(range(64), runs).run() == {41}
    assert len(runs.asked) <= 10


def test_three_that_act_together_are_found_together() -> None:
    runs = Runs(frozenset({3, 17, 60}))
    assert Search(range(64), runs).run() == {3, 17, 60}
    assert len(runs.asked) <= 30


def test_what_is_never_judged_apart_stays_together() -> None:
    runs = Runs(frozenset({5}), unjudged=frozenset({4, 5}))
    assert Search(range(12), runs).run() == {4, 5}


def test_what_cannot_be_judged_elsewhere_does_not_grow_the_answer() -> None:
    runs = Runs(frozenset({2, 9}), unjudged=frozenset({5, 6, 7}))
    assert Search(range(12), runs).run() == {2, 9}


def test_a_verdict_that_more_edits_flip_back_still_gives_a_set_that_flips_it() -> None:
    def test(things: Things) -> Verdict:
        return Verdict.NEW if 1 in things and (2 not in things or 3 in things) else Verdict.OLD

    assert Search(range(5), test).run() == {1}


def test_when_it_is_stopped_the_smallest_set_known_to_flip_is_known() -> None:
    runs = Runs(frozenset({1}))
    stopped = Search(range(64), lambda things: runs(things) if len(runs.asked) < 4 else _stop())
    with pytest.raises(InterruptedError):
        stopped.run()
    assert runs.needed <= stopped.best < frozenset(range(64))


def _stop() -> Verdict:
    raise InterruptedError


def test_of_lengths_near_the_middle_the_cheapest_is_tested_first() -> None:
    runs = Runs(frozenset({0}))
    Search(range(16), runs, cost=lambda things: 0 if len(things) == 7 else 9).run()
    assert len(list(runs.asked)[1]) == 7


def test_edits_that_do_not_evaluate_alone_are_made_with_the_fewest_that_they_need() -> None:
    def evaluates(things: Things) -> bool:
        return (1 not in things or 4 in things) and (2 not in things or 1 in things)

    found = units(range(6), evaluates)
    assert set(found) == {frozenset(one) for one in ({0}, {1, 4}, {1, 2, 4}, {3}, {4}, {5})}
