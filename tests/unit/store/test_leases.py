# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.errors import HostRefuses
from derive.store.blobs import Staging
from derive.store.leases import Held, folder_lock, read_leases
from derive.store.local import LocalStore
from derive.trees.pack import NewFile, add_members

ONE, TWO, THREE = (sha256(text) for text in (b"1", b"2", b"3"))

HOLDS = """
import sys
from pathlib import Path
from derive.canonical import Digest
from derive.store.blobs import Staging
staging = Staging(Path(sys.argv[1]))
staging.hold("blob", [Digest(sys.argv[2])])
print("ready", flush=True)
sys.stdin.read()
"""


def test_what_a_process_names_is_read_by_others_until_it_closes(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    staging.hold("drv", [ONE, TWO])
    staging.hold("blob", [TWO])
    staging.hold("tree", [THREE])
    held = read_leases(tmp_path)
    assert held == Held(
        processes=1, derivations=frozenset({ONE, TWO}), blobs=frozenset({TWO}), trees=frozenset({THREE})
    )
    staging.close()
    assert read_leases(tmp_path).processes == 0


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDS, str(tmp_path), ONE.hex]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        assert read_leases(tmp_path).blobs == {ONE}
        other.kill()
    assert list(tmp_path.glob("*.lock"))
    held = read_leases(tmp_path)
    assert (held.processes, held.blobs) == (0, frozenset())


def test_each_thing_is_written_once(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    for _ in range(3):
        staging.hold("blob", [ONE])
    (lock,) = tmp_path.glob("*.lock")
    assert lock.read_text() == f"\nblob {ONE.hex}"
    staging.close()


def test_a_line_that_was_cut_short_spoils_no_other(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    staging.hold("blob", [ONE])
    (lock,) = tmp_path.glob("*.lock")
    with lock.open("ab") as file:
        file.write(b"\nblob 12ab")  # as a full disk leaves it
    with lock.open("ab") as file:
        file.write(f"\nblob {TWO.hex}".encode())
    assert read_leases(tmp_path).blobs == {ONE, TWO}
    staging.close()


def test_naming_waits_while_a_collection_removes(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    staging.new_path()
    named = threading.Event()

    def name() -> None:
        staging.hold("blob", [ONE])
        named.set()

    with folder_lock(tmp_path, alone=True):
        thread = threading.Thread(target=name)
        thread.start()
        assert not named.wait(0.2)
        assert read_leases(tmp_path).blobs == frozenset()
    assert named.wait(20)
    thread.join()
    staging.close()


def test_what_is_written_to_a_store_is_named_before_it_is_looked_for(tmp_path: Path) -> None:
    with LocalStore(tmp_path) as store:
        tree = store.add_listing(add_members(store, [(b"a", NewFile(executable=False, chunks=[b"text"]))]))
        held = read_leases(tmp_path / "tmp")
        assert held.trees == {tree}
        assert held.blobs == {sha256(b"text")}


def test_only_who_protects_names_what_it_asks_for(tmp_path: Path) -> None:
    with LocalStore(tmp_path) as store:
        store.has_blob(ONE)
        store.has_tree(TWO)
        before = read_leases(tmp_path / "tmp")
        assert (before.blobs, before.trees) == (frozenset(), frozenset())
        store.protect([THREE])
        store.has_blob(ONE)
        store.has_tree(TWO)
        held = read_leases(tmp_path / "tmp")
        assert held.derivations == {THREE}
        assert held.blobs == {ONE}
        assert held.trees == {TWO}


def test_where_nothing_can_be_written_nothing_is_named_and_staging_is_refused(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "tmp")
    staging.refuse(HostRefuses("the store cannot be written"))
    staging.hold("blob", [ONE])
    with pytest.raises(HostRefuses, match="the store cannot be written"):
        staging.new_path()
    assert list(tmp_path.iterdir()) == []
