# SPDX-License-Identifier: Apache-2.0
"""Places on an axis: releases without a date, labels that would overlap, round ticks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.report.series import Scale, apart, day_ticks, folded, placed_days, round_ticks
from derive.report.values import day_named

PLACES = st.lists(st.integers(0, 2000), max_size=40).map(sorted)


def days(*texts: str | None) -> list[int | None]:
    return [None if text is None else day_named(text) for text in texts]


def test_a_release_without_a_date_lies_evenly_between_its_neighbours() -> None:
    placed = placed_days(days("2026-10-01", None, None, None, "2026-10-05"))
    assert [place - placed[0] for place in placed] == [0, 1, 2, 3, 4]


def test_releases_of_one_day_lie_beside_each_other_in_it() -> None:
    first, second, third = placed_days(days("2026-10-01", "2026-10-01", "2026-10-02"))
    assert (second - first, third - first) == (0.5, 1.0)


def test_without_a_neighbour_on_one_side_it_lies_beside_the_other() -> None:
    first, second, third = placed_days(days(None, "2026-10-02", None))
    assert first == second == third


def test_a_line_without_any_date_is_in_order() -> None:
    assert placed_days([None, None, None]) == (0.0, 1.0, 2.0)


def test_labels_that_have_room_stay_where_they_are_wanted() -> None:
    assert apart([0, 30, 90], 20) == (0, 30, 90)


def test_labels_that_would_overlap_spread_around_their_middle() -> None:
    assert apart([50, 50, 50], 20) == (30, 50, 70)


@given(PLACES, st.integers(1, 40))
def test_labels_are_always_apart_and_in_order(wanted: list[int], least: int) -> None:
    found = apart(wanted, least)
    assert len(found) == len(wanted)
    assert all(after - before >= least - 1e-6 for before, after in pairwise(found))


@pytest.mark.parametrize(
    ("first", "last", "texts"),
    [
        ("2026-10-01", "2026-10-03", ["2026-10-01", "2026-10-02", "2026-10-03"]),
        ("2026-10-01", "2026-10-20", ["2026-10-01", "2026-10-08", "2026-10-15"]),
        ("2026-09-25", "2027-01-10", ["2026-10-01", "2026-11-01", "2026-12-01", "2027-01-01"]),
        ("2026-09-25", "2027-12-31", ["2026-10-01", "2027-01-01", "2027-04-01", "2027-07-01", "2027-10-01"]),
        (
            "2020-06-01",
            "2026-06-01",
            ["2021-01-01", "2022-01-01", "2023-01-01", "2024-01-01", "2025-01-01", "2026-01-01"],
        ),
    ],
)
def test_ticks_are_days_weeks_months_quarters_or_years(first: str, last: str, texts: list[str]) -> None:
    found = day_ticks(day_named(first) or 0, day_named(last) or 0, 6)
    assert [text for _, text in found] == texts


@given(st.integers(-5000, 40000), st.integers(0, 40000), st.integers(3, 20))
def test_there_are_never_more_ticks_than_fit(first: int, span: int, most: int) -> None:
    assert len(day_ticks(first, first + span, most)) <= most


@given(st.floats(0.001, 1e12), st.integers(3, 8))
def test_round_ticks_reach_the_greatest_value(most: float, count: int) -> None:
    ticks = round_ticks(most, count)
    assert ticks[0] == 0
    assert ticks[-1] >= most
    assert len(ticks) <= count + 2


def test_one_value_alone_lies_in_the_middle() -> None:
    assert Scale(least=5, most=5, start=0, end=10)(5) == 5


def test_a_long_stretch_without_anything_is_cut_short_and_said() -> None:
    axis = folded([0, 3, 5, 105, 106], 10)
    assert [axis(day) for day in (0, 3, 5, 105, 106)] == [0, 3, 5, 15, 16]
    assert list(axis.cuts) == [(5, 105)]
    assert axis(55) == 10
    assert [day for day in (5, 6, 104, 105) if axis.is_cut(day)] == [6, 104]


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=30))
def test_the_order_of_days_outlives_the_cuts(days: list[int]) -> None:
    axis = folded([float(day) for day in days], 14)
    places = [axis(day) for day in sorted(set(days))]
    assert places == sorted(places)
    assert len(set(places)) == len(set(days))
    assert axis(max(days)) <= 14 * len(days)
