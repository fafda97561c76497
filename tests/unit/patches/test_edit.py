# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.errors import HostRefuses, InputErrors
from derive.patches.edit import find_patch
from derive.patches.model import FileState
from derive.patches.worktree import tree_lock
from support.patch_project import PatchProject, patch_project, plain, quick_folder, read_tree

SOURCE = {
    **plain(f="one\ntwo\nthree\n", dir__crlf="one\r\ntwo\r\n"),
    b"run": FileState(contents=b"#!/bin/sh\n", executable=True),
    b"n\xff\n": FileState(contents=b"odd\n"),
    b".gitattributes": FileState(contents=b"* text eol=lf ident filter=lfs working-tree-encoding=UTF-16\n"),
    b".gitignore": FileState(contents=b"*.o\ndir/\n"),
    b"kept.o": FileState(contents=b"\0tracked though it is ignored"),
}
FIRST = b"Description: First\nAuthor: A <a@b>\n\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
SECOND = b"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-2\n+II\n three\n"
THIRD = b"Description: Third\n\n--- a/dir/crlf\n+++ b/dir/crlf\n@@ -1,2 +1,2 @@\n one\r\n-two\r\n+zwei\r\n"
SERIES = {"0001-first.patch": FIRST, "0002-second.patch": SECOND, "0003-third.patch": THIRD}


@pytest.fixture
def project() -> Iterator[PatchProject]:
    with quick_folder() as place, patch_project(place, SOURCE, SERIES) as made:
        yield made


def message(error: pytest.ExceptionInfo[InputErrors]) -> str:
    return " | ".join(f"{one.where}: {one.message} {one.hint}" for one in error.value.problems())


def test_source_and_patches_are_commits_and_no_byte_is_converted(project: PatchProject) -> None:
    """Whatever attributes the source declares, and whatever the person has set."""
    opened = project.edit()
    assert opened.applied == tuple(SERIES)
    assert read_tree(project.tree) == project.patched()
    assert project.git("log", "--format=%s").split("\n") == ["Third", "0002-second.patch", "First", "The source", ""]
    assert project.git("log", "-1", "--format=%an <%ae>", "HEAD~2").strip() == "A <a@b>"
    assert project.git("status", "--porcelain") == ""


def test_the_same_series_gives_the_same_commits(project: PatchProject) -> None:
    project.edit()
    head = project.git("rev-parse", "HEAD")
    subprocess.run(["rm", "-rf", str(project.tree)], check=True)
    project.edit()
    assert project.git("rev-parse", "HEAD") == head


def test_links_are_links_and_empty_folders_are_left_out(project: PatchProject) -> None:
    (project.source / "link").symlink_to("nowhere")
    (project.source / "empty").mkdir()
    project.edit()
    assert (project.tree / "link").readlink() == Path("nowhere")
    assert not (project.tree / "empty").exists()
    assert project.refresh().is_same


def test_a_tree_inside_another_repository_leaves_that_one_alone(project: PatchProject) -> None:
    project.git("init", "--quiet", tree=project.root)
    project.edit()
    (project.tree / "f").write_text("changed\n")
    project.git("commit", "--quiet", "--all", "--message", "x")
    assert ".cache" not in project.git("status", "--porcelain", tree=project.root)
    assert "patches" in project.git("status", "--porcelain", tree=project.root)


def test_a_tree_that_lost_its_repository_is_none_of_ours(project: PatchProject) -> None:
    """Git would go up and find the project's own."""
    project.git("init", "--quiet", tree=project.root)
    project.edit()
    subprocess.run(["rm", "-rf", str(project.tree / ".git")], check=True)
    with pytest.raises(InputErrors) as refused:
        project.refresh()
    assert "not a work tree" in message(refused)


def test_at_a_patch_the_rest_waits_and_comes_back(project: PatchProject) -> None:
    opened = project.edit("0001")
    assert (opened.applied, opened.waiting) == (("0001-first.patch",), ("0002-second.patch", "0003-third.patch"))
    assert (project.tree / "f").read_text() == "one\n2\nthree\n"
    assert project.edit("second").waiting == ("0003-third.patch",)
    assert project.refresh().is_same
    opened = project.edit()
    assert (opened.applied, opened.waiting) == (tuple(SERIES), ())
    assert project.refresh().is_same


def test_what_waits_is_merged_or_left_in_conflict_and_nothing_is_lost(project: PatchProject) -> None:
    project.edit("0001")
    (project.tree / "f").write_text("one\nzwei\nthree\n")
    project.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    opened = project.edit()
    assert opened.conflicted is not None
    assert opened.conflicted.patch == "0002-second.patch"
    assert "  ours        2  'zwei\\n'" in opened.conflicted.text
    assert opened.waiting == ("0002-second.patch", "0003-third.patch")
    with pytest.raises(InputErrors, match="problem"):
        project.refresh()
    (project.tree / "f").write_text("one\nzwei, II\nthree\n")
    project.git("add", "f")
    project.git("cherry-pick", "--continue")
    assert project.edit().applied == tuple(SERIES)
    assert project.refresh().changed == ("0001-first.patch", "0002-second.patch")
    assert project.patched()[b"f"].contents == b"one\nzwei, II\nthree\n"


def test_a_pick_that_is_given_up_still_waits(project: PatchProject) -> None:
    project.edit("0001")
    (project.tree / "f").write_text("one\nzwei\nthree\n")
    project.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    project.edit()
    project.git("cherry-pick", "--abort")
    assert project.edit().conflicted is not None
    project.git("cherry-pick", "--abort")
    assert set(project.files()) == {*SERIES, "series"}


def test_work_that_is_not_in_the_series_is_never_lost(project: PatchProject) -> None:
    project.edit()
    (project.tree / "f").write_text("mine\n")
    for ready in (lambda: None, lambda: project.git("commit", "--quiet", "--all", "--message", "Mine")):
        ready()
        with pytest.raises(InputErrors) as refused:
            project.edit("0001")
        assert "derive patches refresh up" in message(refused)
        assert (project.tree / "f").read_text() == "mine\n"
    project.write_series({"0003-third.patch": THIRD.replace(b"zwei", b"deux")}, list(SERIES))
    with pytest.raises(InputErrors) as refused:
        project.edit()
    assert "keep the work elsewhere" in message(refused)
    with pytest.raises(InputErrors) as refused:
        project.refresh()
    assert "has changed since" in message(refused)


def test_a_tree_without_work_follows_the_series_and_the_source(project: PatchProject) -> None:
    project.edit()
    project.write_series({"0003-third.patch": THIRD.replace(b"zwei", b"deux")}, list(SERIES))
    assert project.edit().made
    assert b"deux" in (project.tree / "dir" / "crlf").read_bytes()
    (project.source / "more").write_text("more\n")
    assert project.edit().made
    assert (project.tree / "more").exists()
    assert not project.edit().made


def test_a_series_that_does_not_apply_leaves_no_tree(project: PatchProject) -> None:
    (project.source / "f").write_text("other\n")
    with pytest.raises(InputErrors) as refused:
        project.edit()
    assert "0001-first.patch" in message(refused)
    assert not project.tree.exists()


def test_a_folder_that_is_something_else_is_left_alone(project: PatchProject) -> None:
    project.tree.mkdir(parents=True)
    (project.tree / "precious").write_text("x")
    with pytest.raises(InputErrors) as refused:
        project.edit()
    assert "not a work tree" in message(refused)
    assert (project.tree / "precious").exists()


def test_what_a_killed_process_left_half_made_is_swept(project: PatchProject) -> None:
    staged = project.tree.with_name(".up.new")
    staged.mkdir(parents=True)
    (staged / "half").write_text("x")
    project.edit()
    assert not staged.exists()


def test_one_derive_at_a_time_works_on_a_tree(project: PatchProject) -> None:
    with tree_lock(project.tree), pytest.raises(HostRefuses):
        project.edit()


@pytest.mark.parametrize("text", ["0002-second.patch", "0002-second", "0002", "second", "sec"])
def test_a_patch_is_meant_by_name_number_or_part(project: PatchProject, text: str) -> None:
    assert find_patch(project.series, text) == "0002-second.patch"


@pytest.mark.parametrize("text", ["000", "ir", "nothing", "9"])
def test_a_patch_that_is_meant_by_nothing_or_too_little_is_refused(project: PatchProject, text: str) -> None:
    with pytest.raises(InputErrors):
        find_patch(project.series, text)
