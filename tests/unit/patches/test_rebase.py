# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from derive.errors import CheckFailed, InputErrors
from derive.patches.carry import carry_over
from derive.patches.model import FileState
from derive.patches.rebase import Rebased, give_up, go_on, rebase_tree
from support.killed_driver import Counter, install
from support.patch_project import PatchProject, patch_project, plain, quick_folder, read_tree, write_tree

TEN = "".join(f"line {number}\n" for number in range(1, 31))


def change(path: str, line: int, new: str) -> bytes:
    rows = TEN.splitlines()
    shown = [f" {row}" for row in rows[line - 4 : line - 1]] + [f"-{rows[line - 1]}", f"+{new}"]
    shown += [f" {row}" for row in rows[line : line + 3]]
    head = [f"Description: Line {line}", "", f"--- a/{path}", f"+++ b/{path}", f"@@ -{line - 3},7 +{line - 3},7 @@"]
    return "\n".join([*head, *shown, ""]).encode()


SOURCE = plain(f=TEN, g=TEN, crlf="a\r\nb\r\n")
SERIES = {
    "0001-five.patch": change("f", 5, "five"),
    "0002-fifteen.patch": change("f", 15, "fifteen"),
    "0003-g.patch": change("g", 10, "ten"),
    "0004-new.patch": b"Description: New\n\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+new\n",
}


@pytest.fixture
def project() -> Iterator[PatchProject]:
    with quick_folder() as place, patch_project(place, SOURCE, SERIES) as made:
        yield made


def onto(project: PatchProject, files: dict[bytes, FileState], *, fits: str | None = "") -> Rebased:
    folder = project.root.parent / "onto"
    write_tree(folder, files)
    base = str(project.source) if fits == "" else fits
    return carry_over(project.shop, project.series, project.tree, onto=str(folder), fits=base)


def result(project: PatchProject, files: dict[bytes, FileState]) -> dict[bytes, FileState]:
    """What the series gives on another source, by the applier alone."""
    write_tree(project.source, files)
    return project.patched()


def resumed(project: PatchProject, *, skip: bool = False) -> Rebased:
    return go_on(project.series, rebase_tree(project.tree), skip=skip)


def test_patches_that_fit_stay_as_they_are_and_moved_ones_say_their_new_lines(project: PatchProject) -> None:
    done = onto(project, {**SOURCE, **plain(f="above\n" + TEN)})
    assert dict(done.outcomes) == {
        "0001-five.patch": "moved",
        "0002-fifteen.patch": "moved",
        "0003-g.patch": "applied",
        "0004-new.patch": "applied",
    }
    assert project.files()["0003-g.patch"] == SERIES["0003-g.patch"]
    assert b"@@ -3,7 +3,7 @@" in project.files()["0001-five.patch"]
    assert not rebase_tree(project.tree).exists()
    assert b"above\nline 1\n" in result(project, {**SOURCE, **plain(f="above\n" + TEN)})[b"f"].contents


def test_what_is_there_already_leaves_the_series(project: PatchProject) -> None:
    done = onto(project, {**SOURCE, **plain(f=TEN.replace("line 15\n", "fifteen\n"), new="new\n")})
    assert dict(done.outcomes)["0002-fifteen.patch"] == "already there"
    assert dict(done.outcomes)["0004-new.patch"] == "already there"
    assert project.series.loaded.series.names == ("0001-five.patch", "0003-g.patch")


def test_git_merges_what_no_longer_fits_exactly_also_in_a_file_that_moved(project: PatchProject) -> None:
    after = {path: state for path, state in SOURCE.items() if path != b"g"}
    after |= plain(moved__g=TEN.replace("line 8\n", "eight\n"), f=TEN.replace("line 13\n", "thirteen\n"))
    done = onto(project, after)
    assert dict(done.outcomes)["0003-g.patch"] == "merged"
    assert dict(done.outcomes)["0002-fifteen.patch"] == "merged"
    (project.source / "g").unlink()
    tree = result(project, after)
    assert b"eight\nline 9\nten\n" in tree[b"moved/g"].contents
    assert b"thirteen\nline 14\nfifteen\n" in tree[b"f"].contents


def conflicting() -> dict[bytes, FileState]:
    return {**SOURCE, **plain(f=TEN.replace("line 5\n", "5\n").replace("line 15\n", "15\n"))}


def test_a_conflict_is_shown_hunk_by_hunk_and_gone_on_from(project: PatchProject) -> None:
    files = project.files()
    stopped = onto(project, conflicting())
    assert stopped.conflicted is not None
    assert stopped.conflicted.text == (
        "f: conflict 1", "  base        5  'line 5\\n'", "  ours        5  '5\\n'", "  theirs      5  'five\\n'"
    )  # fmt: skip
    assert stopped.left == ("0002-fifteen.patch", "0003-g.patch", "0004-new.patch")
    tree = rebase_tree(project.tree)
    assert b"<<<<<<<" in (tree / "f").read_bytes()
    assert b"||||||| " in (tree / "f").read_bytes()
    with pytest.raises(InputErrors) as refused:
        resumed(project)
    assert [line.partition(":")[0] for line in refused.value.problems()[0].detail] == ["f", "f"]
    (tree / "f").write_text(conflicting()[b"f"].contents.decode().replace("5\n", "five (5)\n", 1))
    stopped = resumed(project)
    assert stopped.outcomes == (("0001-five.patch", "resolved"),)
    assert stopped.conflicted is not None
    assert project.files() == files
    project.git("checkout", "--quiet", "--theirs", "f", tree=tree)
    text = (tree / "f").read_text().replace("five\n", "five (5)\n")
    (tree / "f").write_text(text)
    project.git("add", "f", tree=tree)
    project.git("cherry-pick", "--continue", tree=tree)
    done = resumed(project)
    assert [outcome for _, outcome in done.outcomes] == ["resolved", "resolved", "applied", "applied"]
    assert project.files()["0001-five.patch"].startswith(b"Description: Line 5\n\n")
    assert b"five (5)\n" in result(project, conflicting())[b"f"].contents
    assert not tree.exists()


def test_a_patch_is_left_out(project: PatchProject) -> None:
    onto(project, conflicting())
    stopped = resumed(project, skip=True)
    assert stopped.outcomes == (("0001-five.patch", "skipped"),)
    assert resumed(project, skip=True).conflicted is None
    assert project.series.loaded.series.names == ("0003-g.patch", "0004-new.patch")


def test_a_resolution_that_leaves_nothing_leaves_the_patch_out(project: PatchProject) -> None:
    onto(project, conflicting())
    (rebase_tree(project.tree) / "f").write_bytes(conflicting()[b"f"].contents)
    assert resumed(project).outcomes == (("0001-five.patch", "skipped"),)


def test_giving_up_changes_nothing_and_keeps_what_was_made_of_conflicts(project: PatchProject) -> None:
    files = project.files()
    onto(project, conflicting())
    (rebase_tree(project.tree) / "f").write_text("half an hour of work\n")
    kept = give_up("up", rebase_tree(project.tree))
    assert (kept / "f").read_text() == "half an hour of work\n"
    assert project.files() == files
    with pytest.raises(InputErrors):
        give_up("up", rebase_tree(project.tree))
    with pytest.raises(InputErrors):
        resumed(project)
    assert onto(project, conflicting()).conflicted is not None


def test_a_pick_that_is_given_up_in_git_is_asked_about(project: PatchProject) -> None:
    onto(project, conflicting())
    project.git("cherry-pick", "--abort", tree=rebase_tree(project.tree))
    with pytest.raises(InputErrors) as refused:
        resumed(project)
    assert "nothing was made of" in refused.value.problems()[0].message


def test_one_rebase_at_a_time_and_only_of_the_series_that_it_began_with(project: PatchProject) -> None:
    onto(project, conflicting())
    with pytest.raises(InputErrors, match="problem"):
        onto(project, conflicting())
    project.write_series({"0004-new.patch": SERIES["0004-new.patch"].replace(b"+new", b"+newer")}, list(SERIES))
    with pytest.raises(InputErrors) as refused:
        resumed(project)
    assert "has changed since" in refused.value.problems()[0].message


def test_work_in_the_work_tree_is_not_left_behind(project: PatchProject) -> None:
    project.edit()
    (project.tree / "f").write_text("mine\n")
    with pytest.raises(InputErrors) as refused:
        onto(project, dict(SOURCE))
    assert "refresh" in str(refused.value.problems()[0].hint)


def test_without_a_source_that_it_fits_a_series_is_only_carried_where_it_applies(project: PatchProject) -> None:
    from derive.patches.origins import named_tree
    from derive.patches.rebase import start

    write_tree(project.root.parent / "other", conflicting())
    listing = project.store.listing(named_tree(project.shop, str(project.root.parent / "other")))
    with pytest.raises(CheckFailed, match=r"0001-five\.patch does not apply"):
        start(project.store, project.series, rebase_tree(project.tree), onto=("it", listing), base=None)
    assert not rebase_tree(project.tree).exists()


def test_a_source_that_it_does_not_fit_is_refused(project: PatchProject) -> None:
    write_tree(project.root.parent / "wrong", conflicting())
    with pytest.raises(InputErrors) as refused:
        onto(project, conflicting(), fits=str(project.root.parent / "wrong"))
    assert "0001-five.patch" in refused.value.problems()[0].where
    assert not rebase_tree(project.tree).exists()


def test_killed_at_any_step_the_rebase_begins_again_or_goes_on(project: PatchProject) -> None:
    files, target = project.files(), {**SOURCE, **plain(f=TEN.replace("line 13\n", "thirteen\n"), new="new\n")}
    write_tree(project.root.parent / "onto", target)
    ends = set()
    for fatal in (*range(5, 900, 41), 100_000):
        child = os.fork()
        if child == 0:
            try:
                install(Counter(fatal))
                onto(project, target)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        under_way = rebase_tree(project.tree).exists()
        if under_way:
            resumed(project)
        elif project.files() == files:
            onto(project, target)
        ends.add(under_way)
        assert set(project.series.loaded.series.names) == set(SERIES) - {"0004-new.patch"}
        assert b"thirteen\nline 14\nfifteen\n" in _applied(project, target)[b"f"].contents
        for name, data in files.items():
            (project.root / "patches" / "up" / name).write_bytes(data)
        if not os.WIFSIGNALED(status):
            break
    assert ends == {True, False}


def _applied(project: PatchProject, files: dict[bytes, FileState]) -> dict[bytes, FileState]:
    from derive.patches.apply import apply_series

    after: dict[bytes, FileState | None] = {**files}
    after.update(apply_series([one.operations for one in project.series.loaded.patches], files.get).changes)
    return {path: state for path, state in after.items() if state is not None}


def test_the_work_tree_of_a_conflict_holds_the_new_source(project: PatchProject) -> None:
    onto(project, conflicting())
    tree = read_tree(rebase_tree(project.tree))
    assert {path: tree[path] for path in (b"g", b"crlf")} == {path: SOURCE[path] for path in (b"g", b"crlf")}
