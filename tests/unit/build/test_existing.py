# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.build.existing import existing_image
from derive.build.memo import memo_key
from derive.errors import InputErrors
from derive.project import Project, load_project
from derive.store.local import LocalStore
from support import stored
from support.small import CONTENT, lock_bytes


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for path, text in {**CONTENT, "lock/base.lock.json": lock_bytes().decode()}.items():
        target = tmp_path / "project" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return load_project(tmp_path / "project")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def unwanted() -> Project:
    raise AssertionError("no project is needed")


def test_a_digest_needs_no_project(store: LocalStore) -> None:
    made = stored.image(store, "one").digest
    for text in (str(made), made.hex, made.short, f"image:{made.short}"):
        assert existing_image(store, unwanted, text, None) == made


def test_a_name_is_what_was_derived_of_it_as_the_project_is_now(store: LocalStore, project: Project) -> None:
    made = stored.image(store, "one").digest
    store.database.set_memo(memo_key(project, "small", None), made.hex)
    store.database.set_memo(memo_key(project, "small", "linux/arm64"), made.hex)
    for text in (None, "small", "image:small", "small@linux/arm64"):
        assert existing_image(store, lambda: project, text, None) == made


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (None, "run: derive image small"),
        ("small", "run: derive image small"),
        ("small@linux/arm64", "run: derive image small --platform linux/arm64"),
    ],
)
def test_what_is_not_derived_names_the_command(
    store: LocalStore, project: Project, text: str | None, hint: str
) -> None:
    with pytest.raises(InputErrors) as caught:
        existing_image(store, lambda: project, text, None)
    (problem,) = caught.value.problems()
    assert (problem.message, problem.hint) == ("the image small is not derived yet", hint)


def test_an_image_that_is_not_whole_is_not_derived(store: LocalStore, project: Project) -> None:
    made = stored.image(store, "one").digest
    store.database.set_memo(memo_key(project, "small", None), made.hex)
    store.blob_path(stored.add_blob(store, b"layer one")).unlink()
    with pytest.raises(InputErrors, match="1 problem"):
        existing_image(store, lambda: project, None, None)
    with pytest.raises(InputErrors):
        existing_image(store, unwanted, str(made), None)


@pytest.mark.parametrize("text", ["drv:small", "tree:0123456789ab", "nothing"])
def test_what_is_no_image_is_refused(store: LocalStore, project: Project, text: str) -> None:
    with pytest.raises(InputErrors):
        existing_image(store, lambda: project, text, None)
