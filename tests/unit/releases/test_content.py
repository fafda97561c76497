# SPDX-License-Identifier: Apache-2.0
"""The content of a release, found by hash wherever it still is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import InputErrors, Missing
from derive.records.chain import Entry
from derive.records.model import Record
from derive.releases.checkout import checkout, settings_text, write_project
from derive.releases.content import Packed, Source, Stored, WorkingTree, files_of, look, wanted_of
from derive.releases.find import Known
from derive.releases.past import GitHistory
from derive.releases.roots import keep_release
from derive.store.local import LocalStore
from support.chained import candidate
from support.releasing import commit, git
from support.reported import release

FILES: Mapping[str, bytes] = {
    "lock/a.toml": b"a wish\n",
    "patches/tool/series": b"0001-a.patch\n",
    "recipes/demo.toml": b"# a comment\n",
    "recipes/demo/memory.toml": b"",
}


def hashed(*paths: str) -> dict[str, Digest]:
    return {path: sha256(FILES[path]) for path in paths}


@pytest.fixture
def known() -> Known:
    found = replace(
        release("demo")[0],
        lock=hashed("lock/a.toml"),
        content=hashed("patches/tool/series", "recipes/demo/memory.toml"),
    )
    body = {**candidate(found, {}), "texts": {"recipes/demo.toml": sha256(FILES["recipes/demo.toml"]).hex}}
    record = Record(kind="candidate", subject="demo-1", previous=None, body=body)
    entry = Entry(number=1, file="0001-demo-1.json", record=record, digest=record.digest)
    return Known(name="demo-1", release=found, release_data=found.encoded(), facts_data=b"", entry=entry)


def write(root: Path, files: Mapping[str, bytes] = FILES) -> None:
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


def test_lock_content_and_the_text_of_recipes_are_wanted(known: Known) -> None:
    assert wanted_of(known) == {path: sha256(data) for path, data in FILES.items()}


def test_a_file_that_was_changed_since_is_taken_from_the_next_place(known: Known, tmp_path: Path) -> None:
    write(tmp_path / "now", {**FILES, "lock/a.toml": b"another wish\n"})
    write(tmp_path / "then")
    sources: list[Source] = [WorkingTree(tmp_path / "now"), WorkingTree(tmp_path / "then", "an elder copy")]
    found = look(known, sources)
    assert found.files == FILES
    assert found.places["lock/a.toml"] == "an elder copy"
    assert found.places["recipes/demo.toml"] == "the working tree"


def test_all_that_is_nowhere_is_listed_with_where_it_was_looked_for(known: Known, tmp_path: Path) -> None:
    write(tmp_path, {"lock/a.toml": FILES["lock/a.toml"], "recipes/demo.toml": b"edited\n"})
    with pytest.raises(Missing) as caught:
        files_of(known, [WorkingTree(tmp_path)])
    assert caught.value.message == "3 of 4 content files of demo-1 are nowhere"
    assert caught.value.detail[0].split()[:2] == ["missing", "patches/tool/series"]
    assert caught.value.detail[-1] == "looked in the working tree"


def test_git_has_what_a_commit_of_any_branch_ever_had(known: Known, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    write(tmp_path, {**FILES, "lock/a.toml": b"before\n"})
    made = commit(tmp_path, "made from this, with an edit that was not committed")
    git(tmp_path, "switch", "--quiet", "--create", "side")
    write(tmp_path)
    commit(tmp_path, "the edit")
    git(tmp_path, "switch", "--quiet", "main")
    git(tmp_path, "rm", "--quiet", "-r", "patches", "recipes")
    commit(tmp_path, "all gone")
    for commit_of_it in (made, None, "0" * 40):
        assert files_of(known, [GitHistory(tmp_path, commit_of_it)]) == FILES


def test_git_below_the_top_of_a_repository_and_no_git(known: Known, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    write(tmp_path / "inner")
    commit(tmp_path, "below")
    assert files_of(known, [GitHistory(tmp_path / "inner", None)]) == FILES
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    assert look(known, [GitHistory(outside, None)]).files == {}


def test_the_store_has_what_was_kept_with_the_release(known: Known, tmp_path: Path) -> None:
    with LocalStore(tmp_path / "store") as store:
        keep_release(store, "demo-1", known.release, FILES)
        roots = {(kind, name) for kind, name, _ in store.database.roots()}
    assert roots == {("release", f"demo-1 {rest}") for rest in ("content", "engine", "linux/amd64", "linux/arm64")}
    assert files_of(known, [Stored(tmp_path / "store", "demo-1")]) == FILES
    assert look(known, [Stored(tmp_path / "store", "demo-2"), Stored(tmp_path / "none", "demo-1")]).files == {}


def test_an_archive_has_files_by_their_hash_and_a_damaged_one_does_not_count(known: Known, tmp_path: Path) -> None:
    blobs = tmp_path / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for data in FILES.values():
        (blobs / sha256(data).hex).write_bytes(data)
    assert files_of(known, [Packed(str(tmp_path))]) == FILES
    (blobs / sha256(b"a wish\n").hex).write_bytes(b"A wish\n")
    assert list(look(known, [Packed(str(tmp_path))]).absent) == ["lock/a.toml"]


def test_a_checkout_is_a_project_with_the_settings_that_decide_bytes(known: Known, tmp_path: Path) -> None:
    write(tmp_path / "now")
    target = tmp_path / "then"
    assert checkout(known, target, tmp_path / "now") == FILES
    found = {path.relative_to(target).as_posix(): path.read_bytes() for path in target.rglob("*") if path.is_file()}
    assert found == {**FILES, "pyproject.toml": settings_text(known.release).encode()}
    expected = '[tool.derive]\nformat = 1\ndefault-image = "demo"\nbuild-platform = "linux/amd64"\n'
    assert settings_text(known.release) == expected


def test_a_checkout_takes_no_folder_in_which_something_lies(known: Known, tmp_path: Path) -> None:
    write(tmp_path / "now")
    for target, message in (
        (tmp_path / "now", "the folder is not empty"),
        (tmp_path / "now" / "lock" / "a.toml", "this is no folder"),
        (tmp_path / "absent" / "deeper", f"the folder {tmp_path / 'absent'} does not exist"),
    ):
        with pytest.raises(InputErrors) as caught:
            checkout(known, target, tmp_path / "now")
        assert [one.message for one in caught.value.problems()] == [message]
    empty = tmp_path / "empty"
    empty.mkdir()
    write_project(known.release, FILES, empty)
    assert (empty / "lock" / "a.toml").read_bytes() == FILES["lock/a.toml"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "now"]
