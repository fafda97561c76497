# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from derive.patches.threeway import Conflict, Side, conflict_text, conflicts_between

TEXT = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n"]), max_size=9).map(b"".join)


def test_both_sides_and_what_was_there_are_shown_with_the_numbers_of_their_lines() -> None:
    found = conflicts_between(b"1\n2\n3\n4\n", b"0\n1\n2x\n3\n4\n", b"1\n2y\n2z\n3\n4\n")
    assert found == (Conflict(Side(1, (b"2\n",)), Side(2, (b"2x\n",)), Side(1, (b"2y\n", b"2z\n"))),)
    assert conflict_text(b"dir/f\xe9", 1, found[0]) == (
        "dir/f%E9: conflict 1",
        "  base        2  '2\\n'",
        "  ours        3  '2x\\n'",
        "  theirs      2  '2y\\n'",
        "  theirs      3  '2z\\n'",
    )


def test_a_side_that_removed_everything_says_where() -> None:
    (found,) = conflicts_between(b"1\n2\n3\n", b"1\n3\n", b"1\nx\n3\n")
    assert "  ours        1  (nothing after this line)" in conflict_text(b"f", 1, found)


def test_a_long_side_is_cut_and_says_so() -> None:
    (found,) = conflicts_between(b"x\n", b"y\n" * 99, b"z\n")
    rows = conflict_text(b"f", 1, found)
    assert len(rows) < 40
    assert rows[-2].strip() == "ours           and 70 more lines"


@given(base=TEXT, other=TEXT)
def test_one_change_alone_or_twice_the_same_is_no_conflict(base: bytes, other: bytes) -> None:
    assert conflicts_between(base, base, other) == ()
    assert conflicts_between(base, other, base) == ()
    assert conflicts_between(base, other, other) == ()


@given(base=TEXT, ours=TEXT, theirs=TEXT)
def test_the_sides_are_slices_of_their_texts(base: bytes, ours: bytes, theirs: bytes) -> None:
    for found in conflicts_between(base, ours, theirs):
        for side, text in ((found.base, base), (found.ours, ours), (found.theirs, theirs)):
            rows = text.splitlines(keepends=True)
            assert tuple(rows[side.start : side.start + len(side.lines)]) == side.lines
