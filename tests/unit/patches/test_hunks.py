# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.patches.hunks import check_after, read_hunk, read_hunks
from derive.patches.model import Hunk, Line
from derive.patches.reader import Converted, Refusal, Rows


def test_a_hunk_is_its_start_and_its_lines() -> None:
    rows = Rows(b"@@ -3,2 +9,2 @@ int main()\n a\r\n-b\n+\n")
    assert read_hunk(rows) == Hunk(3, (Line(" ", b"a\r\n"), Line("-", b"b\n"), Line("+", b"\n")))
    assert rows.peek() is None


def test_a_missing_newline_is_kept_on_the_side_that_lacks_it() -> None:
    for body, lines in {
        b"-a\n\\ No newline at end of file\n+a\n": (Line("-", b"a"), Line("+", b"a\n")),
        b"-a\n+a\n\\ No newline at end of file\n": (Line("-", b"a\n"), Line("+", b"a")),
        b"-a\n\\ Kein Zeilenumbruch\n+b\n\\ Kein Zeilenumbruch\n": (Line("-", b"a"), Line("+", b"b")),
    }.items():
        assert read_hunk(Rows(b"@@ -1 +1 @@\n" + body)) == Hunk(1, lines)


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b"@@ -1,2 +1,2 @@\n a\n\n-b\n+c\n", 3, "space of a blank context line was trimmed"),
        (b"@@ -1,2 +1,2 @@\n a\n\r\n-b\n+c\n", 3, "trimmed"),
        (b"@@ -1,3 +1,3 @@\n a\n-b\n+c\n", 1, "the patch ends inside this hunk"),
        (b"@@ -1,3 +1,3 @@\n a\n-b\n+c\ndiff --git a/x b/x\n", 5, "is not complete"),
        (b"@@ -1,2 +1,1 @@\n a\n b\n-c\n", 3, "more than the 1 new lines"),
        (b"@@ -1,1 +1,2 @@\n a\n b\n+c\n", 3, "more than the 1 old lines"),
        (b"@@ -1 +1 @@\n-a\n+b", 3, "ends inside a line"),
        (b"@@ -1 +1 @@\n-a\n+\n\\ No newline at end of file\n", 3, "is no line"),
        (b"@@ -1,0 +1,0 @@\n", 1, "without lines"),
        (b"@@ -1 1 @@\n", 1, "not a hunk header"),
    ],
)
def test_a_hunk_that_is_not_exactly_what_its_header_counts_is_refused_at_its_row(
    data: bytes, line: int, message: str
) -> None:
    with pytest.raises(Refusal, match=message) as caught:
        read_hunk(Rows(data))
    assert caught.value.line == line


def test_a_converted_hunk_header_or_newline_mark_condemns_the_file() -> None:
    for data in (b"@@ -1 +1 @@\r\n-a\r\n+b\r\n", b"@@ -1 +1 @@\n-a\n\\ No newline at end of file\r\n+b\n"):
        with pytest.raises(Converted):
            read_hunk(Rows(data))


@pytest.mark.parametrize(
    "rest",
    [
        b"",
        b"\n\n",
        b"@@ -9 +9 @@\n",
        b"diff --git a/x b/x\n",
        b"--- a/x\n+++ b/x\n",
        b"Index: x\n",
        b"-- \n2.39.5\n\n",
        b"--\n2.39.5\n",
        b"-- \n2.39.5\nFrom 12 Mon Sep 17\n",
        b"\nFrom 12 Mon Sep 17\n",
    ],
)
def test_what_may_follow_a_hunk(rest: bytes) -> None:
    check_after(Rows(rest))


@pytest.mark.parametrize(
    ("rest", "line", "message"),
    [
        (b"+left over\n", 1, "no hunk counts"),
        (b" left over\n", 1, "no hunk counts"),
        (b"-- a removed lua comment\n", 1, "no hunk counts"),
        (b"-- \n-- \n-- \n", 1, "no hunk counts"),
        (b"--- not a header\n", 1, "no hunk counts"),
        (b"\\ No newline at end of file\n", 1, "no hunk counts"),
        (b"\n\n+left over\n", 3, "no hunk counts"),
        (b"\n@@ -9 +9 @@\n", 2, "empty line before a hunk"),
        (b"Only in b: x\n", 1, "text between"),
    ],
)
def test_rows_that_a_tool_would_skip_after_a_hunk_are_refused(rest: bytes, line: int, message: str) -> None:
    with pytest.raises(Refusal, match=message) as caught:
        check_after(Rows(rest))
    assert caught.value.line == line


def test_every_wrong_hunk_of_a_file_is_refused_and_the_next_file_found() -> None:
    rows = Rows(b"@@ -1,2 +1,2 @@\n a\n\n@@ -5 +5 @@\n-a\n+b\n@@ -7 +7 @@\n x\n--- a/y\n+++ b/y\n")
    refusals: list[Refusal] = []
    assert read_hunks(rows, refusals) is None
    assert sorted(refusal.line for refusal in refusals) == [3, 4, 7]
    assert rows.at_block()
