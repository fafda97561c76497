# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import Unavailable
from derive.store import blobs as blobs_module
from derive.store import optimise as optimising
from derive.store.local import LocalStore
from derive.store.optimise import optimise
from derive.store.protocol import read_all
from derive.store.verify import How, verify
from derive.trees.listing import File
from derive.trees.pack import NewFile, add_members
from support.folders import ODD, members_of, nix_hash
from support.stored import fetched, image, tree

TREES = How(jobs=2, trees=True)
TEXT = b"the same words again and again\n" * 400


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def reopened(store: LocalStore) -> LocalStore:
    store.__exit__(None, None, None)
    return store.__enter__()


def add(store: LocalStore, **files: bytes) -> Digest:
    members = [(name.encode(), NewFile(executable=False, chunks=[data])) for name, data in files.items()]
    return store.add_listing(add_members(store, members))


def blobs(store: LocalStore) -> set[str]:
    return {path.name for path in (store.root / "blobs" / "sha256").iterdir()}


def contents(store: LocalStore, digest: Digest) -> dict[bytes, bytes]:
    return {path: read_all(store, file) for path, file in store.listing(digest).files()}


def test_packs_are_compressed_and_every_tree_reads_as_before(store: LocalStore) -> None:
    noise = os.urandom(5000)
    one, two = add(store, a=TEXT, b=noise, c=b""), add(store, d=TEXT, e=TEXT + b"more")
    odd = store.add_listing(add_members(store, members_of(ODD)))
    before = {digest: contents(store, digest) for digest in (one, two, odd)}
    store = reopened(store)
    saved = optimise(store, jobs=2)
    assert saved.packs == 2
    assert saved.pack_bytes[1] < saved.pack_bytes[0] / 3
    assert {digest: contents(store, digest) for digest in before} == before
    assert verify(store, TREES).findings == ()
    assert nix_hash(store.folder(odd)) == odd.hex
    assert len(blobs(store)) == 3


def test_a_content_that_lies_in_two_packs_is_kept_once(store: LocalStore) -> None:
    text = os.urandom(4000)
    one, two = add(store, a=text, z=TEXT), add(store, b=text, z=TEXT)
    store = reopened(store)
    optimise(store, jobs=2)
    places = {file.at for digest in (one, two) for _, file in store.listing(digest).files()}
    assert len(places) == 2
    assert verify(store, TREES).findings == ()


def test_artifacts_layers_and_what_is_compressed_already_are_left_alone(store: LocalStore) -> None:
    deb = fetched(store, TEXT)
    image(store, "a", tree(store, TEXT + b"unpacked", deb))
    store = reopened(store)
    assert optimise(store, jobs=2).packs == 1
    assert store.has_blob(deb.digest)
    before = blobs(store)
    again = optimise(store, jobs=2)
    assert (again.packs, blobs(store)) == (0, before)
    assert verify(store, TREES).findings == ()


def test_a_pack_that_would_hardly_shrink_stays(store: LocalStore) -> None:
    add(store, a=os.urandom(9000), b=b"x" * 100)
    before = blobs(store)
    assert optimise(reopened(store), jobs=2).packs == 0
    assert blobs(store) == before


def test_a_damaged_pack_is_left_for_verify(store: LocalStore) -> None:
    add(store, a=TEXT)
    (pack,) = blobs(store)
    path = store.root / "blobs" / "sha256" / pack
    path.chmod(0o644)
    path.write_bytes(b"X" * len(TEXT))
    store = reopened(store)
    assert optimise(store, jobs=2).packs == 0
    assert blobs(store) == {pack}


def test_a_large_file_is_copied_as_it_is(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimising, "_LARGEST", 1 << 10)
    monkeypatch.setattr(optimising, "_AHEAD", 1 << 10)
    digest = add(store, a=TEXT, b=b"s" * 1000, c=b"t" * 1000, d=b"u" * 1000, e=b"v" * 1000)
    monkeypatch.setattr(optimising, "_WORTH", 0.95)
    store = reopened(store)
    assert optimise(store, jobs=2).packs == 1
    large = store.listing(digest)[b"a"]
    assert isinstance(large, File)
    assert large.at is not None
    assert large.at.method == "raw"
    assert verify(store, TREES).findings == ()


def test_nothing_is_touched_while_another_process_is_at_work(store: LocalStore) -> None:
    add(store, a=TEXT)
    store = reopened(store)
    before = blobs(store)
    with LocalStore(store.root) as other:
        other.protect([])
        other.staging.new_path()
        with pytest.raises(Unavailable, match="another process"):
            optimise(store, jobs=2)
    assert blobs(store) == before


def test_unpacked_trees_go_when_asked_and_come_back(store: LocalStore) -> None:
    digest = add(store, a=TEXT)
    folder = store.folder(digest)
    store = reopened(store)
    optimise(store, jobs=2)
    assert folder.exists()
    assert optimise(store, jobs=2, folders=True).folder_bytes == (len(TEXT), 0)
    assert not folder.exists()
    assert store.folder(digest).joinpath("a").read_bytes() == TEXT


def test_a_kill_at_any_write_leaves_every_tree_and_the_next_run_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = blobs_module.write_whole
    for fatal in range(5):
        with LocalStore(tmp_path / str(fatal)) as store:
            trees = [add(store, a=TEXT + b"%d" % turn) for turn in range(3)]
        count = 0

        def stopping(*args: object, fatal: int = fatal) -> None:
            nonlocal count
            count += 1
            if count == fatal + 1:
                raise KeyboardInterrupt
            real(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(optimising, "write_whole", stopping)
        with LocalStore(tmp_path / str(fatal)) as store:
            try:
                optimise(store, jobs=2)
            except KeyboardInterrupt:
                assert fatal < 3
        monkeypatch.setattr(optimising, "write_whole", real)
        with LocalStore(tmp_path / str(fatal)) as store:
            assert all(store.has_tree(digest) for digest in trees)
            assert verify(store, TREES).is_sound
            optimise(store, jobs=2)
            assert verify(store, TREES).is_sound
            assert sha256(TEXT + b"0").hex not in {path.hex for path in store.database.tree_blobs(trees[0])}
