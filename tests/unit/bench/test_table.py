# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.canonical import Json, encode
from speed.table import Amount, AtLeast, AtMost, Factor, Rate, Row, Size, Time, document, median_time, render, show

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Time(29_600_000), "0.030 s"),
        (Time(1_234_000_000), "1.23 s"),
        (Time(180 * SECOND), "180 s"),
        (Size(48_600_000), "48.6 MB"),
        (Rate(87_000_000), "87.0 MB/s"),
        (Factor(1.618), "1.62"),
    ],
)
def test_an_amount_is_shown_with_three_digits_and_its_unit(amount: Amount, text: str) -> None:
    assert show(amount) == text


def test_the_median_of_an_even_number_of_samples_lies_between_them() -> None:
    assert median_time((1, 9, 5)) == Time(5)
    assert median_time((1, 2, 4, 9)) == Time(3)


def test_a_ratio_is_the_amount_over_what_it_stands_beside() -> None:
    assert row(other=Time(SECOND // 2)).ratio == Factor(2.0)
    assert row().ratio is None


def test_a_target_is_missed_on_its_own_side_alone() -> None:
    assert not row(target=AtMost(Time(SECOND))).missed
    assert row(target=AtMost(Time(SECOND - 1))).missed
    assert not row(target=AtLeast(Time(SECOND))).missed
    assert row(target=AtLeast(Time(SECOND + 1))).missed


def test_a_target_of_the_ratio_needs_something_to_stand_beside() -> None:
    assert row(other=Time(SECOND // 2), ratio_target=AtMost(Factor(1.3))).missed
    assert not row(ratio_target=AtMost(Factor(1.3))).missed


def test_the_table_has_a_block_for_each_group_and_marks_what_is_missed() -> None:
    rows = [
        row(what="one", other=Time(SECOND), target=AtMost(Time(1))),
        row(what="two"),
        row(group="later", what="three", other=Time(4 * SECOND), ratio_target=AtMost(Factor(1.3))),
    ]
    assert render(rows).splitlines() == [
        "       median  beside             ratio  target",
        "",
        "first",
        "one    1.00 s  something  1.00 s   1.00  <= 0.000 s  MISSED",
        "two    1.00 s  something",
        "",
        "later",
        "three  1.00 s  something  4.00 s  0.250  <= 1.30x",
    ]


def test_rows_become_a_document_that_a_record_can_hold() -> None:
    (found,) = document([row(other=Time(3 * SECOND), ratio_target=AtMost(Factor(1.3)), samples=(7, 8))])
    expected: Json = {
        "group": "first",
        "what": "what",
        "median_ns": SECOND,
        "samples_ns": [7, 8],
        "beside": "something",
        "beside_median_ns": 3 * SECOND,
        "ratio": {"decimal": "0.333"},
        "target": "<= 1.30x",
        "missed": False,
    }
    assert found == expected


@pytest.mark.parametrize("amount", [Time(1), Size(2), Rate(3), Factor(0.25)])
def test_every_kind_of_amount_can_be_encoded(amount: Amount) -> None:
    encode(document([Row(group="g", what="w", amount=amount)]))


def row(
    group: str = "first",
    what: str = "what",
    *,
    other: Time | None = None,
    target: AtMost | AtLeast | None = None,
    ratio_target: AtMost | None = None,
    samples: tuple[int, ...] = (),
) -> Row:
    return Row(
        group=group,
        what=what,
        amount=Time(SECOND),
        beside="something",
        other=other,
        target=target,
        ratio_target=ratio_target,
        samples=samples,
    )
