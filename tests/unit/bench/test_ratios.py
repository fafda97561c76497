# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import random
import statistics

import pytest

from speed.ratios import T_95, lower_bound, mean_ratio


def test_rounds_that_agree_leave_no_room_below_the_ratio() -> None:
    assert mean_ratio([30, 60, 90], [3, 6, 9]) == pytest.approx(10)
    assert lower_bound([30, 60, 90], [3, 6, 9]) == pytest.approx(10)


def test_the_bound_is_students_on_the_logarithms() -> None:
    longer, shorter = [80, 120, 100], [10, 10, 10]
    logarithms = [math.log(8), math.log(12), math.log(10)]
    expected = statistics.fmean(logarithms) - 2.920 * statistics.stdev(logarithms) / math.sqrt(3)
    assert lower_bound(longer, shorter) == pytest.approx(math.exp(expected))


def test_noise_that_meets_both_of_a_round_widens_nothing() -> None:
    assert lower_bound([100, 400], [10, 40]) == pytest.approx(10)
    assert lower_bound([100, 400], [40, 10]) == pytest.approx(0, abs=0.01)


def test_one_round_has_no_bound() -> None:
    assert lower_bound([100], [10]) is None


def test_rounds_that_are_not_paired_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        lower_bound([100, 200], [10])


def test_quantiles_fall_towards_that_of_the_normal_distribution() -> None:
    assert list(T_95) == sorted(T_95, reverse=True)
    assert len(T_95) == 30
    assert T_95[-1] > statistics.NormalDist().inv_cdf(0.95)


def test_more_rounds_than_the_table_has_are_bound_too() -> None:
    assert lower_bound([100] * 40, [10] * 40) == pytest.approx(10)


@pytest.mark.parametrize("rounds", [3, 5, 10])
def test_the_bound_lies_below_the_ratio_in_nineteen_of_twenty_runs(rounds: int) -> None:
    chance = random.Random(rounds)

    def noisy(value: float) -> int:
        return round(value * math.exp(chance.gauss(0, 0.2)))

    bounds = [
        lower_bound([noisy(1e9) for _ in range(rounds)], [noisy(1e8) for _ in range(rounds)]) for _ in range(2000)
    ]
    assert statistics.fmean(bound is not None and bound < 10 for bound in bounds) == pytest.approx(0.95, abs=0.02)
