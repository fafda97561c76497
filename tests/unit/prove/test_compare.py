# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.prove.compare import differences

FILES = st.dictionaries(st.text("ab/", min_size=1, max_size=3), st.binary(max_size=40), max_size=3)


def test_the_first_byte_and_its_line_are_named() -> None:
    (found,) = differences({"run": b"one\ntwo\nthree\n"}, {"run": b"one\ntwo\nthrice\n"})
    assert (found.offset, found.line, found.expected, found.got) == (11, 3, "three", "thrice")


def test_a_file_that_ends_early_differs_at_its_end() -> None:
    (found,) = differences({"run": b"one\n"}, {"run": b"one\ntwo\n"})
    assert (found.offset, found.line, found.expected, found.got) == (4, 2, "the end of the file", "two")


def test_a_long_line_is_cut_around_the_byte_and_no_control_character_is_shown() -> None:
    (found,) = differences({"x": b"a" * 500 + b"\x1b[31m"}, {"x": b"a" * 500 + b"b"})
    assert found.expected == "... " + "a" * 50 + "\\x1b[31m"


@settings(max_examples=30, deadline=None)
@given(FILES, FILES)
def test_files_differ_where_they_are_not_the_same(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    found = [difference.path for difference in differences(one, other)]
    assert found == [path for path in sorted({*one, *other}) if one.get(path) != other.get(path)]
    for difference in differences(one, other):
        if difference.offset is not None:
            at = difference.offset
            assert one[difference.path][:at] == other[difference.path][:at]
            assert one[difference.path][at : at + 1] != other[difference.path][at : at + 1]
