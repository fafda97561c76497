# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import pytest

from derive.errors import InputErrors
from derive.patches.make import Change, hunks_between, landed, operations_between, refreshed
from derive.patches.model import Copy, Create, Delete, FileState, Modify, Rename, SetExecutable, State
from derive.patches.parse import parse_patch
from derive.trees.listing import DIRECTORY, Symlink

LONG = b"".join(b"line %d\n" % number for number in range(40))


def file(contents: bytes, *, executable: bool = False) -> FileState:
    return FileState(contents=contents, executable=executable)


def changes(before: Mapping[bytes, State], after: Mapping[bytes, State]) -> dict[bytes, Change]:
    return {path: Change(before.get(path), after.get(path)) for path in {*before, *after}}


def test_equal_contents_have_no_hunk() -> None:
    assert hunks_between(b"a\n", b"a\n") == ()
    assert hunks_between(b"", b"") == ()


def test_changes_near_each_other_share_a_hunk_and_others_do_not() -> None:
    near = LONG.replace(b"line 5\n", b"x\n").replace(b"line 11\n", b"y\n")
    far = LONG.replace(b"line 5\n", b"x\n").replace(b"line 13\n", b"y\n")
    assert len(hunks_between(LONG, near)) == 1
    assert len(hunks_between(LONG, far)) == 2


def test_a_lost_last_newline_is_a_change() -> None:
    (hunk,) = hunks_between(b"a\nb\n", b"a\nb")
    assert [line.content for line in hunk.lines] == [b"a\n", b"b\n", b"b"]


def test_a_moved_file_is_a_rename_whether_or_not_it_changed() -> None:
    before, after = {b"a/f": file(LONG)}, {b"b/f": file(LONG.replace(b"line 7\n", b"x\n"), executable=True)}
    (operation,) = operations_between(changes(before, after))
    assert isinstance(operation, Rename)
    assert (operation.old, operation.new, operation.executable) == (b"a/f", b"b/f", True)
    assert len(operation.hunks) == 1


def test_files_of_equal_contents_move_to_where_their_name_is_the_same() -> None:
    before = {b"a/one": file(LONG), b"a/two": file(LONG)}
    after = {b"b/two": file(LONG), b"c/one": file(LONG)}
    found = {(op.old, op.new) for op in operations_between(changes(before, after)) if isinstance(op, Rename)}
    assert found == {(b"a/two", b"b/two"), (b"a/one", b"c/one")}


def test_files_that_have_little_in_common_are_no_rename() -> None:
    found = operations_between(changes({b"a": file(b"x\n" * 9)}, {b"b": file(b"y\n" * 9)}))
    assert {type(operation) for operation in found} == {Create, Delete}


def test_a_file_may_become_a_folder() -> None:
    found = operations_between({b"a": Change(file(b"x\n"), None), b"a/b": Change(None, file(b"y\n"))})
    assert {type(operation) for operation in found} == {Create, Delete}


@pytest.mark.parametrize(
    ("path", "change", "message"),
    [
        (b"l", Change(None, Symlink(b"x")), "symbolic link"),
        (b"l", Change(Symlink(b"x"), file(b"x")), "symbolic link"),
        (b"d", Change(DIRECTORY, file(b"x")), "a folder that becomes a file"),
        (b"b", Change(file(b"x\n"), file(b"\0\n")), "binary"),
        (b"b", Change(None, file(b"\0")), "binary"),
        (b"b", Change(file(b"\0"), None), "binary"),
        (b"x/.git/config", Change(None, file(b"x")), "git's own folder"),
    ],
)
def test_what_no_patch_holds_is_refused_by_name(path: bytes, change: Change, message: str) -> None:
    with pytest.raises(InputErrors) as refused:
        operations_between({path: change, b"fine": Change(None, file(b"x\n"))})
    (problem,) = refused.value.problems()
    assert problem.where == path.decode()
    assert message in problem.message


def test_a_binary_file_may_move_and_change_its_bit() -> None:
    moved = operations_between({b"a": Change(file(b"\0x"), None), b"b": Change(None, file(b"\0x", executable=True))})
    assert moved == (Rename(old=b"a", new=b"b", executable=True),)
    bit = operations_between({b"a": Change(file(b"\0x"), file(b"\0x", executable=True))})
    assert bit == (SetExecutable(path=b"a", executable=True),)


def test_what_an_earlier_patch_still_does_right_stays_as_it_was_written() -> None:
    """Its own context, its order, its copy: only the file that changed is made again."""
    before = {b"a": file(LONG), b"z": file(LONG), b"copied": file(LONG)}
    wide = hunks_between(LONG, LONG.replace(b"line 20\n", b"x\n"), context=8)
    old = (
        Modify(path=b"z", hunks=wide),
        Modify(path=b"a", hunks=wide),
        Copy(old=b"copied", new=b"copy"),
    )
    after = {
        b"z": file(LONG.replace(b"line 20\n", b"x\n")),
        b"a": file(LONG.replace(b"line 20\n", b"other\n")),
        b"copied": before[b"copied"],
        b"copy": file(LONG),
        b"new": file(b"new\n"),
    }
    wanted = {path: change for path, change in changes(before, after).items() if change.before != change.after}
    found = refreshed(old, wanted, before.get)
    assert found[0] == old[0]
    assert isinstance(found[1], Modify)
    assert found[1].path == b"a"
    assert len(found[1].hunks[0].lines) < len(wide[0].lines)
    assert found[2:] == (old[2], Create(path=b"new", contents=b"new\n"))


def test_a_file_that_was_made_is_a_move_once_another_like_it_goes() -> None:
    before = {b"a": file(LONG), b"other": file(b"o\n")}
    wanted = {b"a": Change(file(LONG), None), b"b": Change(None, file(LONG))}
    assert refreshed((Create(path=b"b", contents=LONG),), wanted, before.get) == (Rename(old=b"a", new=b"b"),)
    both = (Delete(path=b"a", contents=LONG), Create(path=b"b", contents=LONG))
    more = {**wanted, b"other": Change(file(b"o\n"), file(b"O\n"))}
    assert refreshed(both, more, before.get)[:2] == both  # as a person wrote it


def test_operations_that_only_work_together_stay() -> None:
    before = {b"a": file(b"a\n"), b"b": file(b"b\n")}
    swap = (Rename(old=b"a", new=b"b"), Rename(old=b"b", new=b"a"))
    after = {b"a": Change(file(b"a\n"), file(b"b\n")), b"b": Change(file(b"b\n"), file(b"a\n"))}
    assert refreshed(swap, after, before.get) == swap


def test_hunks_say_where_they_land() -> None:
    moved = b"above\n" * 3 + LONG
    (operation,) = parse_patch("p", b"--- a/f\n+++ b/f\n@@ -10,7 +10,7 @@\n" + _hunk(9, b"x\n")).operations
    (settled,) = landed((operation,), {b"f": file(moved)}.get)
    assert isinstance(settled, Modify)
    assert settled.hunks[0].start == 13


def _hunk(first: int, new: bytes) -> bytes:
    rows = [b" line %d\n" % number for number in range(first, first + 7)]
    rows[3:4] = [b"-line %d\n" % (first + 3), b"+" + new]
    return b"".join(rows)
