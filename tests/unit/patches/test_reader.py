# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.errors import Problem
from derive.patches.reader import Converted, Refusal, Rows, header_row, show_row


def test_rows_are_counted_from_one_and_end_with_none() -> None:
    rows = Rows(b"a\n\nb\n")
    assert [(rows.line, rows.take()) for _ in range(4)] == [(1, b"a"), (2, b""), (3, b"b"), (4, None)]
    assert not rows.unterminated


def test_a_last_row_without_a_newline_is_known() -> None:
    rows = Rows(b"a\nb")
    rows.take()
    assert not rows.unterminated
    rows.take()
    assert rows.unterminated


def test_a_file_begins_at_two_header_rows_or_at_diff_git() -> None:
    assert Rows(b"--- a/x\n+++ b/x\n").at_block()
    assert Rows(b"diff --git a/x b/x\n").at_block()
    assert not Rows(b"--- a/x\n@@").at_block()
    assert not Rows(b"diff -u a b\n").at_block()


def test_a_header_row_that_ends_in_cr_condemns_the_whole_file() -> None:
    with pytest.raises(Converted) as caught:
        header_row(Rows(b"--- a/x\r\n"))
    assert caught.value.line == 1


def test_a_refusal_becomes_a_problem_with_its_line() -> None:
    refusal = Refusal(7, "no", detail=("d",), hint="h")
    assert refusal.problem("patches/x/y.patch") == Problem(
        where="patches/x/y.patch: line 7", message="no", detail=("d",), hint="h"
    )


def test_a_shown_row_is_one_short_line_with_its_ending_visible() -> None:
    assert show_row(b"\tx\r\n") == "'\\tx\\r\\n'"
    assert show_row(b"\xff") == "'\\\\xff'"
    assert len(show_row(b"x" * 500)) <= 120
