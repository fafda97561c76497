# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import pytest

from derive.errors import InputErrors, Problem
from derive.patches.apply import Applied, FileState, Read, State, apply_patch, apply_series, try_patch
from derive.patches.model import Copy, Create, Delete, FileOperation, Modify, Rename, SetExecutable
from derive.patches.parse import parse_patch
from derive.trees.listing import DIRECTORY, Symlink

CHANGE = "--- a/{0}\n+++ b/{0}\n@@ -1,7 +1,7 @@\n 1\n 2\n 3\n-{1}\n+{2}\n 5\n 6\n 7\n"
NUMBERS = b"1\n2\n3\n4\n5\n6\n7\n"


def apply(patch: str | bytes, before: Mapping[bytes, bytes | State]) -> Applied:
    data = patch if isinstance(patch, bytes) else patch.encode()
    return apply_patch(parse_patch("p", data).operations, reader(before), name="p")


def reader(before: Mapping[bytes, bytes | State]) -> Read:
    states = {path: FileState(contents=s) if isinstance(s, bytes) else s for path, s in before.items()}
    return states.get


def refused(patch: str | bytes, before: Mapping[bytes, bytes | State]) -> tuple[Problem, ...]:
    with pytest.raises(InputErrors) as caught:
        apply(patch, before)
    return caught.value.problems()


def refusal(operations: tuple[FileOperation, ...], before: Mapping[bytes, bytes | State]) -> Problem:
    with pytest.raises(InputErrors) as caught:
        apply_patch(operations, reader(before), name="p")
    (problem,) = caught.value.problems()
    return problem


def test_a_modification_replaces_the_contents_and_keeps_the_mode() -> None:
    before = FileState(contents=NUMBERS, executable=True)
    applied = apply(CHANGE.format("f", "4", "four"), {b"f": before})
    assert applied == Applied(
        changes={b"f": FileState(contents=NUMBERS.replace(b"4", b"four"), executable=True)}, moved=()
    )


def test_only_paths_that_a_patch_names_are_read() -> None:
    asked: list[bytes] = []

    def read(path: bytes) -> State:
        asked.append(path)
        return FileState(contents=NUMBERS) if path == b"d/f" else None

    series = [parse_patch("p", CHANGE.format("d/f", a, b).encode()).operations for a, b in (("4", "8"), ("8", "9"))]
    apply_series(series, read)
    assert asked.count(b"d/f") == 1
    assert set(asked) <= {b"d/f", b"d"}


def test_a_moved_hunk_is_applied_and_told() -> None:
    applied = apply(CHANGE.format("f", "4", "four"), {b"f": b"new\n\n" + NUMBERS})
    assert applied.changes[b"f"] == FileState(contents=b"new\n\n" + NUMBERS.replace(b"4", b"four"))
    assert [str(moved) for moved in applied.moved] == ["p: f: hunk 1 applied at line 3 (moved +2)"]


def test_every_failing_hunk_of_a_patch_is_reported_at_once() -> None:
    patch = CHANGE.format("f", "4", "four") + CHANGE.format("g", "9", "nine") + CHANGE.format("h", "4", "four")
    problems = refused(patch, {b"f": NUMBERS.replace(b"4", b"x"), b"g": NUMBERS, b"h": NUMBERS})
    assert [(p.where, p.message) for p in problems] == [
        ("p: f: hunk 1", "the file differs from the hunk at line 4"),
        ("p: g: hunk 1", "the file differs from the hunk at line 4"),
    ]


def test_a_series_stops_at_the_first_patch_that_fails_and_says_how_many_applied() -> None:
    series = [
        parse_patch("p", CHANGE.format("f", a, b).encode()).operations for a, b in (("4", "8"), ("9", "7"), ("8", "6"))
    ]
    with pytest.raises(InputErrors) as caught:
        apply_series(series, reader({b"f": NUMBERS}), names=("one", "two", "three"))
    (problem,) = caught.value.problems()
    assert problem.where == "two: f: hunk 1"
    assert problem.detail[-1] == "series    1 of 3 patches applied before this one"


def test_without_names_patches_are_called_by_their_number() -> None:
    operations = parse_patch("p", CHANGE.format("f", "4", "5").encode()).operations
    with pytest.raises(InputErrors) as caught:
        apply_series((operations, operations), reader({b"f": NUMBERS}))
    assert caught.value.problems()[0].where == "patch 2 of 2: f: hunk 1"
    assert "already applied: the new side is in the file at line 1" in caught.value.problems()[0].message


def test_a_series_threads_states_and_gives_the_net_result() -> None:
    series = (
        (Create(path=b"n", contents=b"x\n"),),
        (Rename(old=b"n", new=b"d/m"), SetExecutable(path=b"f", executable=True)),
        (Delete(path=b"d/m", contents=b"x\n"), SetExecutable(path=b"g", executable=True)),
        (SetExecutable(path=b"g", executable=False),),
    )
    applied = apply_series(series, reader({b"f": NUMBERS, b"g": b""}))
    assert applied.changes == {b"f": FileState(contents=NUMBERS, executable=True)}


def test_changes_are_in_nar_order() -> None:
    operations = tuple(Create(path=path, contents=b"") for path in (b"b", b"a.c", b"a/x", b"a!"))
    assert list(apply_patch(operations, reader({})).changes) == [b"a/x", b"a!", b"a.c", b"b"]


def test_a_patch_for_another_folder_fails_and_never_changes_nothing() -> None:
    """A git-style patch made inside vendor/dep has no meaning at the top of the tree."""
    (problem,) = refused(CHANGE.format("f", "4", "four"), {b"vendor/dep/f": NUMBERS})
    assert (problem.where, problem.message) == ("p: f", "does not exist")
    applied = apply(CHANGE.format("vendor/dep/f", "4", "four"), {b"vendor/dep/f": NUMBERS})
    assert applied.changes == {b"vendor/dep/f": FileState(contents=NUMBERS.replace(b"4", b"four"))}


def test_hunks_that_cancel_each_other_are_applied_and_changed_nothing() -> None:
    same = "".join(" x\n" for _ in range(3))
    patch = f"--- a/f\n+++ b/f\n@@ -1,7 +1,6 @@\n{same}-x\n{same}@@ -8,6 +7,7 @@\n{same}+x\n{same}"
    (problem,) = refused(patch, {b"f": b"x\n" * 20})
    assert problem.message == "the operation applies, and changes nothing"


def test_an_lf_patch_on_a_crlf_source_is_refused_naming_the_line_endings() -> None:
    (problem,) = refused(CHANGE.format("f", "4", "four"), {b"f": NUMBERS.replace(b"\n", b"\r\n")})
    assert problem.message == "only line endings differ, first at line 1: LF in the patch, CRLF in the file"


def test_a_crlf_patch_on_an_lf_source_is_refused_naming_the_line_endings() -> None:
    patch = "--- a/f\n+++ b/f\n" + CHANGE.format("f", "4", "four").split("b/f\n")[1].replace("\n", "\r\n")
    patch = patch.replace("@@\r\n", "@@\n")
    (problem,) = refused(patch, {b"f": NUMBERS})
    assert problem.message == "only line endings differ, first at line 1: CRLF in the patch, LF in the file"


def test_a_mixed_file_is_patched_byte_for_byte() -> None:
    before = b"1\r\n2\n3\r\n4\n5\r\n6\n7\r\n8\r\n"
    patch = b"--- a/f\n+++ b/f\n@@ -1,7 +1,7 @@\n 1\r\n 2\n 3\r\n-4\n+4\r\n 5\r\n 6\n 7\r\n"
    applied = apply(patch, {b"f": before})
    assert applied.changes == {b"f": FileState(contents=before.replace(b"4\n", b"4\r\n"))}


def test_an_added_gitattributes_file_changes_no_line_ending() -> None:
    patch = "--- /dev/null\n+++ b/.gitattributes\n@@ -0,0 +1 @@\n+* text=auto eol=lf\n" + CHANGE.format(
        "f", "4\r", "x\r"
    )
    before = NUMBERS.replace(b"4\n", b"4\r\n")
    applied = apply(patch, {b"f": before, b"g": b"a\r\n"})
    assert applied.changes == {
        b".gitattributes": FileState(contents=b"* text=auto eol=lf\n"),
        b"f": FileState(contents=before.replace(b"4", b"x")),
    }


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        ("-a\n\\ No newline at end of file\n", "+b\n", b"a", b"b\n"),
        ("-a\n", "+b\n\\ No newline at end of file\n", b"a\n", b"b"),
        ("-a\n\\ No newline at end of file\n", "+b\n\\ No newline at end of file\n", b"a", b"b"),
        ("-a\n\\ No newline at end of file\n", "+a\n", b"a", b"a\n"),
        ("-a\n", "+a\n\\ No newline at end of file\n", b"a\n", b"a"),
    ],
)
def test_the_newline_at_the_end_is_kept_or_changed_as_the_patch_says(
    old: str, new: str, before: bytes, after: bytes
) -> None:
    applied = apply(f"--- a/f\n+++ b/f\n@@ -1 +1 @@\n{old}{new}", {b"f": before})
    assert applied.changes == {b"f": FileState(contents=after)}


def test_a_newline_that_the_file_has_and_the_patch_denies_is_refused() -> None:
    patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
    (problem,) = refused(patch, {b"f": b"a\n"})
    assert problem.message == "only the newline at the end of the file differs, at line 1"


def test_a_hunk_without_its_trailing_context_is_refused_where_the_file_goes_on() -> None:
    """As left behind by an editor that trimmed a blank last line and mended the counts."""
    patch = "--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n 1\n 2\n 3\n-4\n+four\n"
    (problem,) = refused(patch, {b"f": b"1\n2\n3\n4\n\n"})
    assert "shows the end of its file, and the file goes on" in problem.message


def test_creating_and_deleting() -> None:
    operations = (Create(path=b"d/n", contents=b"", executable=True), Delete(path=b"o", contents=b"x"))
    applied = apply_patch(operations, reader({b"d": DIRECTORY, b"o": b"x"}))
    assert applied.changes == {b"d/n": FileState(contents=b"", executable=True), b"o": None}


def test_renaming_copying_and_changing_read_the_state_before_the_patch() -> None:
    hunks = parse_patch("p", CHANGE.format("f", "4", "four").encode()).operations[0]
    assert isinstance(hunks, Modify)
    four = FileState(contents=NUMBERS.replace(b"4", b"four"))
    operations = (
        hunks,
        Copy(old=b"f", new=b"copy"),
        Rename(old=b"a", new=b"b"),
        Rename(old=b"b", new=b"a", executable=True),
        Rename(old=b"r", new=b"s", hunks=hunks.hunks),
        Create(path=b"r", contents=b"again"),
    )
    applied = apply_patch(operations, reader({b"f": NUMBERS, b"a": b"A", b"b": b"B", b"r": NUMBERS}))
    assert applied.changes == {
        b"f": four,
        b"copy": FileState(contents=NUMBERS),
        b"a": FileState(contents=b"B", executable=True),
        b"b": FileState(contents=b"A"),
        b"r": FileState(contents=b"again"),
        b"s": four,
    }


@pytest.mark.parametrize(
    ("operation", "before", "message"),
    [
        (Create(path=b"f", contents=b"x"), {b"f": b"y"}, "exists already, as a file"),
        (Create(path=b"f", contents=b"x"), {b"f": b"x"}, "already applied: the file exists with these contents"),
        (Create(path=b"f", contents=b"x"), {b"f": DIRECTORY}, "exists already, as a folder"),
        (Create(path=b"l/f", contents=b"x"), {b"l": Symlink(b"/etc")}, "l, which it lies below, is a symbolic link"),
        (Create(path=b"l/d/f", contents=b"x"), {b"l": b""}, "l, which it lies below, is a file"),
        (Delete(path=b"f", contents=b"x"), {b"f": b"y"}, "the file to delete has other contents"),
        (Delete(path=b"f", contents=b"x"), {}, "already applied: the file to delete does not exist"),
        (Delete(path=b"f", contents=b"x"), {b"f": DIRECTORY}, "is a folder, not a file"),
        (Rename(old=b"f", new=b"g"), {b"f": b"", b"g": b"x"}, "exists already, as a file"),
        (Rename(old=b"f", new=b"g"), {b"g": b""}, "already applied: does not exist, and g does"),
        (Rename(old=b"f", new=b"g"), {}, "does not exist"),
        (Copy(old=b"f", new=b"g"), {b"f": b"x", b"g": b"x"}, "already applied: the file exists with these contents"),
        (SetExecutable(path=b"f", executable=False), {b"f": b""}, "already applied: is not executable"),
        (SetExecutable(path=b"l/f", executable=True), {b"l": Symlink(b"d")}, "does not exist: l is a symbolic link"),
        (SetExecutable(path=b"f", executable=True), {b"f": Symlink(b"d")}, "is a symbolic link, not a file"),
        (SetExecutable(path=b"f", executable=True), {}, "does not exist"),
    ],
)
def test_an_operation_that_the_tree_does_not_allow_is_refused(
    operation: FileOperation, before: dict[bytes, bytes | State], message: str
) -> None:
    assert refusal((operation,), before).message == message


def test_a_change_with_a_mode_that_is_set_already_is_refused() -> None:
    patch = "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n" + CHANGE.format("f", "4", "x")
    (problem,) = refused(patch, {b"f": FileState(contents=NUMBERS, executable=True)})
    assert problem.message == "already applied: is executable"


def test_a_file_below_one_made_by_an_earlier_patch_and_the_reverse_are_refused() -> None:
    one, below = (Create(path=b"a", contents=b""),), (Create(path=b"a/b", contents=b""),)
    for series, message in (((one, below), "which it lies below"), ((below, one), "exists already, as a folder")):
        with pytest.raises(InputErrors) as caught:
            apply_series(series, reader({}))
        assert message in caught.value.problems()[0].message
    assert "which it lies below" in refusal((*one, *below), {}).message


def test_an_empty_series_changes_nothing() -> None:
    assert apply_series((), reader({})) == Applied(changes={}, moved=())


def test_a_folder_is_there_as_long_as_a_file_that_the_series_made_lies_in_it() -> None:
    made = (Create(path=b"d/e/x", contents=b"x"),)
    gone = (Delete(path=b"d/e/x", contents=b"x"),)
    file = (Create(path=b"d", contents=b"file"),)
    with pytest.raises(InputErrors) as caught:
        apply_series((made, file), reader({}))
    assert caught.value.problems()[0].message == "exists already, as a folder"
    assert apply_series((made, gone, file), reader({})).changes == {b"d": FileState(contents=b"file")}
    again = (Create(path=b"d/e/x", contents=b"y"),)
    with pytest.raises(InputErrors):
        apply_series((made, gone, again, file), reader({}))


def test_a_patch_that_is_tried_says_everything_in_its_way_and_changes_nothing() -> None:
    operations = (
        SetExecutable(path=b"f", executable=True),
        Create(path=b"f", contents=b""),
        Delete(path=b"g", contents=b""),
    )
    tried = try_patch(operations, reader({b"f": b"x"}))
    assert [(one.operation, one.path) for one in tried.refused] == [(1, b"f"), (2, b"g")]
