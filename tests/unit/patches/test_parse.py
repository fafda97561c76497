# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.errors import InputErrors, Problem
from derive.patches.model import Create, Delete, Hunk, Line, Modify
from derive.patches.parse import parse_patch

CHANGE = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"


def refused(text: str) -> tuple[Problem, ...]:
    with pytest.raises(InputErrors) as caught:
        parse_patch("x.patch", text.encode(), where="patches/up/x.patch")
    return caught.value.problems()


def test_a_plain_diff_becomes_a_modification_and_its_head_the_header() -> None:
    patch = parse_patch("x.patch", f"Subject: what\n\nwhy\n---\n f | 2 +-\n\n{CHANGE}-- \n2.39.5\n\n".encode())
    assert patch.name == "x.patch"
    assert patch.header.text == b"Subject: what\n\nwhy\n---\n f | 2 +-\n\n"
    lines = (Line(" ", b"a\n"), Line("-", b"b\n"), Line("+", b"c\n"))
    assert patch.operations == (Modify(path=b"f", hunks=(Hunk(1, lines),)),)


def test_two_mails_in_one_file_are_one_patch() -> None:
    mail = "From 12ab Mon Sep 17 00:00:00 2001\nSubject: x\n\n- a list\n+ another\n\n---\n"
    text = f"{mail}{CHANGE}-- \n2.39.5\n\n{mail}{CHANGE.replace('/f', '/g')}-- \n2.39.5\n\n"
    assert [operation.path for operation in parse_patch("x", text.encode()).operations] == [b"f", b"g"]  # type: ignore[union-attr]


def test_gnu_diff_says_created_and_deleted_with_a_time_of_zero() -> None:
    text = (
        "diff -urN a/n b/n\n--- a/n\t1970-01-01 01:00:00.000000000 +0100\n+++ b/n\t2026-11-01 10:00:00.5 +0100\n"
        "@@ -0,0 +1 @@\n+x\n"
        "diff -urN a/o b/o\n--- a/o\t2026-11-01 10:00:00.5 +0100\n+++ b/o\t1970-01-01 01:00:00.000000000 +0100\n"
        "@@ -1 +0,0 @@\n-x\n"
    )
    operations = parse_patch("x", text.encode()).operations
    assert operations == (Create(path=b"n", contents=b"x\n"), Delete(path=b"o", contents=b"x\n"))


def test_a_file_that_becomes_empty_is_not_deleted() -> None:
    (operation,) = parse_patch("x", b"--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-x\n").operations
    assert isinstance(operation, Modify)


def test_crlf_lines_of_a_source_are_kept_and_a_converted_patch_is_refused_once() -> None:
    text = CHANGE.replace(" a\n", " a\r\n").replace("-b\n", "-b\r\n").replace("+c\n", "+c\r\n")
    (operation,) = parse_patch("x", text.encode()).operations
    assert isinstance(operation, Modify)
    assert operation.hunks[0].old == [b"a\r\n", b"b\r\n"]
    (problem,) = refused((CHANGE + CHANGE.replace("/f", "/g")).replace("\n", "\r\n"))
    assert "CRLF" in problem.message
    assert problem.where == "patches/up/x.patch: line 1"


def test_a_trimmed_blank_context_line_is_refused_at_its_line() -> None:
    (problem,) = refused("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n-b\n+c\n x\n\n")
    assert problem.where == "patches/up/x.patch: line 7"
    assert "trimmed" in problem.message


def test_all_faults_of_a_patch_are_reported_at_once_each_at_its_line() -> None:
    text = (
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n\n-b\n+c\n"  # line 5: trimmed
        "@@ -9,3 +9,3 @@\n a\n-b\n+b\n c\n"  # line 8: changes nothing
        "--- a/../g\n+++ b/../g\n@@ -1 +1 @@\n-b\n+c\n"  # line 13
        "Binary files a/x and b/x differ\n"  # line 18
    )
    assert {problem.where.rpartition(" ")[2] for problem in refused(text)} == {"5", "8", "13", "18"}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "no change to any file"),
        ("just text\n--\n", 1, "no change to any file"),
        ("@@ -1 +1 @@\n-a\n+b\n", 1, "belongs to no file"),
        ("*** a/f\n--- b/f\n***************\n", 1, "context diff"),
        ("--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n", 1, "no folder to strip"),
        ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", 1, "absolute path"),
        ("--- a/f.orig\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", 1, "names before and after differ"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", 1, "absent before and after"),
        ("--- a/.git/config\n+++ b/.git/config\n@@ -1 +1 @@\n-a\n+b\n", 1, "git's own folder"),
        ("--- a/f\n+++ b/f\n", 1, "without a hunk"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+a\n", 3, "changes nothing"),
        ("--- a/f\n+++ b/f\n@@ -4,0 +5 @@\n+a\n", 3, "does not show where it belongs"),
        ("--- a/f\n+++ b/f\n@@ -4 +4 @@\n-a\n+b\n", 3, "no context before"),
        ("--- a/f\n+++ b/f\n@@@ -1 -1 +1 @@@\n", 3, "not a hunk header"),
        ("Binary files a/x and b/x differ\n", 1, "binary patch"),
        ("Only in b: x\n" + CHANGE, 1, "only mentions"),
        ("SPDX-License-Identifier: GPL?\n" + CHANGE, 1, "no SPDX expression"),
        (CHANGE + CHANGE, 7, "writes f a second time"),
        (CHANGE + "\n+left over\n", 8, "no hunk counts"),
    ],
)
def test_what_cannot_be_read_exactly_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    (problem,) = refused(text)
    assert problem.where == f"patches/up/x.patch: line {line}"
    assert message in problem.message


def test_the_licence_of_a_header_is_read() -> None:
    assert parse_patch("x", CHANGE.encode()).header.licence is None
    patch = parse_patch("x", b"SPDX-License-Identifier: gpl-2.0-only or mit\n" + CHANGE.encode())
    assert patch.header.licence == "GPL-2.0-only OR MIT"


def test_errors_call_a_patch_by_its_name_unless_told_otherwise() -> None:
    with pytest.raises(InputErrors) as caught:
        parse_patch("x.patch", b"")
    assert caught.value.problems()[0].where == "x.patch: line 1"
