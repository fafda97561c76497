# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from derive.errors import CheckFailed, InputErrors
from derive.patches.model import FileState
from support.killed_driver import Counter, install
from support.patch_project import PatchProject, patch_project, plain, quick_folder

TEN = "".join(f"line {number}\n" for number in range(1, 21))
SOURCE = {**plain(f=TEN, g="g\n"), b"run": FileState(contents=b"#!/bin/sh\n", executable=True)}


def change(path: str, line: int, new: str, header: str = "") -> bytes:
    """Return a patch that changes one line of f, with no index row and a word after @@."""
    rows = TEN.splitlines()
    shown = [f" {row}" for row in rows[line - 4 : line - 1]] + [f"-{rows[line - 1]}", f"+{new}"]
    shown += [f" {row}" for row in rows[line : line + 3]]
    text = "\n".join(
        [
            f"diff --git a/{path} b/{path}",
            f"--- a/{path}",
            f"+++ b/{path}",
            f"@@ -{line - 3},7 +{line - 3},7 @@ some word",
            *shown,
        ]
    )
    return f"{header}{text}\n".encode()


HEADER = "Description: Change line 5\n Longer words,  with odd  spaces \nAuthor: A <a@b>\nOrigin: vendor\n\n"
SERIES = {"0001-five.patch": change("f", 5, "five", HEADER), "0002-fifteen.patch": change("f", 15, "fifteen")}


@pytest.fixture
def project() -> Iterator[PatchProject]:
    with quick_folder() as place, patch_project(place, SOURCE, SERIES) as made:
        yield made


def replace(project: PatchProject, old: str, new: str) -> None:
    file = project.tree / "f"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_unchanged_patches_stay_byte_for_byte(project: PatchProject) -> None:
    project.edit()
    assert project.refresh().is_same
    assert project.files() == {**SERIES, "series": b"# licence: Apache-2.0\n0001-five.patch\n0002-fifteen.patch\n"}


def test_an_amended_commit_changes_its_patch_alone_and_keeps_the_header(project: PatchProject) -> None:
    project.edit("0001")
    replace(project, "five", "FIVE")
    project.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    done = project.refresh()
    assert (done.changed, done.kept, done.waiting) == (
        ("0001-five.patch",), ("0002-fifteen.patch",), ("0002-fifteen.patch",)
    )  # fmt: skip
    text = project.files()["0001-five.patch"].decode()
    assert text.startswith(HEADER)
    assert "+FIVE\n" in text
    assert "index " not in text
    assert project.files()["0002-fifteen.patch"] == SERIES["0002-fifteen.patch"]


def test_lines_added_below_move_the_hunks_of_what_waits_and_nothing_else_of_it(project: PatchProject) -> None:
    project.edit("0001")
    replace(project, "five\n", "five\nand\nmore\n")
    project.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    assert project.refresh().changed == ("0001-five.patch", "0002-fifteen.patch")
    assert b"@@ -14,7 +14,7 @@" in project.files()["0002-fifteen.patch"]
    assert project.refresh().is_same


def test_what_waits_and_does_not_apply_any_more_stops_everything(project: PatchProject) -> None:
    project.edit("0001")
    replace(project, "line 15", "line xv")
    project.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    before = project.files()
    with pytest.raises(CheckFailed) as refused:
        project.refresh()
    assert "derive patches edit up" in str(refused.value.hint)
    assert project.files() == before


def test_a_new_commit_becomes_a_patch_with_its_words_in_the_header(project: PatchProject) -> None:
    project.edit()
    (project.tree / "g").write_text("G\n")
    project.git("commit", "--quiet", "--all", "--message", "Say G\n\nLouder.")
    assert project.refresh().new == ("0003-say-g.patch",)
    text = project.files()["0003-say-g.patch"].decode()
    assert text.startswith("Description: Say G\n Louder.\nAuthor: A. Person <person@example.org>\nOrigin: TODO\n")
    assert project.series.loaded.series.names[-1] == "0003-say-g.patch"
    assert "Derive-Patch: 0003-say-g.patch" in project.git("log", "-1", "--format=%B")


def test_a_commit_between_others_stands_between_them(project: PatchProject) -> None:
    project.edit("0001")
    (project.tree / "g").write_text("G\n")
    project.git("commit", "--quiet", "--all", "--message", "Say G")
    project.refresh()
    assert project.series.loaded.series.names == ("0001-five.patch", "0003-say-g.patch", "0002-fifteen.patch")


def test_the_header_is_edited_in_the_message(project: PatchProject) -> None:
    project.edit("0001")
    message = project.git("log", "-1", "--format=%B").replace("Origin: vendor", "Origin: upstream, abc")
    project.git("commit", "--quiet", "--amend", "--file", "-", given=message.encode())
    project.refresh()
    patch = project.series.loaded.patches[0]
    assert b"Origin: upstream, abc\n" in patch.header.text
    assert b"some word" not in project.files()["0001-five.patch"]  # made again, from the same operations


def test_another_first_line_is_another_summary(project: PatchProject) -> None:
    project.edit("0001")
    message = project.git("log", "-1", "--format=%B").replace("Change line 5\n\n", "Change the fifth\n\n", 1)
    project.git("commit", "--quiet", "--amend", "--file", "-", given=message.encode())
    project.refresh()
    assert project.files()["0001-five.patch"].startswith(b"Description: Change the fifth\n")


def test_squashed_commits_are_one_patch_under_the_first_name(project: PatchProject) -> None:
    after = project.patched()
    project.edit()
    todo = "sed -i 2s/pick/squash/"
    project.git("-c", f"sequence.editor={todo}", "rebase", "--quiet", "--interactive", "HEAD~2")
    done = project.refresh()
    assert (done.changed, done.dropped) == (("0001-five.patch",), ("0002-fifteen.patch",))
    assert project.patched() == after


def test_a_commit_that_is_gone_is_a_patch_that_is_gone(project: PatchProject) -> None:
    project.edit()
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    assert project.refresh().dropped == ("0002-fifteen.patch",)
    assert set(project.files()) == {"0001-five.patch", "series"}


def test_two_commits_of_one_name_are_two_patches(project: PatchProject) -> None:
    project.edit("0001")
    replace(project, "five", "FIVE")
    project.git("commit", "--quiet", "--all", "--reuse-message", "HEAD")
    done = project.refresh()
    assert done.new == ("0003-change-line-5.patch",)
    assert project.series.loaded.series.names[:2] == ("0001-five.patch", "0003-change-line-5.patch")


def test_what_is_not_committed_is_refused_or_folded(project: PatchProject) -> None:
    project.edit()
    replace(project, "five", "FIVE")
    (project.tree / "fresh").write_text("new\n")
    with pytest.raises(InputErrors) as refused:
        project.refresh()
    assert refused.value.problems()[0].detail == ("f", "fresh")
    assert project.refresh("0001").changed == ("0001-five.patch",)
    assert project.git("status", "--porcelain") == ""
    assert b"+FIVE\n" in project.files()["0001-five.patch"]
    assert b"b/fresh\n" in project.files()["0001-five.patch"]


def test_a_change_that_a_later_patch_stands_on_is_not_folded_below_it(project: PatchProject) -> None:
    project.edit()
    replace(project, "fifteen", "FIFTEEN")
    before = project.files()
    with pytest.raises(CheckFailed, match="alone") as refused:
        project.refresh("0001")
    assert "fixup" in str(refused.value.hint)
    assert project.files() == before
    assert "FIFTEEN" in (project.tree / "f").read_text()


def test_files_that_the_person_ignores_are_not_folded(project: PatchProject) -> None:
    project.edit()
    ignore = project.root.parent / "ignore"
    ignore.write_text("*.swp\n")
    project.git("config", "--global", "core.excludesFile", str(ignore))
    replace(project, "five", "FIVE")
    (project.tree / "x.swp").write_text("x")
    os.environ["GIT_CONFIG_GLOBAL"] = str(project.settings)
    try:
        project.refresh("0001")
    finally:
        del os.environ["GIT_CONFIG_GLOBAL"]
    assert b"swp" not in project.files()["0001-five.patch"]
    assert (project.tree / "x.swp").exists()


def test_a_change_in_the_second_of_the_checkout_and_of_the_same_size_is_folded(project: PatchProject) -> None:
    """Git tells by the index's own time that it must look into the file."""
    project.edit()
    past = (1_700_000_000 * 10**9,) * 2
    project.git("config", "core.trustctime", "false")
    os.utime(project.tree / "f", ns=past)
    project.git("update-index", "--refresh")
    os.utime(project.tree / ".git" / "index", ns=past)
    replace(project, "five", "FIVE")
    os.utime(project.tree / "f", ns=past)
    assert project.refresh("0001").changed == ("0001-five.patch",)


@pytest.mark.parametrize("what", ["binary", "link", "submodule", "merge", "empty"])
def test_what_no_patch_can_hold_is_refused_by_name_and_nothing_changes(project: PatchProject, what: str) -> None:
    project.edit()
    before = project.files()
    commit = ("commit", "--quiet", "--allow-empty", "--message", "Odd")
    match what:
        case "binary":
            (project.tree / "odd").write_bytes(b"\0\1")
        case "link":
            (project.tree / "odd").symlink_to("f")
        case "submodule":
            project.git("init", "--quiet", "odd")
            project.git("commit", "--quiet", "--allow-empty", "--message", "x", tree=project.tree / "odd")
        case "merge":
            project.git("checkout", "--quiet", "-b", "side", "HEAD~1")
            project.git(*commit)
            project.git("checkout", "--quiet", "series")
            project.git("merge", "--quiet", "--no-edit", "side")
        case _:
            pass
    project.git("add", "--all")
    project.git(*commit)
    with pytest.raises(InputErrors) as refused:
        project.refresh()
    (problem,) = refused.value.problems()
    named = {"binary": "odd", "link": "odd", "submodule": "odd", "merge": "up", "empty": "0003-odd.patch"}[what]
    assert named in problem.where
    assert project.files() == before


@pytest.mark.parametrize("command", ["rebase", "cherry-pick", "merge"])
def test_a_tree_in_the_middle_of_something_is_refused(project: PatchProject, command: str) -> None:
    project.edit("0001")
    replace(project, "line 15", "line xv")
    project.git("commit", "--quiet", "--all", "--message", "x")
    other = "refs/derive/series"
    project.git(command, *(() if command != "merge" else ("--no-edit",)), other, codes=(0, 1))
    with pytest.raises(InputErrors) as refused:
        project.refresh()
    assert "not finished" in refused.value.problems()[0].message


def test_the_source_must_stay_below(project: PatchProject) -> None:
    project.edit()
    project.git("checkout", "--quiet", "--orphan", "other")
    project.git("commit", "--quiet", "--message", "x")
    with pytest.raises(InputErrors):
        project.refresh()


def test_comments_of_the_series_stay(project: PatchProject) -> None:
    series = b"# upstream: up\n# licence: Apache-2.0\n0001-five.patch\n# why fifteen\n0002-fifteen.patch\n"
    (project.root / "patches" / "up" / "series").write_bytes(series)
    project.edit()
    (project.tree / "g").write_text("G\n")
    project.git("commit", "--quiet", "--all", "--message", "Say G")
    project.refresh()
    assert project.files()["series"] == series + b"0003-say-g.patch\n"


def test_killed_at_any_step_nothing_is_lost(project: PatchProject) -> None:
    """The series is the old or the new one, and the same command makes it the new one."""
    project.edit()
    replace(project, "five", "FIVE")
    old = project.files()
    steps = 0
    for fatal in (*range(1, 400, 9), 10_000):
        child = os.fork()
        if child == 0:
            try:
                install(Counter(fatal))
                project.refresh("0001")
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        now = {name: data for name, data in project.files().items() if not name.startswith(".")}
        steps += 1
        if not os.WIFSIGNALED(status):
            break
        assert "FIVE" in (project.tree / "f").read_text()
        assert now["0002-fifteen.patch"] == old["0002-fifteen.patch"]
    project.refresh("0001")
    assert b"+FIVE\n" in project.files()["0001-five.patch"]
    assert project.git("status", "--porcelain") == ""
    assert steps > 3
