# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, Interrupted, Missing
from derive.store.local import LocalStore
from derive.store.protocol import read_all
from derive.trees.facts import facts_of
from derive.trees.listing import DIRECTORY, File, Listing, Location, Symlink
from derive.trees.nar import single
from derive.trees.pack import NewFile, add_members
from support.folders import ODD, members_of, nix_hash, read_folder, with_parents

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def add_blob(store: LocalStore, data: bytes) -> Digest:
    with store.blob_writer() as writer:
        writer.write(data)
        return writer.commit()


def tree_in(store: LocalStore, before: bytes) -> tuple[Listing, Digest]:
    """Return a tree that is always the same, its one file in a blob that begins with ``before``."""
    pack = add_blob(store, before + b"text")
    file = File(executable=False, size=4, sha256=sha256(b"text"), at=Location(pack, len(before), 4))
    return Listing.of({b"a": file}), pack


def index(store: LocalStore) -> list[tuple[str, str]]:
    manifests = json.loads((store.root / "index.json").read_bytes())["manifests"]
    return [(m["annotations"]["org.opencontainers.image.ref.name"], m["digest"]) for m in manifests]


# Layout


def test_making_the_object_touches_nothing(tmp_path: Path) -> None:
    LocalStore(tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_opening_makes_an_empty_oci_layout(store: LocalStore) -> None:
    assert json.loads((store.root / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    assert json.loads((store.root / "index.json").read_bytes()) == {"schemaVersion": 2, "manifests": []}
    assert {p.name for p in store.root.iterdir() if p.is_dir()} == {
        "blobs",
        "listings",
        "trees",
        "logs",
        "locks",
        "tmp",
    }


def test_opening_again_keeps_everything(tmp_path: Path) -> None:
    with LocalStore(tmp_path / "store") as first:
        digest = first.add_listing(add_members(first, members_of(ODD)))
        first.tag("probe", digest, 1, MANIFEST)
        first.database.set_memo(digest, "x")
    with LocalStore(tmp_path / "store") as second:
        assert second.has_tree(digest)
        assert index(second) == [("probe", str(digest))]
        assert second.database.memo(digest) == "x"


def test_a_store_left_half_made_is_finished(tmp_path: Path) -> None:
    with LocalStore(tmp_path / "store"):
        pass
    (tmp_path / "store" / "oci-layout").unlink()
    shutil.rmtree(tmp_path / "store" / "listings")
    with LocalStore(tmp_path / "store") as store:
        assert store.has_tree(store.add_listing(single(DIRECTORY)))
    assert (tmp_path / "store" / "oci-layout").exists()


def test_making_a_store_does_not_forget_an_image_that_another_process_named(tmp_path: Path) -> None:
    with LocalStore(tmp_path / "store") as store:
        store.tag("probe", sha256(b"m"), 1, MANIFEST)
        # What a process sees that looked for the layout before the other one wrote it.
        (store.root / "oci-layout").unlink()
        with LocalStore(tmp_path / "store"):
            assert index(store) == [("probe", str(sha256(b"m")))]


def test_leaving_leaves_no_unfinished_work_and_no_locks(tmp_path: Path) -> None:
    with LocalStore(tmp_path / "store") as store:
        with store.blob_writer() as writer:
            writer.write(b"dropped")
        store.folder(store.add_listing(add_members(store, members_of(ODD))))
        store.tag("probe", sha256(b"m"), 1, MANIFEST)
    assert list((tmp_path / "store" / "tmp").iterdir()) == []
    assert list((tmp_path / "store" / "locks").iterdir()) == []


# Trees


def test_a_tree_is_gone_when_one_of_its_blobs_is(store: LocalStore) -> None:
    listing, pack = tree_in(store, b"")
    digest = store.add_listing(listing)
    assert store.has_tree(digest)
    store.blob_path(pack).unlink()
    assert not store.has_tree(digest)
    with pytest.raises(Missing):
        store.add_listing(listing)


def test_a_tree_whose_blob_is_gone_can_be_kept_elsewhere(store: LocalStore) -> None:
    first, pack = tree_in(store, b"first")
    second, _ = tree_in(store, b"second")
    digest = store.add_listing(first)
    store.blob_path(pack).unlink()
    assert store.add_listing(second) == digest
    assert store.has_tree(digest)
    file = store.listing(digest)[b"a"]
    assert isinstance(file, File)
    assert read_all(store, file) == b"text"


def test_an_old_listing_is_not_vouched_for_by_new_rows(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    first, pack = tree_in(store, b"first")
    second, _ = tree_in(store, b"second")
    digest = store.add_listing(first)
    store.blob_path(pack).unlink()

    def stop(*_: object, **__: object) -> None:
        raise OSError("stopped here")

    monkeypatch.setattr("derive.store.local.write_whole", stop)
    with pytest.raises(OSError, match="stopped"):
        store.add_listing(second)
    assert not store.has_tree(digest)


@pytest.mark.parametrize("rows", ["lost", "kept"])
def test_a_tree_needs_its_blobs_also_when_its_rows_were_lost(store: LocalStore, rows: str) -> None:
    listing, pack = tree_in(store, b"")
    digest = store.add_listing(listing)
    if rows == "lost":
        store.database.add_tree(digest, [])
    assert store.has_tree(digest)
    store.blob_path(pack).unlink()
    assert not store.has_tree(digest)


def test_threads_that_keep_one_tree_in_different_blobs_leave_listing_and_rows_in_agreement(store: LocalStore) -> None:
    made = [tree_in(store, b"%d" % index) for index in range(8)]
    with ThreadPoolExecutor(8) as pool:
        (digest,) = set(pool.map(store.add_listing, [listing for listing, _ in made]))
    listed = {file.at.blob for _, file in store.listing(digest).files() if file.at is not None}
    assert set(store.database.tree_blobs(digest)) == listed


def unreadable(store: LocalStore) -> Listing:
    """Return a tree whose blob is there and whose contents are not what the tree says."""
    pack = add_blob(store, b"other")
    file = File(executable=False, size=4, sha256=sha256(b"text"), at=Location(pack, 0, 4))
    return Listing.of({b"a": file})


def test_a_tree_named_by_its_facts_is_not_read(store: LocalStore) -> None:
    tree = unreadable(store)
    digest = store.add_listing(tree, by_facts=True)
    assert digest == facts_of(tree)
    assert store.listing(digest) == tree
    with pytest.raises(Corrupt):
        store.add_listing(tree)


def test_a_tree_that_is_equal_to_an_earlier_one_is_not_read_again(store: LocalStore) -> None:
    tree, _ = tree_in(store, b"")
    digest = store.add_listing(tree)
    assert store.add_listing(unreadable(store)) == digest


@pytest.mark.parametrize("by_facts", [False, True])
def test_all_of_a_tree_from_elsewhere_is_read_whatever_names_it(store: LocalStore, *, by_facts: bool) -> None:
    tree, _ = tree_in(store, b"")
    digest = store.add_listing(tree, by_facts=by_facts)
    with pytest.raises(Corrupt):
        store.add_foreign(unreadable(store), digest)
    assert store.add_foreign(tree, digest) == digest
    assert store.add_foreign(tree, sha256(b"another")) != sha256(b"another")
    assert not store.has_tree(sha256(b"another"))


# Folders


def test_a_tree_becomes_a_read_only_folder_with_the_same_hash(store: LocalStore) -> None:
    digest = store.add_listing(add_members(store, members_of(ODD)))
    folder = store.folder(digest)
    assert folder == store.root / "trees" / digest.hex
    assert read_folder(folder) == with_parents(ODD)
    assert nix_hash(folder) == digest.hex
    modes = {stat.S_IMODE(p.lstat().st_mode) for p in [folder, *folder.rglob("*")] if not p.is_symlink()}
    assert modes == {0o444, 0o555}


def test_a_folder_is_written_once(store: LocalStore) -> None:
    digest = store.add_listing(add_members(store, members_of(ODD)))
    inode = store.folder(digest).stat().st_ino
    with ThreadPoolExecutor(4) as pool:
        assert {path.stat().st_ino for path in pool.map(store.folder, [digest] * 8)} == {inode}


def test_threads_that_ask_together_get_one_folder(store: LocalStore) -> None:
    digest = store.add_listing(add_members(store, members_of(ODD)))
    with ThreadPoolExecutor(8) as pool:
        assert len({path.stat().st_ino for path in pool.map(store.folder, [digest] * 8)}) == 1


def test_a_tree_of_one_file_becomes_a_file(store: LocalStore) -> None:
    digest = store.add_listing(add_members(store, [(b"", NewFile(executable=True, chunks=[b"text"]))]))
    path = store.folder(digest)
    assert path.read_bytes() == b"text"
    assert stat.S_IMODE(path.stat().st_mode) == 0o555


def test_a_tree_of_one_link_changes_nothing_that_the_link_leads_to(store: LocalStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    digest = store.add_listing(single(Symlink(os.fsencode(outside))))
    for _ in range(2):
        assert store.folder(digest).is_symlink()
        assert stat.S_IMODE(outside.stat().st_mode) == 0o700


def test_a_dangling_link_is_a_tree_as_good_as_any(store: LocalStore) -> None:
    digest = store.add_listing(single(Symlink(b"nowhere")))
    for _ in range(2):
        assert os.readlink(store.folder(digest)) == "nowhere"  # noqa: PTH115


def test_a_folder_of_an_absent_tree_is_missing(store: LocalStore) -> None:
    with pytest.raises(Missing):
        store.folder(sha256(b"absent"))
    assert list((store.root / "trees").iterdir()) == []


# Names and locks


def test_names_in_the_index_are_sorted_and_moved(store: LocalStore) -> None:
    one, two = sha256(b"1"), sha256(b"2")
    store.tag("b", one, 1, MANIFEST)
    store.tag("a", one, 1, MANIFEST)
    store.tag("b", two, 2, MANIFEST)
    assert index(store) == [("a", str(one)), ("b", str(two))]
    entry = json.loads((store.root / "index.json").read_bytes())["manifests"][1]
    assert entry == {
        "mediaType": MANIFEST,
        "digest": str(two),
        "size": 2,
        "annotations": {"org.opencontainers.image.ref.name": "b"},
    }


def test_what_is_named_is_settled_before_its_name(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr("derive.store.blobs.sync_folder", lambda folder: synced.append(folder.name))
    manifest = add_blob(store, b"manifest")
    assert "sha256" not in synced
    store.tag("a", manifest, 8, MANIFEST)
    assert synced[-2:] == ["sha256", store.root.name]


def test_threads_that_name_images_at_once_lose_none(store: LocalStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.tag(f"{n:02}", sha256(b"m"), 1, MANIFEST), range(24)))
    assert [name for name, _ in index(store)] == [f"{n:02}" for n in range(24)]


def test_a_lock_is_held_by_one_thread_at_a_time(store: LocalStore) -> None:
    inside: list[int] = []
    most = 0

    def work(_: int) -> None:
        nonlocal most
        with store.locked("x"):
            inside.append(1)
            most = max(most, len(inside))
            threading.Event().wait(0.001)
            inside.pop()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(40)))
    assert most == 1
    assert not (store.root / "locks" / "x").exists()


def test_a_lock_is_given_back_when_its_holder_fails(store: LocalStore) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="inside"), store.locked("x"):
            raise RuntimeError("inside")


def test_locks_of_different_names_do_not_wait_for_each_other(store: LocalStore) -> None:
    def take(name: str) -> str:
        with store.locked(name):
            return name

    with store.locked("a"), store.locked("b"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(take, "c").result(timeout=20) == "c"


def test_waiting_for_a_lock_can_be_given_up(store: LocalStore) -> None:
    cancel = threading.Event()

    def take() -> None:
        with store.locked("x", cancel):
            pass

    with ThreadPoolExecutor(1) as pool:
        with store.locked("x"):
            waiting = pool.submit(take)
            assert not waiting.done()
            cancel.set()
            with pytest.raises(Interrupted):
                waiting.result(timeout=20)
        take()  # a lock that nobody holds is taken without asking


def test_the_log_of_a_name_lies_in_the_store(store: LocalStore) -> None:
    assert store.log_path("a.log") == store.root / "logs" / "a.log"


# Users


def test_an_ordinary_user_with_a_private_umask_can_use_a_store() -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "import derive.trees.materialise\n"
        "from derive.store.local import LocalStore\n"
        "from derive.trees.pack import NewFile, add_members\n"
        "os.umask(0o077)\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "with LocalStore(Path(sys.argv[1])) as store:\n"
        "    for _ in range(2):\n"
        "        listing = add_members(store, [(b'a/b', NewFile(True, [b'x'])), (b'a/c', NewFile(False, [b'y']))])\n"
        "        folder = store.folder(store.add_listing(listing))\n"
        "        print(folder.name, oct(folder.stat().st_mode), (folder / 'a' / 'b').read_bytes())\n"
        "    print(sorted(p.name for p in (store.root / 'locks').iterdir()))\n"
    )
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o777)
        done = subprocess.run(
            [sys.executable, "-c", script, f"{home}/store"], capture_output=True, text=True, check=False, cwd="/"
        )
    assert done.stderr == ""
    first, second, locks = done.stdout.splitlines()
    assert first == second
    assert "0o40555 b'x'" in first
    assert locks == "[]"
