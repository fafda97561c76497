# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.patches.explain import Places, Reason, difference, why_not
from derive.patches.model import Hunk, Line, split_lines
from derive.patches.place import Unplaced, place


def hunk(start: int, text: str, ending: str = "\n") -> Hunk:
    rows = [(word[0], (word[1:] + ending).encode()) for word in text.split(",")]
    return Hunk(start, tuple(Line(tag, content) for tag, content in rows))  # type: ignore[arg-type]


def explain(change: Hunk, text: str | bytes, *, floor: int = 0) -> Reason:
    contents = text if isinstance(text, bytes) else text.replace(" ", "\n").encode() + b"\n"
    found = place(change, split_lines(contents), floor=floor, drift=0)
    assert isinstance(found, Unplaced)
    return why_not(change, Places(split_lines(contents)), floor=floor, found=found)


MIDDLE = hunk(2, " a, b, c,-x,+y, d, e, f")


def test_several_places_are_ambiguous_and_listed() -> None:
    reason = explain(MIDDLE, "a b c x d e f 0 a b c x d e f")
    assert reason.message == "ambiguous: the hunk fits at lines 1, 9, and not where it says, at line 2"
    many = explain(MIDDLE, " ".join(["a b c x d e f"] * 9))
    assert "and 4 more" in many.message


def test_an_applied_hunk_is_recognised_with_its_line() -> None:
    reason = explain(MIDDLE, "0 1 a b c y d e f")
    assert reason.message == "already applied: the new side is in the file at line 3"


def test_an_applied_deletion_is_recognised_by_its_context() -> None:
    assert "already applied" in explain(hunk(1, " a,-x, b"), "a b").message
    assert "already applied" not in explain(hunk(1, "-x, b"), "a b").message


def test_the_first_line_that_differs_is_shown_at_the_nearest_place() -> None:
    reason = explain(MIDDLE, "0 0 0 a b c z d e f")
    assert reason.message == "the file differs from the hunk at line 7"
    assert reason.detail == ("agreeing  6 of 7 lines", r"expected  'x\n'", r"got       'z\n'")


def test_differing_context_alone_is_named_as_what_fuzz_would_skip() -> None:
    reason = explain(MIDDLE, "0 A b c x d e f")
    assert reason.message == "context differs at line 2; fuzz is never used"
    assert reason.detail == ("agreeing  6 of 7 lines", r"expected  'a\n'", r"got       'A\n'")


def test_an_lf_patch_for_a_crlf_file_names_the_line_endings() -> None:
    reason = explain(MIDDLE, b"0\r\na\r\nb\r\nc\r\nx\r\nd\r\ne\r\nf\r\n")
    assert reason.message == "only line endings differ, first at line 2: LF in the patch, CRLF in the file"
    assert reason.detail == ("agreeing  0 of 7 lines", r"expected  'a\n'", r"got       'a\r\n'")


def test_a_crlf_patch_for_an_lf_file_names_the_line_endings() -> None:
    reason = explain(hunk(2, " a, b, c,-x,+y, d, e, f", "\r\n"), "0 a b c x d e f")
    assert reason.message == "only line endings differ, first at line 2: CRLF in the patch, LF in the file"


def test_one_converted_line_of_a_mixed_file_is_named() -> None:
    reason = explain(MIDDLE, b"0\na\nb\nc\nx\nd\r\ne\nf\n")
    assert reason.message == "only line endings differ, first at line 6: LF in the patch, CRLF in the file"


def test_only_the_newline_at_the_end_of_the_file_is_named() -> None:
    last = hunk(1, " a, b, c,-x,+y, d")
    reason = explain(last, b"a\nb\nc\nx\nd")
    assert reason.message == "only the newline at the end of the file differs, at line 5"
    assert reason.detail[1:] == (r"expected  'd\n'", "got       'd'")


def test_a_file_that_ends_early_says_so() -> None:
    assert explain(MIDDLE, "0 a b c x d e").detail[2] == "got       the end of the file"


def test_nothing_alike_is_compared_at_the_stated_line() -> None:
    reason = explain(MIDDLE, "0 1 2 3 4 5 6 7 8 9")
    assert reason.message == "the file differs from the hunk at line 2"
    assert reason.detail[0] == "agreeing  0 of 7 lines"


def test_a_fit_that_may_not_be_used_says_why() -> None:
    assert "too little context to be moved" in explain(hunk(2, " a,-x,+y, d"), "0 1 a x d").message
    assert "before the end of the hunk above it" in explain(MIDDLE, "0 a b c x d e f", floor=2).message
    reason = explain(hunk(1, " a, b, c,-x,+y, d"), "a b c x d more")
    assert reason.message == "the hunk fits at line 1, but shows the end of its file, and the file goes on"
    assert reason.detail == ("line      6", "expected  the end of the file", r"got       'more\n'")


def test_a_file_with_lines_is_no_empty_file() -> None:
    assert "for an empty file" in explain(hunk(0, "+a"), "a").message


def test_two_contents_are_compared_at_their_first_difference() -> None:
    assert difference(b"a\nb\n", b"a\nc\n") == ("line      2", "expected  'b'", "got       'c'")
    assert difference(b"a\n", b"a") == ("line      2", "expected  ''", "got       the end of the file")
