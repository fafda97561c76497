# SPDX-License-Identifier: Apache-2.0
"""An engine's source comes from the running engine, else by its tree digest from an archive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.build.builders.table import BUILDERS
from derive.build.fetching import StoreFetch
from derive.canonical import Digest, sha256
from derive.derivations.model import Derivation, Output, TreeOutput, resolve
from derive.engine.model import fetch_source, members, source_of
from derive.engine.source import engine_files
from derive.errors import Corrupt, UpstreamGone
from derive.net.places import ArchiveFolder, FixedMirrors
from derive.store.local import LocalStore
from derive.store.memory import MemoryStore
from derive.trees.nar import serialise
from derive.trees.pack import add_members

OLD = {"__init__.py": b'__version__ = "0.0.1"\n', "cli/main.py": b"print()\n"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as opened:
        yield opened


def fetch(store: LocalStore, derivation: Derivation, *archives: Path) -> Output:
    places = tuple(ArchiveFolder(path=str(path)) for path in archives)
    with StoreFetch(offline=True, mirrors=FixedMirrors(archive_places=places)) as fetching:
        assert derivation.builder in BUILDERS
        return fetching.upstream(resolve(derivation, {}), store, ())["out"]


def keep_nar(folder: Path, name: Digest | None = None) -> None:
    memory = MemoryStore()
    listing = add_members(memory, members(OLD))
    nar = b"".join(serialise(listing, lambda _, file: memory.read(file)))
    target = folder / "blobs" / "sha256" / (name or sha256(nar)).hex
    target.parent.mkdir(parents=True)
    target.write_bytes(nar)


def test_the_running_engine_s_source_needs_no_archive(store: LocalStore) -> None:
    source = source_of(engine_files())
    assert fetch(store, fetch_source(source)) == TreeOutput(source.nar)
    assert len(list(store.listing(source.nar).files())) == len(engine_files())


def test_another_engine_s_source_is_read_from_the_archive_that_keeps_its_nar(store: LocalStore, tmp_path: Path) -> None:
    keep_nar(tmp_path / "capsule")
    source = source_of(OLD)
    assert fetch(store, fetch_source(source), tmp_path / "capsule") == TreeOutput(source.nar)
    listing = store.listing(source.nar)
    assert {path.decode(): b"".join(store.read(file)) for path, file in listing.files()} == OLD


def test_a_source_that_is_in_the_store_is_not_asked_for(store: LocalStore) -> None:
    store.add_listing(add_members(store, members(OLD)))
    assert fetch(store, fetch_source(source_of(OLD))) == TreeOutput(source_of(OLD).nar)


def test_a_source_that_is_nowhere_is_gone_with_a_next_step(store: LocalStore) -> None:
    with pytest.raises(UpstreamGone) as caught:
        fetch(store, fetch_source(source_of(OLD)))
    assert "derive 0.0.1" in caught.value.message
    assert any(source_of(OLD).nar.hex in line for line in caught.value.detail)
    assert "capsule" in (caught.value.hint or "")


def test_an_archive_with_other_bytes_under_the_name_is_found_out(store: LocalStore, tmp_path: Path) -> None:
    other = source_of({**OLD, "more.py": b""})
    keep_nar(tmp_path / "capsule", other.nar)
    with pytest.raises(Corrupt):
        fetch(store, fetch_source(other), tmp_path / "capsule")
    assert not store.has_tree(other.nar)


def test_offline_a_source_counts_as_at_hand_where_it_is(store: LocalStore, tmp_path: Path) -> None:
    keep_nar(tmp_path / "capsule")
    own, old = fetch_source(source_of(engine_files())), fetch_source(source_of(OLD))
    with StoreFetch(offline=True, mirrors=FixedMirrors()) as fetching:
        assert fetching.not_archived(store, [own, old]) == (old,)
    places = (ArchiveFolder(path=str(tmp_path / "capsule")),)
    with StoreFetch(offline=True, mirrors=FixedMirrors(archive_places=places)) as fetching:
        assert fetching.not_archived(store, [own, old]) == ()
    store.add_listing(add_members(store, members(OLD)))
    with StoreFetch(offline=True, mirrors=FixedMirrors()) as fetching:
        assert fetching.not_archived(store, [own, old]) == ()
