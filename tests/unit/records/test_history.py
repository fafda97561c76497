# SPDX-License-Identifier: Apache-2.0
"""The chain against git: what a commit once had is there still."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.records.chain import FOLDER, read_chain
from derive.records.folder import files_below
from derive.records.history import History, against_git, commit_of, is_published
from derive.records.renumber import renumber
from support.chained import two_releases
from support.releasing import commit, git


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    two_releases().write(tmp_path)
    commit(tmp_path, "two releases")
    return tmp_path


def held(root: Path, since: str | None = None) -> History:
    files = files_below(root)
    return against_git(root, files, read_chain(files), since)


def test_what_is_as_it_was_committed_is_sound(root: Path) -> None:
    assert held(root) == History(commits=1, problems=())


def test_a_chain_that_was_rewritten_whole_is_found(root: Path) -> None:
    other = two_releases()
    other.files = {path: data for path, data in other.files.items() if path < "0003"}
    for path in (root / FOLDER).rglob("*.json"):
        path.unlink()
    other.retire("demo-1")
    other.write(root)
    found = {one.where.removeprefix(f"{FOLDER}/"): one.message.partition(",")[0] for one in held(root).problems}
    assert found["0003-demo-2.json"] == "gone"
    assert found["demo-2/release.json"] == "gone"


def test_an_edit_that_was_committed_is_found(root: Path) -> None:
    first = git(root, "rev-parse", "HEAD")
    file = root / FOLDER / "demo-1" / "facts.json"
    file.write_bytes(file.read_bytes() + b"\n")
    commit(root, "an edit")
    (problem,) = held(root).problems
    assert problem.where == f"{FOLDER}/demo-1/facts.json"
    assert problem.message == f"other than commit {first[:12]} has it"
    assert problem.hint == f"bring it back: git show {first[:12]}:./{FOLDER}/demo-1/facts.json"


def test_since_a_commit_what_it_has_counts_and_what_was_before_does_not(root: Path) -> None:
    file = root / FOLDER / "demo-1" / "facts.json"
    file.write_bytes(file.read_bytes() + b"\n")
    second = commit(root, "an edit")
    assert held(root, second).problems == ()
    assert len(held(root, f"{second}~1").problems) == 1
    with pytest.raises(InputErrors):
        held(root, "nowhere")


def test_a_project_below_the_top_of_a_repository_is_looked_at_alone(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    root = tmp_path / "inner"
    two_releases().write(root)
    commit(tmp_path, "below")
    (root / FOLDER / "0004-demo-1-retired.json").unlink()
    assert [one.where for one in held(root).problems] == [f"{FOLDER}/0004-demo-1-retired.json"]


def test_without_git_nothing_is_said_but_why(tmp_path: Path) -> None:
    two_releases().write(tmp_path)
    found = held(tmp_path)
    assert found.problems == ()
    assert found.refused is not None


def test_records_that_another_branch_s_were_put_before_are_no_edits(root: Path) -> None:
    ours, theirs = two_releases(), two_releases()
    ours.retire("demo-2")
    name = theirs.add("observed", "lab", {"nodes": {}, "observed_s": 1})
    git(root, "switch", "--quiet", "--create", "other")
    theirs.write(root)
    commit(root, "theirs")
    git(root, "switch", "--quiet", "main")
    ours.write(root)
    commit(root, "ours")
    git(root, "merge", "--quiet", "--no-edit", "other")
    (moved,) = renumber(root, [name])
    assert moved.name == "0006-lab.json"
    assert read_chain(files_below(root)).entries[-1].file == moved.name
    assert held(root).problems == ()


def test_the_commit_and_whether_files_differ_from_it(root: Path) -> None:
    assert commit_of(root, ("records",)) == (git(root, "rev-parse", "HEAD"), False)
    (root / "records" / "new").write_text("x")
    assert commit_of(root, ("records",))[1] is True
    assert commit_of(root, ("lock",))[1] is False
    assert commit_of(root.parent, ("lock",)) == (None, False)


def test_a_record_is_published_once_a_remote_branch_has_it_as_it_is(root: Path) -> None:
    assert is_published(root, "0001-demo-1.json", "origin/main") is None
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert is_published(root, "0001-demo-1.json", "origin/main") is True
    chained = two_releases()
    name = chained.retire("demo-2")
    chained.write(root)
    assert is_published(root, name, "origin/main") is False
    file = root / FOLDER / "0001-demo-1.json"
    file.write_bytes(file.read_bytes().replace(b"Ada", b"Eve"))
    assert is_published(root, "0001-demo-1.json", "origin/main") is False
