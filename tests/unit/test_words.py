# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.recipes.forms import size_bytes
from derive.words import binary_size, columns, count_text, duration_text, near, nearest, size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (123_456, "123 kB"),
        (99_960, "100 kB"),
        (4_300_000_000, "4.3 GB"),
        (5_120_000_000_000_000, "5120 TB"),
    ],
)
def test_sizes_are_written_for_people(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0.00 s"),
        (40_000_000, "0.04 s"),
        (9_999_000_000, "10.0 s"),
        (99_960_000_000, "1 min 40 s"),
        (250_000_000_000, "4 min 10 s"),
        (3_599_900_000_000, "1 h 00 min"),
        (3_720_000_000_000, "1 h 02 min"),
    ],
)
def test_times_are_written_for_people(duration_ns: int, text: str) -> None:
    assert duration_text(duration_ns) == text


def test_one_thing_and_several() -> None:
    assert count_text(1, "patch", "patches") == "1 patch"
    assert count_text(0, "file") == "0 files"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0B"), (1000, "1000B"), (65536, "64KiB"), (5 * 2**29, "2560MiB"), (112 * 2**30, "112GiB"), (2**40, "1024GiB")],
)
def test_sizes_are_written_exactly_as_recipes_do(size: int, text: str) -> None:
    assert binary_size(size) == text
    assert size_bytes(text) == size


def test_the_likest_word_is_named_if_it_is_like_enough_whatever_the_order() -> None:
    assert near("ring5", ["triangle", "ring4"]) == near("ring5", ["ring4", "triangle"]) == "did you mean ring4?"
    assert near("zzz", ["triangle", "ring4"]) is None
    assert nearest(85, [75, 86]) == nearest(85, [86, 75])
    assert nearest("TP_S", ["TP_SOCKETS"], 0.99) is None
    assert nearest("max-num-batch", ["max-num-batched-tokens"]) == "max-num-batched-tokens"
    assert nearest("VLLM_ENABLE_SMALL_M_GEMM", ["VLLM_ENABLE_RESPONSES_API_STORE"]) is None


def test_long_words_that_are_alike_by_chance_are_not_meant() -> None:
    assert near("max-parallel-prefills", ["data-parallel-address"]) is None
    assert near("max-num-seq", ["max-num-seqs"]) == "did you mean max-num-seqs?"


def test_the_last_column_is_wrapped_to_a_width_or_stands_below_where_little_is_left() -> None:
    rows = [("name", "why"), ("a", "one two three four five six seven")]
    assert columns(rows, (), 36) == ["name  why", "a     one two three four five six", "      seven"]
    assert columns(rows, (), 40) == columns(rows)
    assert columns([("x" * 20, "one two three four five")], (), 30) == ["x" * 20, "    one two three four five"]


def test_columns_are_as_wide_as_what_they_hold_and_end_without_spaces() -> None:
    assert columns([("a", "1", ""), ("bcd", "10", "x")], {1}) == ["a     1", "bcd  10  x"]
    assert columns([]) == []
