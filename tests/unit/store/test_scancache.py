# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest
from derive.store.local import LocalStore
from derive.store.scancache import add_folder_cached
from support.folders import ODD, nix_hash, write_folder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path / "tree", ODD)
    return tmp_path / "tree"


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the folder have settled: every look at it comes an hour from now, and each a minute after the last."""
    now = time.time_ns() + 3600 * 10**9
    ticks = iter(range(now, now + 10**15, 60 * 10**9))
    monkeypatch.setattr("derive.store.scancache.time_ns", lambda: next(ticks))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Name each file that is opened for its contents."""
    names: list[str] = []
    real = os.open

    def opened(path: str | bytes, flags: int, *more: object, **options: object) -> int:
        if flags & os.O_NONBLOCK and isinstance(path, bytes):
            names.append(path.decode("latin-1"))
        return real(path, flags, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", opened)
    return names


def files() -> int:
    return sum(hasattr(entry, "data") for entry in ODD.values())


def test_a_folder_gives_the_tree_that_nix_hashes(store: LocalStore, folder: Path) -> None:
    assert add_folder_cached(store, folder).hex == nix_hash(folder)


@pytest.mark.usefixtures("later")
def test_a_folder_that_is_as_it_was_is_not_read_again(store: LocalStore, folder: Path, read: list[str]) -> None:
    first = add_folder_cached(store, folder)
    assert len(read) == files()
    read.clear()
    assert add_folder_cached(store, folder) == first
    assert read == []


@pytest.mark.usefixtures("later")
def test_of_a_folder_that_changed_only_what_changed_is_read(store: LocalStore, folder: Path, read: list[str]) -> None:
    add_folder_cached(store, folder)
    (folder / "a.b").write_bytes(b"changed")
    (folder / "new").write_bytes(b"new")
    (folder / "a!").unlink()
    read.clear()
    assert add_folder_cached(store, folder).hex == nix_hash(folder)
    assert sorted(read) == ["a.b", "new"]


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("change", ["mode", "link", "kind", "moved", "folder"])
def test_every_kind_of_change_is_seen(store: LocalStore, folder: Path, change: str) -> None:
    before = add_folder_cached(store, folder)
    if change == "mode":
        (folder / "a.b").chmod(0o755)
    elif change == "link":
        (folder / "dangling").unlink()
        (folder / "dangling").symlink_to("to/nothin!")
    elif change == "kind":
        (folder / "a.b").unlink()
        (folder / "a.b").mkdir()
    elif change == "moved":
        (folder / "a.b").rename(folder / "a!")
    else:
        (folder / "empty folder").rmdir()
    after = add_folder_cached(store, folder)
    assert after != before
    assert after.hex == nix_hash(folder)


def test_contents_that_changed_within_the_same_tick_are_seen(store: LocalStore, folder: Path) -> None:
    place = folder / "a.b"
    seen = set()
    for turn in range(20):
        facts = place.stat()
        with place.open("r+b") as file:
            file.write(b"%012d" % turn)
        os.utime(place, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # as a careless tool does
        seen.add(add_folder_cached(store, folder))
    assert len(seen) == 20


@pytest.mark.usefixtures("later")
def test_a_change_that_hides_its_time_is_seen(store: LocalStore, folder: Path) -> None:
    place = folder / "a.b"
    before = add_folder_cached(store, folder)
    facts = place.stat()
    with place.open("r+b") as file:
        file.write(b"X")
    os.utime(place, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert add_folder_cached(store, folder) != before


@pytest.mark.usefixtures("later")
def test_a_tree_that_was_collected_is_added_again(store: LocalStore, folder: Path) -> None:
    tree = add_folder_cached(store, folder)
    for path in (store.root / "listings").iterdir():
        path.unlink()
    assert add_folder_cached(store, folder) == tree
    assert store.has_tree(tree)


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("data", [b"", b"{", b"[]\n[]", b'{"derive":"scan/2","facts":null,"tree":""}\n{}'])
def test_a_memory_that_cannot_be_read_costs_reading_again(store: LocalStore, folder: Path, data: bytes) -> None:
    tree = add_folder_cached(store, folder)
    (memory,) = (store.root / "scans").iterdir()
    memory.write_bytes(data)
    assert add_folder_cached(store, folder) == tree


@pytest.mark.usefixtures("later")
def test_names_at_the_top_can_be_left_out(store: LocalStore, folder: Path) -> None:
    without = add_folder_cached(store, folder)
    write_folder(folder / ".git", {b"HEAD": ODD[b"a.b"]})
    (folder / "a" / ".git").write_bytes(b"inner")
    inner = add_folder_cached(store, folder, but=[b".git"])
    assert inner not in (without, add_folder_cached(store, folder))
    (folder / "a" / ".git").unlink()
    assert add_folder_cached(store, folder, but=[b".git"]) == without


def test_two_folders_with_the_same_contents_are_one_tree(store: LocalStore, folder: Path, tmp_path: Path) -> None:
    write_folder(tmp_path / "other", ODD)
    trees: set[Digest] = {add_folder_cached(store, place) for place in (folder, tmp_path / "other")}
    assert len(trees) == 1
