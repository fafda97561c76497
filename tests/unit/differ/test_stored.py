# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.derivations.model import FlatOutput, TreeOutput
from derive.differ.diffoscope import next_step, run_diffoscope
from derive.differ.stored import differ_outputs, differ_path
from derive.errors import HostRefuses, Unavailable
from derive.store.memory import MemoryStore
from derive.trees.pack import NewFile, add_members
from derive.why.render import render


def flat(store: MemoryStore, data: bytes) -> FlatOutput:
    with store.blob_writer() as writer:
        writer.write(data)
        return FlatOutput(writer.commit())


def tree(store: MemoryStore, **files: bytes) -> TreeOutput:
    members = [(name.encode(), NewFile(executable=False, chunks=[data])) for name, data in files.items()]
    return TreeOutput(store.add_listing(add_members(store, members)))


def test_outputs_of_two_stores_are_compared() -> None:
    ours, theirs = MemoryStore(), MemoryStore()
    shown = differ_outputs("a", flat(ours, b"one\n"), flat(theirs, b"two\n"), (ours, theirs))
    assert "-one\n+two" in render(shown, colour=False)
    shown = differ_outputs("a", tree(ours, x=b"one\n"), tree(theirs, x=b"two\n"), (ours, theirs))
    assert render(shown, colour=False) == "x: other contents\n  line 1\n  -one\n  +two"


def test_what_is_not_at_hand_is_said() -> None:
    store = MemoryStore()
    shown = differ_outputs("a", FlatOutput(sha256(b"x")), flat(store, b"y"), (store, store))
    assert render(shown, colour=False).startswith("what differs inside is not shown: ")
    shown = differ_outputs("a", tree(store, x=b"1"), flat(store, b"y"), (store, store))
    assert render(shown, colour=False) == "one is a tree, the other a file"


def test_files_at_one_path_are_compared_where_both_are_files() -> None:
    store = MemoryStore()
    first, second = (store.listing(one.digest) for one in (tree(store, x=b"\0one"), tree(store, x=b"\0two")))
    assert differ_path(store, (first, second), b"x")
    assert differ_path(store, (first, second), b"") == []


def program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "diffoscope"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_diffoscope_is_named_and_run_where_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, 'echo "$4 is not $5"; exit 1', monkeypatch)
    assert next_step(Path("/a"), Path("/b")) == "diffoscope /a /b"
    assert run_diffoscope(Path("/a"), Path("/b")) == "/a is not /b\n"


def test_diffoscope_that_is_absent_or_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "echo broken >&2; exit 2", monkeypatch)
    with pytest.raises(Unavailable, match="diffoscope failed with exit code 2"):
        run_diffoscope(Path("/a"), Path("/b"))
    monkeypatch.setenv("PATH", "")
    assert next_step(Path("/a"), Path("/b")) is None
    with pytest.raises(HostRefuses, match="diffoscope is not on the PATH"):
        run_diffoscope(Path("/a"), Path("/b"))
