# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.patches.extended import read_git_file
from derive.patches.model import Copy, Create, Delete, FileOperation, Hunk, Line, Modify, Rename, SetExecutable
from derive.patches.reader import Refusal, Rows

HUNK = (Hunk(1, (Line("-", b"a\n"), Line("+", b"b\n"))),)
BODY = "@@ -1 +1 @@\n-a\n+b\n"
FILES = "--- a/f\n+++ b/f\n"


def read(text: str) -> FileOperation | None:
    refusals: list[Refusal] = []
    found = read_git_file(Rows(text.encode()), refusals)
    assert not refusals
    return found


@pytest.mark.parametrize(
    ("rows", "operation"),
    [
        (f"f f\nindex 1..2 100644\n{FILES}{BODY}", Modify(path=b"f", hunks=HUNK)),
        (
            f"f f\nold mode 100644\nnew mode 100755\nindex 1..2\n{FILES}{BODY}",
            Modify(path=b"f", hunks=HUNK, executable=True),
        ),
        ("f f\nold mode 100755\nnew mode 100644\n", SetExecutable(path=b"f", executable=False)),
        ("f f\nnew file mode 100755\nindex 0..1\n", Create(path=b"f", contents=b"", executable=True)),
        (
            "f f\nnew file mode 100644\nindex 0..1\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n",
            Create(path=b"f", contents=b"a\n"),
        ),
        ("f f\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", Create(path=b"f", contents=b"a\n")),
        ("f f\ndeleted file mode 100644\nindex 1..0\n", Delete(path=b"f", contents=b"")),
        (
            "f f\ndeleted file mode 100755\nindex 1..0\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
            Delete(path=b"f", contents=b"a\n"),
        ),
        ("f g\nsimilarity index 100%\nrename from f\nrename to g\n", Rename(old=b"f", new=b"g")),
        (
            f"f g\nold mode 100644\nnew mode 100755\nrename from f\nrename to g\n--- a/f\n+++ b/g\n{BODY}",
            Rename(old=b"f", new=b"g", hunks=HUNK, executable=True),
        ),
        (f"f g\ncopy from f\ncopy to g\n--- a/f\n+++ b/g\n{BODY}", Copy(old=b"f", new=b"g", hunks=HUNK)),
        (f"f f\ndissimilarity index 90%\n{FILES}{BODY}", Modify(path=b"f", hunks=HUNK)),
    ],
)
def test_the_extended_header_says_which_operation_it_is(rows: str, operation: FileOperation) -> None:
    old, new, rest = rows.split(maxsplit=2)
    assert read(f"diff --git a/{old} b/{new}\n{rest}") == operation


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("new file mode 120000\nindex 0..1\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", "symbolic link"),
        ("deleted file mode 120000\n", "symbolic link"),
        (f"index 1..2 120000\n{FILES}{BODY}", "symbolic link"),
        (f"index 1..2 160000\n{FILES}{BODY}", "submodule"),
        ("old mode 100644\nnew mode 040000\n", "not the mode of a file"),
        ("old mode 100644\n", "do not stand together"),
        ("rename from f\n", "do not stand together"),
        ("old mode 100644\nold mode 100644\n", "a second old mode row"),
        ("old mode 100644\nnew mode 100664\n", "changes nothing"),
        ("index 1..2 100644\n", "changes nothing"),
        ("new file mode 100644\ndeleted file mode 100644\n", "more than one of"),
        ("--- /dev/null\n+++ /dev/null\n", "more than one of"),
        ("rename from f\nrename to f\ncopy from f\ncopy to f\n", "more than one of"),
        ("new file mode 100644\nold mode 100644\nnew mode 100755\n", "created or deleted"),
        ("new file mode 100644\n--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", "does not say /dev/null"),
        (f"--- a/g\n+++ b/g\n{BODY}", "names in the rows of one file differ"),
        ("rename from f\nrename to g\n", "names in the rows of one file differ"),
        (FILES, "without a hunk"),
        ("GIT binary patch\nliteral 3\n", "binary patch"),
        ("Binary files a/f and b/f differ\n", "binary patch"),
    ],
)
def test_a_header_that_contradicts_itself_or_is_of_another_kind_is_refused(rows: str, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        read(f"diff --git a/f b/f\n{rows}")


def test_a_rename_that_no_row_states_is_refused() -> None:
    with pytest.raises(Refusal, match="no row says rename or copy"):
        read(f"diff --git a/f b/g\n--- a/f\n+++ b/g\n{BODY}")


def test_a_name_that_no_row_shows_is_refused() -> None:
    with pytest.raises(Refusal, match="no row shows"):
        read("diff --git a/f x b/f y\nold mode 100644\nnew mode 100755\n")


def test_a_combined_diff_is_refused_by_name() -> None:
    with pytest.raises(Refusal, match="combined diff"):
        read("diff --cc f\nindex 1,2..3\n")
