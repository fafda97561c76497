# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.patches.model import Create, Delete, Hunk, Line
from derive.patches.operations import created, deleted, refuse_unread
from derive.patches.reader import Refusal, Rows

ADDED = Hunk(0, (Line("+", b"a\n"), Line("+", b"b")))
REMOVED = Hunk(1, (Line("-", b"a\n"), Line("-", b"b")))
CHANGED = Hunk(1, (Line("-", b"a\n"), Line("+", b"b\n")))


def test_a_creation_holds_the_whole_contents() -> None:
    assert created(b"x", (ADDED,), executable=True, line=1) == Create(path=b"x", contents=b"a\nb", executable=True)
    assert created(b"x", (), executable=False, line=1) == Create(path=b"x", contents=b"")


def test_a_deletion_holds_the_whole_contents() -> None:
    assert deleted(b"x", (REMOVED,), line=1) == Delete(path=b"x", contents=b"a\nb")
    assert deleted(b"x", (), line=1) == Delete(path=b"x", contents=b"")


def test_a_creation_that_removes_and_a_deletion_that_adds_are_refused() -> None:
    for hunks in ((CHANGED,), (REMOVED,), (ADDED, ADDED)):
        with pytest.raises(Refusal, match="creates a file, yet"):
            created(b"x", hunks, executable=False, line=1)
    for hunks in ((CHANGED,), (ADDED,), (REMOVED, REMOVED)):
        with pytest.raises(Refusal, match="deletes a file, yet"):
            deleted(b"x", hunks, line=1)


@pytest.mark.parametrize(
    "row", [b"GIT binary patch", b"Binary files a/x and /dev/null differ", b"Files a/x and b/x differ"]
)
def test_binary_contents_are_refused_by_name(row: bytes) -> None:
    with pytest.raises(Refusal, match="binary patch") as caught:
        refuse_unread(Rows(row + b"\n"))
    assert caught.value.hint is not None


def test_a_file_that_diff_only_mentions_is_refused() -> None:
    with pytest.raises(Refusal, match="only mentions"):
        refuse_unread(Rows(b"Only in b/d: f\n"))


def test_text_that_only_mentions_binary_files_is_none() -> None:
    refuse_unread(Rows(b"Binary files are not allowed\n"))
