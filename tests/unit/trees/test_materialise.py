# SPDX-License-Identifier: Apache-2.0
"""A listing becomes the same read-only folder for everybody, and such folders can be removed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from derive.canonical import EPOCH
from derive.store.memory import MemoryStore
from derive.trees.listing import DIRECTORY, Listing, Symlink
from derive.trees.materialise import materialise, remove_folder
from derive.trees.pack import Member, NewFile, add_members
from derive.trees.scan import scan_folder
from support.folders import ODD, write_folder


def odd_tree(tmp_path: Path) -> tuple[MemoryStore, Listing]:
    write_folder(tmp_path / "odd", ODD)
    store = MemoryStore()
    with scan_folder(tmp_path / "odd") as scan:
        return store, add_members(store, scan.members())


def walk(top: Path) -> dict[bytes, os.stat_result]:
    """Every path below a folder with what lstat says of it."""
    found = {b"": top.lstat()}
    for folder, folders, files in os.walk(os.fsencode(top)):
        for name in (*folders, *files):
            path = os.path.join(folder, name)  # noqa: PTH118 (bytes)
            found[os.path.relpath(path, os.fsencode(top))] = os.lstat(path)
    return found


def test_reads_back_as_the_same_tree(tmp_path: Path) -> None:
    store, listing = odd_tree(tmp_path)
    materialise(store, listing, tmp_path / "t")
    with scan_folder(tmp_path / "t") as scan:
        again = add_members(store, scan.members())
    assert again == listing
    remove_folder(tmp_path / "t")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_modes_and_times_are_constants_under_any_umask(tmp_path: Path, umask: int) -> None:
    store, listing = odd_tree(tmp_path)
    before = os.umask(umask)
    try:
        materialise(store, listing, tmp_path / "t")
    finally:
        os.umask(before)
    found = walk(tmp_path / "t")
    assert len(found) == len(listing)
    for path, status in found.items():
        assert status.st_mtime_ns == EPOCH * 10**9, path
        if stat.S_ISDIR(status.st_mode):
            assert stat.S_IMODE(status.st_mode) == (0o555 if path else 0o755)
        elif stat.S_ISREG(status.st_mode):
            assert stat.S_IMODE(status.st_mode) == (0o555 if path == b"run me" else 0o444)
            assert status.st_nlink == 1
    remove_folder(tmp_path / "t")


def test_a_tree_that_is_one_file_becomes_a_file(tmp_path: Path) -> None:
    store = MemoryStore()
    members: list[tuple[bytes, Member]] = [(b"", NewFile(executable=True, chunks=[b"ab", b"c"]))]
    materialise(store, add_members(store, members), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"abc"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o555
    remove_folder(tmp_path / "f")
    assert not (tmp_path / "f").exists()


def test_a_tree_that_is_one_link_stays_a_link(tmp_path: Path) -> None:
    materialise(MemoryStore(), Listing.of({b"": Symlink(b"/nowhere")}), tmp_path / "l")
    assert (tmp_path / "l").readlink() == Path("/nowhere")


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    with pytest.raises(FileExistsError):
        materialise(MemoryStore(), Listing.of({b"": DIRECTORY}), tmp_path / "t")


def test_equal_files_share_no_inode(tmp_path: Path) -> None:
    store = MemoryStore()
    listing = add_members(store, [(name, NewFile(executable=False, chunks=[b"same"])) for name in (b"a", b"b")])
    materialise(store, listing, tmp_path / "t")
    assert (tmp_path / "t/a").stat().st_ino != (tmp_path / "t/b").stat().st_ino


def test_removing_what_is_absent_is_no_error(tmp_path: Path) -> None:
    remove_folder(tmp_path / "absent")
    remove_folder(tmp_path / "absent/further")


def test_removing_a_link_leaves_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/x").write_bytes(b"")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "t").mkdir()
    (tmp_path / "t/link").symlink_to("../real")
    remove_folder(tmp_path / "link")
    remove_folder(tmp_path / "t")
    assert [path.name for path in tmp_path.iterdir()] == ["real"]
    assert (tmp_path / "real/x").exists()


def test_folders_without_any_right_are_removed(tmp_path: Path) -> None:
    (tmp_path / "t/a/b").mkdir(parents=True)
    (tmp_path / "t/a/b/x").write_bytes(b"")
    for name in ("t/a/b", "t/a", "t"):
        (tmp_path / name).chmod(0)
    remove_folder(tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_folders_deeper_than_any_path_or_stack_are_removed(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    opened = os.open(tmp_path / "t", os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("a folder", dir_fd=opened)
        inner = os.open("a folder", os.O_RDONLY, dir_fd=opened)
        os.close(opened)
        opened = inner
    os.close(opened)
    remove_folder(tmp_path / "t")
    assert not (tmp_path / "t").exists()
