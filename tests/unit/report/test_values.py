# SPDX-License-Identifier: Apache-2.0
"""Values out of records that may say anything: what is not of the expected type is absent."""

from __future__ import annotations

from decimal import Decimal

import pytest

from derive.canonical import Json
from derive.report.values import clean, day_named, digits, moment, number, short, times_in, worded


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", "a\\nb"),
        ("\u202eevil", "\\u202eevil"),
        ("\x1b[31m", "\\u001b[31m"),
        (None, ""),
        (3, ""),
        ("x" * 700, f"{'x' * 600} ... (700 characters)"),
    ],
)
def test_text_is_one_line_printable_and_not_endless(value: object, text: str) -> None:
    assert clean(value) == text


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (12, Decimal(12)),
        ({"decimal": "0.50"}, Decimal("0.50")),
        ({"decimal": "inf"}, None),
        ({"decimal": "nan"}, None),
        ({"decimal": "1e999999"}, None),
        ({"decimal": "9" * 99}, None),
        ({"decimal": "word"}, None),
        (True, None),
        ("12", None),
        (None, None),
    ],
)
def test_a_number_is_whole_or_a_decimal(value: Json, found: Decimal | None) -> None:
    assert number(value) == found


def test_a_number_keeps_its_own_digits() -> None:
    assert [digits(Decimal(text)) for text in ("38.20", "8580566", "0.5", "-2.5")] == [
        "38.20",
        "8,580,566",
        "0.5",
        "-2.5",
    ]


def test_a_time_beyond_every_calendar_is_not_known() -> None:
    assert [moment(value) for value in (2**52, -(2**52), None, True, "x")] == ["not known"] * 5
    assert moment(0) == "1970-01-01 00:00 UTC"


@pytest.mark.parametrize("value", ["2026-13-01", "yesterday", None, 7])
def test_what_names_no_day_is_none(value: object) -> None:
    assert day_named(value) is None


def test_durations_and_times_to_come_are_no_times_of_the_past() -> None:
    body: dict[str, Json] = {
        "made_s": 1_795_000_000,
        "expires_s": 1_900_000_000,
        "facts_age_s": 900,
        "took_s": 30,
        "x": 1_795_000_001,
    }
    assert list(times_in(body)) == [1_795_000_000]


def test_long_hashes_are_shortened_and_other_text_is_not() -> None:
    assert short(f"sha256:{'a' * 64}") == "a" * 12
    assert short("b" * 40) == "b" * 12
    assert (
        short("no digest at all, and longer than forty characters")
        == "no digest at all, and longer than forty characters"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4096, "4,096"),
        (True, "yes"),
        ({"decimal": "8.18"}, "8.18"),
        ({"begins": "795eb1c7"}, "795eb1c7..."),
        ({"sha1": "aa"}, "aa"),
        ([1, 2, 4], "1, 2, 4"),
        ({"a": 1, "b": 2}, "2 values"),
        (None, ""),
    ],
)
def test_any_value_is_told_in_a_few_words(value: Json, text: str) -> None:
    assert worded(value) == text
