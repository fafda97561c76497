# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.words import count_text, duration_text, size_text


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
