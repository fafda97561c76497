# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.patches.make import hunks_between
from derive.patches.model import Copy, Create, Delete, FileOperation, FileState, Modify, Rename, SetExecutable
from derive.patches.parse import parse_patch
from derive.patches.render import patch_file, quoted, render

HUNKS = hunks_between(b"a\nb\n", b"a\nc\n")
ODD = b'd "q"\\/\xe9 \t b/\n'

OPERATIONS: list[FileOperation] = [
    Modify(path=b"f", hunks=HUNKS),
    Modify(path=b"f", hunks=HUNKS, executable=True),
    Modify(path=b"f", hunks=hunks_between(b"", b"x")),
    Modify(path=b"f", hunks=hunks_between(b"x\n", b"")),
    Create(path=b"f", contents=b""),
    Create(path=b"f", contents=b"no newline", executable=True),
    Delete(path=b"f", contents=b""),
    Delete(path=b"f", contents=b"a\r\nb"),
    Rename(old=b"f", new=b"g"),
    Rename(old=b"f f", new=b"g g", hunks=HUNKS, executable=False),
    Copy(old=b"f", new=b"b/f", hunks=HUNKS),
    SetExecutable(path=b"x b/x", executable=True),
    SetExecutable(path=ODD, executable=False),
    Rename(old=ODD, new=b"f"),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: type(operation).__name__)
def test_each_operation_comes_back_from_its_text(operation: FileOperation) -> None:
    assert parse_patch("p", render([operation])).operations == (operation,)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: type(operation).__name__)
def test_git_takes_every_text(operation: FileOperation, tmp_path: Path) -> None:
    done = subprocess.run(
        ["git", "apply", "--numstat", "-"], cwd=tmp_path, input=render([operation]), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_text_is_what_git_diff_writes_but_for_what_says_nothing() -> None:
    before = {b"f": FileState(contents=b"void g(int a)\n{\n" + b"  x\n" * 5 + b"  y\n}\n")}
    after = before[b"f"].contents.replace(b"  y\n", b"  z\n")
    operation = Modify(path=b"f", hunks=hunks_between(before[b"f"].contents, after))
    assert render([operation], before.get).decode() == (
        "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -5,5 +5,5 @@ void g(int a)\n   x\n   x\n   x\n-  y\n+  z\n }\n"
    )


def test_a_deleted_program_keeps_its_mode() -> None:
    before = {b"f": FileState(contents=b"x\n", executable=True)}
    assert b"deleted file mode 100755\n" in render([Delete(path=b"f", contents=b"x\n")], before.get)


def test_a_later_hunk_says_where_it_will_be() -> None:
    old = b"".join(b"%d\n" % number for number in range(30))
    new = old.replace(b"2\n", b"2\nnew\n", 1).replace(b"25\n", b"")
    rows = [row for row in render([Modify(path=b"f", hunks=hunks_between(old, new))]).split(b"\n") if row[:2] == b"@@"]
    assert rows == [b"@@ -1,6 +1,7 @@", b"@@ -23,7 +24,6 @@"]


def test_a_header_stands_before_the_changes_with_one_empty_line_between() -> None:
    text = patch_file("p", b"Description: x\n\n\n", [OPERATIONS[0]])
    assert text.startswith(b"Description: x\n\ndiff --git ")
    assert patch_file("p", b"", [OPERATIONS[0]]).startswith(b"diff --git ")


@pytest.mark.parametrize("row", [b"diff --git a/x b/x", b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b", b"@@ -1 +1 @@"])
def test_a_header_that_would_be_read_as_a_change_is_refused(row: bytes) -> None:
    with pytest.raises(InputErrors) as refused:
        patch_file("p", b"text\n" + row, [OPERATIONS[0]])
    assert refused.value.problems()[0].where == "p"


def test_quoting_is_git_s() -> None:
    assert quoted(b'a"\\\t\xe9 b') == b'"a\\"\\\\\\t\\351 b"'
