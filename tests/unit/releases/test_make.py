# SPDX-License-Identifier: Apache-2.0
"""Writing a release down: documents first, the record last; names and releases are never given twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.records.chain import FOLDER, verify
from derive.records.folder import append, files_below, load
from derive.releases.find import find_release
from derive.releases.make import Decision, Made, require_free, write_release
from support.reported import release, word


def decision(**changes: object) -> Decision:
    said: dict[str, object] = {
        "made_by": "Ada",
        "made_s": 1,
        "why": None,
        "previous": None,
        "commit": None,
        "modified": False,
        "texts": {"recipes/demo.toml": word("text")},
        "evidence": [],
        "duration_ns": 1,
        "store_bytes": 2,
    }
    return Decision(**(said | changes))  # type: ignore[arg-type]


def make(root: Path, name: str, moved: str = "") -> Made:
    return write_release(root, name, *release("demo", moved=moved), decision())


def test_a_release_is_found_as_it_was_written(tmp_path: Path) -> None:
    made = make(tmp_path, "demo-1")
    known = find_release(tmp_path, "demo-1")
    assert made.is_new
    assert (known.entry, known.release) == (made.entry, release("demo")[0])
    assert verify(load(tmp_path), files_below(tmp_path)) == []


@pytest.mark.parametrize("name", ["2026", "deadbeef", "0001-lab"])
def test_a_name_that_would_be_taken_for_something_else_is_refused_before_anything_is_derived(
    tmp_path: Path, name: str
) -> None:
    append(tmp_path, "observed", "lab", {"nodes": {}, "observed_s": 1})
    with pytest.raises(InputErrors) as caught:
        require_free(tmp_path, name, "demo", None)
    assert caught.value.problems()[0].message.startswith("would be taken for ")
    with pytest.raises(InputErrors):
        make(tmp_path, name)


def test_the_same_again_adds_nothing(tmp_path: Path) -> None:
    first = make(tmp_path, "demo-1")
    before = files_below(tmp_path)
    again = make(tmp_path, "demo-1")
    assert (again.entry, again.is_new) == (first.entry, False)
    assert files_below(tmp_path) == before


def test_a_name_that_is_taken_is_refused_with_both_digests(tmp_path: Path) -> None:
    make(tmp_path, "demo-1")
    with pytest.raises(InputErrors) as caught:
        make(tmp_path, "demo-1", "lock")
    (problem,) = caught.value.problems()
    assert (problem.where, problem.message) == (
        "records/releases/0001-demo-1.json",
        "the name 'demo-1' is taken",
    )
    assert problem.detail[1] == f"got       {release('demo', moved='lock')[0].digest}"


def test_a_release_that_has_a_name_gets_no_other(tmp_path: Path) -> None:
    make(tmp_path, "demo-1")
    with pytest.raises(InputErrors) as caught:
        make(tmp_path, "demo-2")
    assert caught.value.problems()[0].message == "this release is 'demo-1' already"
    assert not (tmp_path / FOLDER / "demo-2").exists()


def test_documents_that_a_killed_process_left_are_written_over(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER / "demo-1"
    folder.mkdir(parents=True)
    (folder / "release.json").write_bytes(b"an earlier engine's")
    make(tmp_path, "demo-1")
    assert find_release(tmp_path, "demo-1").release == release("demo")[0]


def test_the_release_before_is_the_last_of_the_recipe_or_the_one_that_is_named(tmp_path: Path) -> None:
    assert require_free(tmp_path, "demo-1", "demo", None) is None
    make(tmp_path, "demo-1")
    make(tmp_path, "demo-2", "lock")
    assert require_free(tmp_path, "demo-3", "demo", None) == "demo-2"
    assert require_free(tmp_path, "demo-2", "demo", None) == "demo-1"
    assert require_free(tmp_path, "demo-3", "demo", "demo-1") == "demo-1"
    assert require_free(tmp_path, "demo-3", "other", None) is None
    with pytest.raises(InputErrors):
        require_free(tmp_path, "demo-3", "demo", "demo-9")
