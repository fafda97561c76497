# SPDX-License-Identifier: Apache-2.0
"""A folder on disk is read as a tree: in order, by name, and nowhere else."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.store.memory import MemoryStore
from derive.store.protocol import read_all
from derive.trees.listing import Directory, File, Listing, Symlink, nar_key, parents
from derive.trees.materialise import remove_folder
from derive.trees.pack import NewFile, add_members
from derive.trees.scan import scan_folder
from support.folders import ODD, Plain, write_folder


def scanned(folder: Path, *, own: bool = False) -> tuple[MemoryStore, Listing]:
    store = MemoryStore()
    with scan_folder(folder, own=own) as scan:
        return store, add_members(store, scan.members())


def test_everything_that_a_tree_can_hold_is_read(tmp_path: Path) -> None:
    write_folder(tmp_path / "t", ODD)
    store, listing = scanned(tmp_path / "t")
    for path, entry in ODD.items():
        found = listing[path]
        if isinstance(entry, Plain):
            assert isinstance(found, File)
            assert (read_all(store, found), found.executable) == (entry.data, entry.executable)
        else:
            assert found == entry
    assert set(listing) == {*ODD, *(above for path in ODD for above in parents(path))}


def test_members_come_in_nar_order_whatever_order_the_disk_has(tmp_path: Path) -> None:
    for name in ("b", "a!", "a/x", "a", "a.b/c"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    with scan_folder(tmp_path) as scan:
        paths = [path for path, _ in scan.members()]
    assert paths == sorted(paths, key=nar_key)
    assert paths == [b"", b"a", b"a/x", b"a!", b"a.b", b"a.b/c", b"b"]


def test_every_special_file_is_refused_at_once_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo\n")
    (tmp_path / "d").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "d/socket"))
    os.mknod(tmp_path / "whiteout", 0o020600, 0)  # the one device that anybody may make
    with pytest.raises(InputErrors) as caught:
        scan_folder(tmp_path)
    assert [(problem.where, problem.message.partition(",")[0]) for problem in caught.value.problems()] == [
        ("d/socket", "a socket"),
        ("fifo%0A", "a fifo"),
        ("whiteout", "a character device"),
    ]


def test_special_bits_are_listed_and_nothing_else_of_the_mode_is(tmp_path: Path) -> None:
    for name, mode in (("su", 0o4711), ("sg", 0o2755), ("sticky", 0o1644), ("plain", 0o644)):
        (tmp_path / name).write_bytes(b"")
        (tmp_path / name).chmod(mode)
    with scan_folder(tmp_path) as scan:
        assert scan.special_bits == ((b"sg", 0o2755), (b"su", 0o4711))


@pytest.mark.parametrize(("mode", "executable"), [(0o755, True), (0o100, True), (0o655, False), (0o4055, False)])
def test_the_owner_s_execute_bit_alone_makes_a_program(tmp_path: Path, mode: int, executable: bool) -> None:
    (tmp_path / "x").write_bytes(b"")
    (tmp_path / "x").chmod(mode)
    with scan_folder(tmp_path, own=True) as scan:
        members = dict(scan.members())
    file = members[b"x"]
    assert isinstance(file, NewFile)
    assert file.executable is executable


def test_own_folders_are_made_readable_and_keep_their_execute_bits(tmp_path: Path) -> None:
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/f").write_bytes(b"x")
    (tmp_path / "d/e/f").chmod(0o010)
    (tmp_path / "d/e").chmod(0o000)
    (tmp_path / "d").chmod(0o444)
    store, listing = scanned(tmp_path, own=True)
    file = listing[b"d/e/f"]
    assert isinstance(file, File)
    assert not file.executable
    assert read_all(store, file) == b"x"
    assert (tmp_path / "d/e/f").stat().st_mode & 0o777 == 0o410


def test_a_link_that_replaces_a_file_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"mine")
    with scan_folder(tmp_path) as scan:
        (tmp_path / "x").unlink()
        (tmp_path / "x").symlink_to("/etc/passwd")
        with pytest.raises(InputErrors) as caught:
            add_members(MemoryStore(), scan.members())
    assert caught.value.problems()[0].message == "changed while it was read: no regular file any more"


def test_a_link_that_replaces_a_folder_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "t/d").mkdir(parents=True)
    (tmp_path / "t/d/x").write_bytes(b"mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x").write_bytes(b"theirs")
    with scan_folder(tmp_path / "t") as scan:
        remove_folder(tmp_path / "t/d")
        (tmp_path / "t/d").symlink_to("../elsewhere")
        with pytest.raises(InputErrors):
            add_members(MemoryStore(), scan.members())


def test_a_fifo_that_replaces_a_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"mine")
    with scan_folder(tmp_path) as scan:
        (tmp_path / "x").unlink()
        os.mkfifo(tmp_path / "x")
        with pytest.raises(InputErrors):
            add_members(MemoryStore(), scan.members())


def test_large_files_come_in_pieces(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(3 * 2**20 + 1)
    with scan_folder(tmp_path) as scan:
        member = dict(scan.members())[b"sparse"]
        assert isinstance(member, NewFile)
        sizes = [len(chunk) for chunk in member.chunks]
    assert sizes == [2**20, 2**20, 2**20, 1]


def test_a_path_too_long_to_unpack_again_is_refused(tmp_path: Path) -> None:
    name = "n" * 250
    opened = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir(name, dir_fd=opened)
        inner = os.open(name, os.O_RDONLY, dir_fd=opened)
        os.close(opened)
        opened = inner
    os.close(opened)
    try:
        with pytest.raises(InputErrors) as caught:
            scan_folder(tmp_path)
        assert caught.value.problems()[0].message == "a path of more than 4095 bytes, which no tree can hold"
    finally:
        remove_folder(tmp_path / name)


def test_an_empty_folder_is_a_tree(tmp_path: Path) -> None:
    assert scanned(tmp_path)[1] == Listing.of({b"": Directory()})


def test_a_link_is_not_taken_for_the_folder_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "t").mkdir()
    (tmp_path / "t/link").symlink_to("../real")
    assert dict(scanned(tmp_path / "t")[1])[b"link"] == Symlink(b"../real")
