# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

from derive.canonical import Json, decode, encode, sha256
from derive.errors import InputErrors
from derive.patches.identity import from_document, patch_document, series_document, series_from_document
from derive.patches.model import Copy, Create, Delete, Hunk, Line, Modify, Rename, SetExecutable
from derive.patches.parse import parse_patch

HUNK = Hunk(3, (Line(" ", b"a\t100%\r\n"), Line("-", b"\xc3\xa9"), Line("+", b"\\\n")))
OPERATIONS = (
    Modify(path=b"dir/m", hunks=(HUNK,), executable=True),
    Create(path=b"c", contents=b"x\n\ny"),
    Delete(path=b"d", contents=b""),
    Rename(old=b"\xff", new=b"r"),
    Copy(old=b"s t", new=b"u", hunks=(HUNK,), executable=False),
    SetExecutable(path=b"e", executable=False),
)


def test_the_document_is_the_operations_and_nothing_else() -> None:
    lines = [" a%09100%25%0D", "-%C3%A9", "\\", "+\\"]
    assert patch_document(OPERATIONS) == {
        "operations": [
            {"op": "modify", "path": "dir/m", "executable": True, "hunks": [{"line": 3, "lines": lines}]},
            {"op": "create", "path": "c", "executable": False, "lines": ["+x", "+", "+y", "\\"]},
            {"op": "delete", "path": "d", "lines": []},
            {"op": "rename", "from": "%FF", "to": "r", "executable": None, "hunks": []},
            {"op": "copy", "from": "s t", "to": "u", "executable": False, "hunks": [{"line": 3, "lines": lines}]},
            {"op": "set-executable", "path": "e", "executable": False},
        ]
    }


def test_the_bytes_of_the_document_do_not_change_unnoticed() -> None:
    """A golden digest: another form needs another version of the patch builder."""
    assert (
        str(sha256(encode(patch_document(OPERATIONS))))
        == "sha256:346bb139dd23fc48e9d48c1e1f17621f34be5f2bc91aa4ebf7fd6bad45333e14"
    )


def test_the_example_of_the_builders_page_is_a_document() -> None:
    page = (Path(__file__).parents[3] / "docs" / "builders" / "patch.md").read_bytes()
    match = re.search(rb"```json\n(.*?)```", page, re.DOTALL)
    assert match is not None
    modify, create = from_document(decode(match[1]))
    assert isinstance(modify, Modify)
    assert modify.hunks[0].old == [b"one\n", b"two\r\n", b"three"]
    assert create == Create(path=b"\xc3\xa9", contents=b"#!/bin/sh\n", executable=True)


def test_a_document_is_read_back() -> None:
    assert from_document(patch_document(OPERATIONS)) == OPERATIONS


def test_a_series_is_a_list_of_documents_in_order() -> None:
    one = parse_patch("1", b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n")
    two = parse_patch("2", b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-b\n+c\n")
    assert series_document((one, two)) == [patch_document(one.operations), patch_document(two.operations)]
    assert series_from_document(series_document((one, two))) == (one.operations, two.operations)
    assert series_from_document([]) == ()


def test_the_newline_at_the_end_a_cr_and_the_stated_line_are_in_the_identity() -> None:
    start = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n"
    variants = (b"+b\n", b"+b\r\n", b"+b\n\\ No newline at end of file\n", b"+\xc3\xa9\n", b"+e\xcc\x81\n", b"+b \n")
    documents = {encode(patch_document(parse_patch("x", start + rest).operations)) for rest in variants}
    moved = parse_patch("x", b"--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n x\n-a\n+b\n y\n").operations
    other = parse_patch("x", b"--- a/f\n+++ b/f\n@@ -3,3 +3,3 @@\n x\n-a\n+b\n y\n").operations
    assert len(documents) == len(variants)
    assert patch_document(moved) != patch_document(other)


MODIFY: dict[str, Json] = {
    "op": "modify",
    "path": "f",
    "executable": None,
    "hunks": [{"line": 1, "lines": ["-a", "+b"]}],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"op": "paint"}, "not an operation"),
        ({"extra": 1}, "not the keys"),
        ({"path": "../f"}, "not a path inside"),
        ({"path": "a%2f"}, "not an escaped path"),
        ({"path": 1}, "not a text"),
        ({"executable": 1}, "not true or false"),
        ({"hunks": []}, "no hunk"),
        ({"hunks": "x"}, "not a list"),
        ({"hunks": [{"line": True, "lines": ["-a"]}]}, "not a line number"),
        ({"hunks": [{"line": 1, "lines": ["a"]}]}, "not a line of a hunk"),
        ({"hunks": [{"line": 1, "lines": ["-a%0Ab"]}]}, "not a line of a hunk"),
        ({"hunks": [{"line": 1, "lines": ["\\", "-a"]}]}, "no-newline mark"),
        ({"hunks": [{"line": 1, "lines": ["-a", "\\", "\\"]}]}, "no-newline mark"),
        ({"hunks": [{"line": 1, "lines": ["-", "\\"]}]}, "no-newline mark"),
        ({"hunks": [{"line": 1, "lines": ["-a", "+a"]}]}, "changes nothing"),
    ],
)
def test_a_document_of_another_form_is_refused(change: dict[str, Json], message: str) -> None:
    with pytest.raises(InputErrors) as caught:
        from_document({"operations": [MODIFY | change]})
    (problem,) = caught.value.problems()
    assert message in problem.message
    assert problem.where.startswith("patches.operations[0]")


def test_created_contents_are_added_lines_with_at_most_one_end() -> None:
    create: dict[str, Json] = {"op": "create", "path": "f", "executable": False}
    for lines in (["-a"], [" a"], ["+a", "\\", "+b"]):
        with pytest.raises(InputErrors, match="1 problem"):
            from_document({"operations": [create | {"lines": lines}]})


def test_a_document_without_operations_or_with_conflicting_ones_is_refused() -> None:
    for operations in ([], [MODIFY, MODIFY]):
        with pytest.raises(InputErrors):
            from_document({"operations": operations})
