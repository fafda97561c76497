# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from derive.errors import BuildFailed
from derive.patches.apply import Tried, apply_series, try_patch
from derive.patches.model import Copy, Create, Delete, FileOperation, FileState, Modify, Rename, SetExecutable, State
from derive.patches.parse import parse_patch
from derive.patches.proof import Landed, prove_patch, prove_tree
from derive.store.memory import MemoryStore
from derive.trees.listing import DIRECTORY, Listing, Symlink
from derive.trees.pack import NewFile, add_members

OLD = b"".join(b"%d\n" % number for number in range(1, 31))
NEW = OLD.replace(b"\n5\n", b"\nfive\nand\n").replace(b"\n25\n", b"\n")
TWO = parse_patch(
    "p",
    b"--- a/f\n+++ b/f\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and\n 6\n 7\n 8\n"
    b"@@ -22,7 +23,6 @@\n 22\n 23\n 24\n-25\n 26\n 27\n 28\n",
).operations

BEFORE: Mapping[bytes, State] = {
    b"f": FileState(contents=OLD),
    b"old": FileState(contents=b"x\n"),
    b"bit": FileState(contents=b"y\n"),
    b"gone": FileState(contents=b"z\n"),
}


def tried(operations: tuple[FileOperation, ...]) -> Tried:
    found = try_patch(operations, BEFORE.get)
    assert not found.refused
    return found


def fault(
    operations: tuple[FileOperation, ...],
    after: Mapping[bytes, FileState | None],
    landed: tuple[Landed, ...],
    before: Mapping[bytes, State] = BEFORE,
) -> str:
    with pytest.raises(BuildFailed) as caught:
        prove_patch("p", operations, before.get, after, landed)
    return caught.value.detail[0]


def test_hunks_are_proved_at_the_lines_of_the_result() -> None:
    found = tried(TWO)
    assert found.after == {b"f": FileState(contents=NEW)}
    assert [(one.hunk, one.before, one.line) for one in found.landed] == [(1, 2, 2), (2, 22, 23)]
    prove_patch("p", TWO, BEFORE.get, found.after, found.landed)


ALL = (
    *TWO,
    Create(path=b"new", contents=b"n"),
    Delete(path=b"gone", contents=b"z\n"),
    Rename(old=b"old", new=b"moved"),
    Copy(old=b"bit", new=b"copied"),
    SetExecutable(path=b"bit", executable=True),
)


def test_every_kind_of_operation_is_proved() -> None:
    found = tried(ALL)
    prove_patch("p", ALL, BEFORE.get, found.after, found.landed)


@pytest.mark.parametrize("path", [b"f", b"new", b"gone", b"old", b"moved", b"copied", b"bit"])
def test_a_result_in_which_a_path_is_as_before_proves_nothing(path: bytes) -> None:
    """What reports success and changed nothing is found by its result."""
    found = tried(ALL)
    state = BEFORE.get(path)
    assert state is None or isinstance(state, FileState)
    assert fault(ALL, {**found.after, path: state}, found.landed).startswith(path.decode())


@pytest.mark.parametrize("path", [b"f", b"gone", b"moved"])
def test_a_path_that_the_result_does_not_speak_of_is_missed(path: bytes) -> None:
    found = tried(ALL)
    after = {key: state for key, state in found.after.items() if key != path}
    assert fault(ALL, after, found.landed) == f"{path.decode()}: not in the result"


def test_a_path_that_no_operation_changes_is_found() -> None:
    found = tried(TWO)
    assert fault(TWO, {**found.after, b"x": None}, found.landed) == "x: changed by no operation"


@pytest.mark.parametrize(
    "contents",
    [
        NEW.replace(b"five\n", b""),
        NEW.replace(b"five\n", b"five\r\n"),
        NEW.replace(b"\n15\n", b"\n"),
        NEW.replace(b"\n30\n", b"\n31\n"),
        NEW[:-1],
        b"0\n" + NEW,
        OLD,
        b"",
    ],
)
def test_contents_other_than_the_hunks_make_are_found(contents: bytes) -> None:
    found = tried(TWO)
    assert "f: " in fault(TWO, {b"f": FileState(contents=contents)}, found.landed)


def test_a_hunk_that_is_claimed_elsewhere_or_not_at_all_is_found() -> None:
    found = tried(TWO)
    first, second = found.landed
    assert fault(TWO, found.after, (first,)) == "f: 1 of 2 hunks landed"
    assert fault(TWO, found.after, (second, first)) == "f: 2 of 2 hunks landed"
    assert "hunk 2" in fault(TWO, found.after, (first, replace(second, line=22)))
    assert "hunk 1" in fault(TWO, found.after, (replace(first, before=3), second))
    assert "operation 7" in fault(TWO, found.after, (*found.landed, replace(first, operation=7)))


def test_a_bit_that_is_not_as_the_patch_says_is_found() -> None:
    found = tried(TWO)
    after = {b"f": FileState(contents=NEW, executable=True)}
    assert fault(TWO, after, found.landed) == "f: not with the execute bit that the patch gives it"
    (modify,) = TWO
    assert isinstance(modify, Modify)
    with_bit = (replace(modify, executable=True),)
    assert "execute bit" in fault(with_bit, found.after, found.landed)


def test_a_series_says_where_each_hunk_of_each_patch_landed() -> None:
    later = parse_patch("q", b"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n-1\n+one\n 2\n 3\n").operations
    applied = apply_series((TWO, later), BEFORE.get)
    assert [[(one.path, one.line) for one in landed] for landed in applied.landed] == [
        [(b"f", 2), (b"f", 23)],
        [(b"f", 1)],
    ]


def tree(**files: bytes) -> Listing:
    members = [(name.replace("__", "/").encode(), NewFile(False, (data,))) for name, data in files.items()]
    return add_members(MemoryStore(), [*members, (b"link", Symlink(b"f"))])


def test_a_tree_is_proved_with_the_folders_that_came_and_went() -> None:
    changes = {b"f": FileState(contents=b"y"), b"d/g": None, b"n/h": FileState(contents=b"h")}
    prove_tree(tree(f=b"x", d__g=b"g", k=b"k"), tree(f=b"y", n__h=b"h", k=b"k"), changes)


@pytest.mark.parametrize(
    ("after", "path"),
    [
        (tree(f=b"x", k=b"k"), "f"),
        (tree(f=b"y", k=b"l"), "k"),
        (tree(f=b"y"), "k"),
        (tree(f=b"y", k=b"k", m=b""), "m"),
        (Listing.of({**tree(f=b"y", k=b"k"), b"f": DIRECTORY}), "f"),
        (Listing.of({**tree(f=b"y", k=b"k"), b"link": Symlink(b"k")}), "link"),
    ],
)
def test_a_tree_that_is_otherwise_is_found(after: Listing, path: str) -> None:
    with pytest.raises(BuildFailed) as caught:
        prove_tree(tree(f=b"x", k=b"k"), after, {b"f": FileState(contents=b"y")})
    assert caught.value.detail[0].startswith(f"{path}: ")
