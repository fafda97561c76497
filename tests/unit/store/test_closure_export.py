# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.errors import Corrupt, HostRefuses, InputErrors, Missing
from derive.store.closure_export import export_closure
from derive.store.closure_gather import Gathered, gather
from derive.store.local import LocalStore
from derive.store.reach import Level
from derive.trust.keys import SigningKey
from support.closures import fill

KEYS = [SigningKey(bytes([number]) * 32) for number in range(3)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


@pytest.fixture
def gathered(store: LocalStore) -> Gathered:
    return gather(store, [fill(store).image], Level.AUDIT)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"store"}


def test_the_same_closure_and_keys_give_the_same_bytes(store: LocalStore, gathered: Gathered, tmp_path: Path) -> None:
    first = export_closure(store, gathered, tmp_path / "first", KEYS)
    second = export_closure(store, gathered, tmp_path / "second", [*reversed(KEYS), KEYS[0]])
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    assert first == second
    assert first.size == (tmp_path / "first").stat().st_size
    assert first.signed_by == tuple(sorted(key.public.id for key in KEYS))


def test_an_existing_file_is_replaced(store: LocalStore, gathered: Gathered, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"before")
    export_closure(store, gathered, tmp_path / "x", [])
    assert (tmp_path / "x").read_bytes().startswith(b"manifest.json")
    assert files(tmp_path) == {"x"}


def test_a_damaged_blob_is_named_and_the_file_before_stays(
    store: LocalStore, gathered: Gathered, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"before")
    blob = next(blob.digest for blob in gathered.closure.blobs if blob.digest not in gathered.packs)
    path = store.blob_path(blob)
    path.chmod(0o644)
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(Corrupt, match=blob.hex):
        export_closure(store, gathered, tmp_path / "x", [])
    assert (tmp_path / "x").read_bytes() == b"before"
    assert files(tmp_path) == {"x"}


def test_a_blob_that_went_away_meanwhile_leaves_no_file(store: LocalStore, gathered: Gathered, tmp_path: Path) -> None:
    store.blob_path(gathered.closure.blobs[0].digest).unlink()
    with pytest.raises(Missing):
        export_closure(store, gathered, tmp_path / "x", [])
    assert files(tmp_path) == set()


def test_a_folder_is_no_file(store: LocalStore, gathered: Gathered, tmp_path: Path) -> None:
    with pytest.raises(InputErrors):
        export_closure(store, gathered, tmp_path, [])
    with pytest.raises(InputErrors):
        export_closure(store, gathered, tmp_path / "no" / "x", [])


def test_a_place_that_cannot_be_written_is_said(store: LocalStore, gathered: Gathered) -> None:
    with pytest.raises(HostRefuses, match="cannot write"):
        export_closure(store, gathered, Path("/proc/x.closure"), [])
