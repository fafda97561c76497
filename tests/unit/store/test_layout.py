# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.errors import HostRefuses
from derive.store.layout import FOLDERS, State, state_of
from derive.store.local import LocalStore


def files_of(root: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in sorted(root.rglob("*"))}


def make(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"somebody's")
    return root


def test_a_folder_that_is_not_there_or_empty_is_absent(tmp_path: Path) -> None:
    assert state_of(tmp_path / "a" / "b") is State.ABSENT
    assert state_of(tmp_path) is State.ABSENT
    assert state_of(make(tmp_path, "lost+found/")) is State.ABSENT


def test_a_made_store_is_one_also_without_its_database(tmp_path: Path) -> None:
    with LocalStore(tmp_path) as store:
        store.database.set_memo(sha256(b"a"), "x")
    assert state_of(tmp_path) is State.MADE
    for path in tmp_path.glob("derive.sqlite*"):
        path.unlink()
    assert state_of(tmp_path) is State.MADE


def test_a_store_without_its_mark_is_finished_and_not_refused(tmp_path: Path) -> None:
    with LocalStore(tmp_path) as store, store.blob_writer() as writer:
        writer.write(b"text")
        digest = writer.commit()
    (tmp_path / "oci-layout").unlink()
    assert state_of(tmp_path) is State.UNFINISHED
    with LocalStore(tmp_path) as store:
        assert store.has_blob(digest)
    assert state_of(tmp_path) is State.MADE


@pytest.mark.parametrize("count", range(1, len(FOLDERS) + 1))
def test_a_store_whose_maker_was_killed_is_finished(tmp_path: Path, count: int) -> None:
    make(tmp_path, *(f"{folder}/" for folder in FOLDERS[:count]))
    assert state_of(tmp_path) is State.UNFINISHED
    with LocalStore(tmp_path):
        pass
    assert state_of(tmp_path) is State.MADE


def test_a_store_whose_maker_was_killed_while_it_wrote_files_is_finished(tmp_path: Path) -> None:
    make(tmp_path, *(f"{folder}/" for folder in FOLDERS), "locks/index", "tmp/0f.lock", "tmp/0f/part", "index.json")
    assert state_of(tmp_path) is State.UNFINISHED


FOREIGN = {
    "a home": ("notes.txt", "photos/a.jpg"),
    "names as ours": ("tmp/work/file", "trees/oak", "index.json"),
    "one of our folders, not empty": ("logs/system.log",),
    "blobs of others": ("blobs/sha256/x",),
    "an OCI layout of others": ("oci-layout", "index.json", "blobs/sha256/x"),
    "a web site": ("index.json", "logs/"),
    "a database alone": ("derive.sqlite",),
    "ours and one more": (*(f"{folder}/" for folder in FOLDERS), "notes.txt"),
}


@pytest.mark.parametrize("names", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("reading", [False, True])
def test_a_folder_of_somebody_else_is_refused_and_left_as_it_is(
    tmp_path: Path, names: tuple[str, ...], reading: bool
) -> None:
    make(tmp_path, *names)
    before = files_of(tmp_path)
    with (
        pytest.raises(HostRefuses, match="not empty, and no store") as caught,
        LocalStore(tmp_path, reading=reading),
    ):
        pass
    assert caught.value.where == str(tmp_path)
    assert "--store" in str(caught.value.hint)
    assert files_of(tmp_path) == before


def test_a_store_opened_for_reading_is_not_made_and_reads_as_empty(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with LocalStore(root, reading=True) as store:
        assert (store.is_absent, store.read_only) == (True, True)
        assert store.database.roots() == []
        assert not store.has_tree(sha256(b"a"))
        with pytest.raises(HostRefuses, match="there is no store here yet"):
            store.staging.new_path()
    assert not root.exists()
    with LocalStore(root) as store:
        assert not store.is_absent
    with LocalStore(root, reading=True) as store:
        assert (store.is_absent, store.read_only) == (False, False)
