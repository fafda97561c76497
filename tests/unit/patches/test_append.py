# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from derive.errors import CheckFailed, InputErrors
from derive.patches.append import Appended, append
from support.patch_project import PatchProject, patch_project, plain, quick_folder, write_tree

SOURCE = plain(f="one\ntwo\n", dir__g="g\n", dir__h="h\n")
SERIES = {"0001-two.patch": b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"}


@pytest.fixture
def project() -> Iterator[PatchProject]:
    with quick_folder() as place, patch_project(place, SOURCE, SERIES) as made:
        write_tree(place / "work", made.patched())
        yield made


def work(project: PatchProject) -> Path:
    return project.root.parent / "work"


def new(project: PatchProject, name: str = "more", only: Sequence[str] = ()) -> Appended:
    return append(
        project.shop,
        project.series,
        work(project),
        name=name,
        description="Add more",
        author="A <a@b>",
        only=only,
        source=str(project.source),
    )


def test_the_difference_is_the_new_last_patch(project: PatchProject) -> None:
    (work(project) / "f").write_text("one\n2\nthree\n")
    (work(project) / "dir" / "h").rename(work(project) / "h")
    assert new(project) == Appended(name="0002-more.patch", paths=3)
    assert project.series.loaded.series.names == ("0001-two.patch", "0002-more.patch")
    assert project.files()["0002-more.patch"].startswith(b"Description: Add more\nAuthor: A <a@b>\nOrigin: TODO\n")
    assert project.patched() == plain(f="one\n2\nthree\n", dir__g="g\n", h="h\n")
    with pytest.raises(CheckFailed):
        new(project)


def test_only_some_paths_are_looked_at(project: PatchProject) -> None:
    shutil.rmtree(work(project) / "dir")
    (work(project) / "f").write_text("other\n")
    (work(project) / "binary").write_bytes(b"\0")
    assert new(project, only=["./dir/"]).paths == 2
    assert set(project.patched()) == {b"f"}
    assert project.patched()[b"f"].contents == b"one\n2\n"


def test_git_and_empty_folders_of_the_folder_are_not_looked_at(project: PatchProject) -> None:
    (work(project) / "empty").mkdir()
    write_tree(work(project) / ".git", plain(config="x"))
    with pytest.raises(CheckFailed):
        new(project)


def test_everything_that_no_patch_holds_is_said_at_once_and_nothing_is_written(project: PatchProject) -> None:
    (work(project) / "binary").write_bytes(b"\0")
    (work(project) / "link").symlink_to("f")
    before = project.files()
    with pytest.raises(InputErrors) as refused:
        new(project)
    assert [problem.where for problem in refused.value.problems()] == ["link"]
    (work(project) / "link").unlink()
    with pytest.raises(InputErrors) as refused:
        new(project)
    assert [problem.where for problem in refused.value.problems()] == ["binary"]
    assert project.files() == before


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-b", "0002-a-b.patch"),
        ("A b.patch", "0002-a-b.patch"),
        ("0007-x", "0007-x.patch"),
        ("0009-x.patch", "0009-x.patch"),
    ],
)
def test_a_name_gets_its_number_and_ending(project: PatchProject, name: str, expected: str) -> None:
    (work(project) / "f").write_text("other\n")
    assert new(project, name).name == expected


def test_a_name_that_is_taken_is_refused(project: PatchProject) -> None:
    (work(project) / "f").write_text("other\n")
    with pytest.raises(InputErrors):
        new(project, "0001-two")


def test_a_folder_that_is_not_there_is_said(project: PatchProject) -> None:
    shutil.rmtree(work(project))
    with pytest.raises(InputErrors):
        new(project)
