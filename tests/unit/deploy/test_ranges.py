# SPDX-License-Identifier: Apache-2.0
"""Which bytes a ``Range`` header asks for."""

from __future__ import annotations

import pytest

from derive.deploy.ranges import Part, part_of


@pytest.mark.parametrize(
    ("header", "start", "size"),
    [
        ("bytes=0-", 0, 10),
        ("bytes=4-", 4, 6),
        ("bytes=4-6", 4, 3),
        ("bytes=4-99", 4, 6),
        ("bytes=9-9", 9, 1),
        ("bytes=-3", 7, 3),
        ("bytes=-99", 0, 10),
        (" bytes=1-2 ", 1, 2),
    ],
)
def test_a_range_is_the_bytes_it_names_as_far_as_there_are_any(header: str, start: int, size: int) -> None:
    assert part_of(header, 10) == Part(start=start, size=size, is_partial=True)


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=99-100", "bytes=-0"])
def test_a_range_beyond_the_end_is_none(header: str) -> None:
    assert part_of(header, 10) is None


@pytest.mark.parametrize(
    "header",
    [None, "", "bytes=", "bytes=-", "bytes=6-4", "bytes=0-1,3-4", "lines=1-2", "bytes=٣-", f"bytes={'9' * 19}-"],
)
def test_what_is_no_single_range_asks_for_all(header: str | None) -> None:
    assert part_of(header, 10) == Part(start=0, size=10, is_partial=False)


def test_of_nothing_no_range_can_be_had() -> None:
    assert part_of("bytes=0-", 0) is None
    assert part_of(None, 0) == Part(start=0, size=0, is_partial=False)
