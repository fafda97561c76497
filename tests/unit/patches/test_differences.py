# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.patches.differences import Gap, common_blocks, gaps

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"\n"]), max_size=25)


@given(old=LINES, new=LINES)
def test_blocks_are_equal_ascending_and_apart(old: list[bytes], new: list[bytes]) -> None:
    end = (0, 0)
    for index, (i, j, count) in enumerate(common_blocks(old, new)):
        assert count > 0
        assert old[i : i + count] == new[j : j + count]
        assert i >= end[0]
        assert j >= end[1]
        assert index == 0 or (i, j) != end
        end = (i + count, j + count)


@given(old=LINES, new=LINES)
def test_replacing_the_gaps_turns_one_text_into_the_other(old: list[bytes], new: list[bytes]) -> None:
    made, at = [], 0
    for gap in gaps(old, new):
        made += old[at : gap.i1] + new[gap.j1 : gap.j2]
        at = gap.i2
    assert made + old[at:] == new


@given(old=st.permutations([b"%d\n" % number for number in range(6)]))
def test_without_repeated_lines_the_common_part_is_the_longest(old: list[bytes]) -> None:
    new = sorted(old)
    best = [1] * len(old)
    for i in range(len(old)):
        best[i] = 1 + max((best[j] for j in range(i) if old[j] < old[i]), default=0)
    assert sum(count for *_, count in common_blocks(old, new)) == max(best)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"", b"", []),
        (b"a", b"a", []),
        (b"", b"ab", [Gap(0, 0, 0, 2)]),
        (b"ab", b"", [Gap(0, 2, 0, 0)]),
        (b"abc", b"axc", [Gap(1, 2, 1, 2)]),
        (b"abcabba", b"cbabac", [Gap(0, 2, 0, 0), Gap(3, 3, 1, 2), Gap(5, 6, 4, 4), Gap(7, 7, 5, 6)]),
    ],
)
def test_known_differences(old: bytes, new: bytes, expected: list[Gap]) -> None:
    found = gaps([bytes((byte,)) for byte in old], [bytes((byte,)) for byte in new])
    size = sum(gap.i2 - gap.i1 + gap.j2 - gap.j1 for gap in found)
    assert size == sum(gap.i2 - gap.i1 + gap.j2 - gap.j1 for gap in expected)


def test_what_would_take_too_long_is_given_up_and_still_true() -> None:
    old = [b"%d\n" % (number % 7) for number in range(8_000)]
    new = [b"%d\n" % (number * number % 11 % 7) for number in range(8_000)]
    began = time.monotonic()
    assert gaps(old, new)
    assert time.monotonic() - began < 5
