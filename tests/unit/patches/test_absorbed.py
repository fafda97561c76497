# SPDX-License-Identifier: Apache-2.0
"""Sorting the parts of one patch; what whole series make of it is in test_status.py."""

from __future__ import annotations

from derive.patches.absorbed import Place, parts_of, reversed_hunk
from derive.patches.apply import apply_patch, try_patch
from derive.patches.model import Create, Delete, FileOperation, FileState, Hunk, Line, Modify, Rename

OLD = b"".join(b"%d\n" % number for number in range(1, 31))
HUNK = Hunk(
    4,
    (
        *(Line(" ", b"%d\n" % number) for number in (4, 5, 6)),
        Line("-", b"7\n"),
        Line("+", b"seven\n"),
        Line("+", b"more\n"),
        *(Line(" ", b"%d\n" % number) for number in (8, 9, 10)),
    ),
)


def test_a_reversed_hunk_undoes_the_hunk() -> None:
    before = {b"f": FileState(contents=OLD)}
    after = apply_patch((Modify(path=b"f", hunks=(HUNK,)),), before.get).changes
    back = apply_patch((Modify(path=b"f", hunks=(reversed_hunk(HUNK, 4),)),), after.get).changes
    assert back == before


def test_operations_that_apply_are_left_as_they_are_beside_those_that_are_there() -> None:
    operations: tuple[FileOperation, ...] = (
        Create(path=b"new", contents=b"x"),
        Delete(path=b"gone", contents=b"y"),
        Rename(old=b"a", new=b"b"),
    )
    tree = {b"new": FileState(contents=b"x"), b"gone": FileState(contents=b"y"), b"a": FileState(contents=b"z")}
    parts = parts_of(operations, try_patch(operations, tree.get), tree.get)
    assert parts.absorbed == (Place(path=b"new"),)
    assert parts.left == operations[1:]
    assert parts.open == (Place(path=b"gone"), Place(path=b"b"))
    assert parts.refused == ()


def test_a_hunk_that_is_left_is_written_for_the_line_at_which_it_applies() -> None:
    tree = {b"f": FileState(contents=b"0\n" + OLD), b"n": FileState(contents=b"x")}
    operations = (Modify(path=b"f", hunks=(HUNK,), executable=False), Create(path=b"n", contents=b"x"))
    parts = parts_of(operations, try_patch(operations, tree.get), tree.get)
    assert parts.left == (Modify(path=b"f", hunks=(Hunk(5, HUNK.lines),)),)
    assert not any(one.offset for one in try_patch(parts.left, tree.get).landed)


def test_what_is_left_must_apply_and_change_something() -> None:
    """Hunks that apply one by one, and cancel each other."""
    same = tuple(Line(" ", b"x\n") for _ in range(3))
    hunks = (Hunk(1, (*same, Line("-", b"x\n"), *same)), Hunk(8, (*same, Line("+", b"x\n"), *same)))
    operations = (Modify(path=b"f", hunks=hunks),)
    tree = {b"f": FileState(contents=b"x\n" * 20)}
    parts = parts_of(operations, try_patch(operations, tree.get), tree.get)
    assert [one.reason.message for one in parts.refused] == ["the operation applies, and changes nothing"]
