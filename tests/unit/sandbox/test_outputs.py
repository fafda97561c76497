# SPDX-License-Identifier: Apache-2.0
"""An output becomes a listing, or one error that names everything wrong with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from derive.errors import BuildFailed
from derive.sandbox.outputs import take_output
from derive.sandbox.references import Allowance
from derive.store.memory import MemoryStore
from derive.store.protocol import read_all
from derive.trees.listing import File, Listing, Symlink


def taken(folder: Path, *allowances: Allowance, notes: list[str] | None = None) -> tuple[MemoryStore, Listing]:
    store = MemoryStore()
    note = (lambda _: None) if notes is None else notes.append
    return store, take_output(
        store, folder, name="perftest", store_path=b"/home/ann/derive", allowances=allowances, note=note
    )


def test_a_clean_output_is_listed_with_its_contents(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr/tool").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "usr/tool").chmod(0o700)
    (tmp_path / "link").symlink_to("usr/tool")
    store, listing = taken(tmp_path)
    assert list(listing) == [b"", b"link", b"usr", b"usr/tool"]
    assert listing[b"link"] == Symlink(b"usr/tool")
    tool = listing[b"usr/tool"]
    assert isinstance(tool, File)
    assert tool.executable
    assert read_all(store, tool) == b"#!/bin/sh\n"


def test_every_reference_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.pc").write_bytes(b"libdir=/out/usr/lib\nx=/out\n")
    (tmp_path / "b").symlink_to("/build/b")
    (tmp_path / "c").write_bytes(b"/home/ann/derive/trees/x")
    with pytest.raises(BuildFailed) as caught:
        taken(tmp_path)
    assert caught.value.message == "the output of perftest names paths of its sandbox"
    assert caught.value.detail == (
        "a.pc: /out in its contents at byte 7 and 1 more",
        "b: /build in its link target",
        "c: /home/ann/derive in its contents at byte 0",
    )


def test_allowed_references_are_noted(tmp_path: Path) -> None:
    (tmp_path / "manual").write_bytes(b"for example /build/x")
    notes: list[str] = []
    taken(tmp_path, Allowance(path="manual", text="/build", reason="an example"), notes=notes)
    assert notes == ["allowed: manual: /build in its contents at byte 12"]


def test_a_stale_allowance_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed) as caught:
        taken(tmp_path, Allowance(path="manual", text="/build", reason="an example"))
    assert caught.value.detail == ("manual: /build (an example)",)


def test_devices_and_sockets_are_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "usr").mkdir()
    os.mkfifo(tmp_path / "usr/pipe")
    with pytest.raises(BuildFailed) as caught:
        taken(tmp_path)
    assert caught.value.message == "the output of perftest is no tree"
    assert caught.value.detail == (
        "pipe: a fifo, which no tree can hold",
        "usr/pipe: a fifo, which no tree can hold",
    )


def test_dropped_special_bits_are_noted(tmp_path: Path) -> None:
    (tmp_path / "su").write_bytes(b"")
    (tmp_path / "su").chmod(0o4755)
    notes: list[str] = []
    taken(tmp_path, notes=notes)
    assert notes == ["dropped the special bits of su (mode 4755)"]


def test_long_lists_are_cut_short(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}").write_bytes(b"/build")
    with pytest.raises(BuildFailed) as caught:
        taken(tmp_path)
    assert len(caught.value.detail) == 21
    assert caught.value.detail[-1] == "and 10 more"
