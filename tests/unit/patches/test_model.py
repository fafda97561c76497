# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.patches.model import (
    Copy,
    Create,
    Delete,
    FileOperation,
    Hunk,
    Line,
    Modify,
    Rename,
    SetExecutable,
    conflicts,
    hunk_faults,
    path_fault,
    split_lines,
)


def hunk(start: int, *lines: str) -> Hunk:
    return Hunk(start, tuple(Line(line[0], line[1:].encode()) for line in lines))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("contents", "lines"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a\n"]),
        (b"a\r\nb\rc\n\n", [b"a\r\n", b"b\rc\n", b"\n"]),
        (b"\x0c\x85\n", [b"\x0c\x85\n"]),
    ],
)
def test_lines_end_at_lf_alone_and_keep_it(contents: bytes, lines: list[bytes]) -> None:
    assert split_lines(contents) == lines


def test_a_hunk_knows_its_sides_and_context() -> None:
    found = hunk(4, " a\n", "-b\n", "+c\n", "+d\n", " e\n", " f\n")
    assert (found.old, found.new) == ([b"a\n", b"b\n", b"e\n", b"f\n"], [b"a\n", b"c\n", b"d\n", b"e\n", b"f\n"])
    assert (found.leading, found.trailing) == (1, 2)


@pytest.mark.parametrize(
    "path", [b"/etc/passwd", b"../x", b"a/../x", b"a//b", b".", b"", b"a/", b"a\0b", b".git/hooks/x", b"a/.GIT/x"]
)
def test_paths_outside_the_tree_or_inside_gits_folder_are_faults(path: bytes) -> None:
    assert path_fault(path) is not None


@pytest.mark.parametrize("path", [b"a", b".gitattributes", b".github/x", b"a/..b/c", b"\xff\n"])
def test_ordinary_paths_are_none(path: bytes) -> None:
    assert path_fault(path) is None


@pytest.mark.parametrize(
    ("lines", "start", "fault"),
    [
        ((" a\n", "-b\n", "+b\n", " c\n"), 1, "changes nothing"),
        ((" a\n", " b\n"), 1, "changes nothing"),
        ((" a\n", "-b", "+c\n", " d\n"), 1, "without a newline"),
        (("+a\n",), 3, "does not show where it belongs"),
        ((" a\n", "+b\n", " c\n"), 0, "begins at line 0"),
        (("-b\n", "+c\n", " d\n"), 7, "no context before"),
    ],
)
def test_a_hunk_shows_its_own_faults(lines: tuple[str, ...], start: int, fault: str) -> None:
    ((index, message),) = hunk_faults((hunk(start, *lines),))
    assert index == 0
    assert fault in message


def test_hunks_out_of_order_overlapping_or_open_at_the_end_are_faults() -> None:
    one, two = hunk(1, " a\n", "-b\n", " c\n"), hunk(3, " c\n", "-d\n", " e\n")
    assert not list(hunk_faults((one, hunk(4, " d\n", "-e\n", " f\n"))))
    assert [index for index, _ in hunk_faults((one, two))] == [1]
    assert [index for index, _ in hunk_faults((hunk(9, " x\n", "-y\n", " z\n"), one))] == [1]
    assert "no context after" in next(hunk_faults((hunk(1, " a\n", "-b\n"), hunk(5, " c\n", "-d\n"))))[1]
    assert "not the only one" in next(hunk_faults((hunk(1, " c\n", "-d\n", " e\n"), hunk(0, "+a\n"))))[1]


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ((Create(path=b"a", contents=b""), Create(path=b"a", contents=b"x")), "writes a a second time"),
        ((Delete(path=b"a", contents=b""), Delete(path=b"a", contents=b"")), "removes a, which"),
        ((SetExecutable(path=b"a", executable=True), Delete(path=b"a", contents=b"")), "removes a, which"),
        ((Rename(old=b"a", new=b"b"), SetExecutable(path=b"a", executable=True)), "changes a, which"),
        ((Rename(old=b"a", new=b"a"),), "renames a to itself"),
        ((Copy(old=b"a", new=b"a"),), "copies a to itself"),
        ((Rename(old=b"a", new=b"c"), Rename(old=b"b", new=b"c")), "writes c a second time"),
    ],
)
def test_operations_of_one_patch_that_exclude_each_other_are_named(
    operations: tuple[FileOperation, ...], message: str
) -> None:
    assert any(message in found for _, found in conflicts(operations))


def test_a_swap_a_replacement_and_a_copy_of_a_changed_file_go_together() -> None:
    change = Modify(path=b"a", hunks=(hunk(1, " a\n", "-b\n"),))
    for operations in (
        (Rename(old=b"a", new=b"b"), Rename(old=b"b", new=b"a")),
        (Rename(old=b"a", new=b"b"), Create(path=b"a", contents=b"")),
        (change, Copy(old=b"a", new=b"c")),
    ):
        assert not list(conflicts(operations))
