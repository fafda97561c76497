# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.derivations.model import FlatOutput, TreeOutput
from derive.errors import CheckFailed, Corrupt, HostRefuses
from derive.store.closure import Sized
from derive.store.closure_export import export_closure
from derive.store.closure_gather import Gathered, gather
from derive.store.closure_import import Imported, import_closure
from derive.store.closure_read import open_closure
from derive.store.collect import collect
from derive.store.history import sources_of
from derive.store.local import LocalStore
from derive.store.reach import Level
from derive.trust.statement import Statement, Subject
from support.closures import ARTIFACT, Filled, fill
from support.store_check import check_store, realised


class Files:
    """A store that is filled, and closure files of it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        with LocalStore(top / "origin") as store:
            self.filled: Filled = fill(store)
            self.gathered = {level: gather(store, [self.filled.image], level) for level in Level}
            self.tree = gather(store, [self.filled.script], Level.AUDIT)
            for level, gathered in self.gathered.items():
                export_closure(store, gathered, top / level.value, [])
            export_closure(store, self.tree, top / "tree", [])

    def changed(self, name: str, change: Callable[[Gathered], Gathered]) -> Path:
        """Write what was gathered for an audit, changed and put together again as an exporter would."""
        found = change(self.gathered[Level.AUDIT])
        subject = Subject(name="manifest.json", digest=sha256(found.closure.encoded()))
        found = replace(found, statement=Statement.of([subject], found.statement.claims))
        with LocalStore(self.top / "origin") as store:
            export_closure(store, found, self.top / name, [])
        return self.top / name


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("import"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def bring(store: LocalStore, path: Path) -> Imported:
    with open_closure(path) as file:
        return import_closure(store, file)


@pytest.mark.parametrize("level", Level)
def test_what_comes_in_goes_out_again_byte_for_byte(
    files: Files, store: LocalStore, tmp_path: Path, level: Level
) -> None:
    bring(store, files.top / level.value)
    again = gather(store, [files.filled.image], level)
    export_closure(store, again, tmp_path / "again", [])
    assert (tmp_path / "again").read_bytes() == (files.top / level.value).read_bytes()


@pytest.mark.parametrize("level", Level)
def test_the_store_is_sound_afterwards(files: Files, tmp_path: Path, level: Level) -> None:
    with LocalStore(tmp_path / "store") as store:
        done = bring(store, files.top / level.value)
    check_store(tmp_path / "store")
    assert realised(tmp_path / "store") == done.realisations == {"run": 1, "rebuild": 3, "audit": 6}[level.value]


def test_importing_again_changes_nothing(files: Files, store: LocalStore) -> None:
    first = bring(store, files.top / "audit")
    second = bring(store, files.top / "audit")
    assert (first.known_blobs, first.known_trees) == (0, 0)
    assert (second.blobs, second.trees, second.realisations, second.size) == (0, 0, 0, 0)
    assert second.targets == first.targets


def test_a_larger_closure_adds_what_the_smaller_one_left_out(files: Files, store: LocalStore) -> None:
    bring(store, files.top / "run")
    done = bring(store, files.top / "audit")
    assert (done.known_blobs, done.realisations) == (3, 5)


def test_the_store_that_it_came_from_needs_nothing_of_it(files: Files) -> None:
    with LocalStore(files.top / "origin") as store:
        done = bring(store, files.top / "audit")
        assert (done.blobs, done.trees, done.realisations) == (0, 0, 0)


def test_packs_of_trees_that_lie_elsewhere_in_the_store_are_left_out(files: Files, store: LocalStore) -> None:
    fill(store, order=True)
    assert bring(store, files.top / "audit").blobs == 0


def test_how_things_were_built_comes_with_an_audit_alone(files: Files, store: LocalStore, tmp_path: Path) -> None:
    bring(store, files.top / "audit")
    script = files.filled.script
    row = store.database.realisation(store.database.resolved_ids([script.id])[script.id])
    assert row is not None
    assert (row.engine, row.duration_ns, row.built_s) == ("e" * 64, 1_000_003, 1_700_000_003)
    assert store.log_path(row.log).read_text() == "log of hello\n"
    with LocalStore(tmp_path / "other") as other:
        bring(other, files.top / "rebuild")
        image = files.filled.image
        row = other.database.realisation(other.database.resolved_ids([image.id])[image.id])
        assert row is not None
        assert (row.engine, row.host, row.duration_ns, row.log) == ("", "", 0, "")
        assert list((other.root / "logs").iterdir()) == []


def test_where_a_fetched_artifact_came_from_is_the_file(files: Files, store: LocalStore) -> None:
    bring(store, files.top / "rebuild")
    (source,) = sources_of(store.database, [sha256(ARTIFACT)])
    assert source.place == str(files.top / "rebuild")


def names(store: LocalStore) -> dict[str, str]:
    manifests = json.loads((store.root / "index.json").read_bytes())["manifests"]
    return {one["annotations"]["org.opencontainers.image.ref.name"]: one["digest"] for one in manifests}


def test_an_image_becomes_a_root_with_a_name(files: Files, store: LocalStore) -> None:
    bring(store, files.top / "run")
    manifest = files.filled.out(files.filled.image)
    assert store.database.roots() == [("image", "probe linux/amd64", manifest)]
    assert names(store) == {"probe-amd64": str(manifest)}


def test_an_image_of_that_name_that_is_there_stays_what_it_is(files: Files, store: LocalStore) -> None:
    mine = fill(store, made=b"mine\n")
    own = mine.out(mine.image)
    store.database.set_root("image", "probe linux/amd64", own)
    store.tag("probe-amd64", own, store.blob_size(own), "application/vnd.oci.image.manifest.v1+json")
    # The documents are the same, and one gave something else here: with that out of the way, both are held.
    with store.database.cursor() as cursor:
        cursor.execute("DELETE FROM realisations")
        cursor.execute("DELETE FROM derivations")
    bring(store, files.top / "run")
    manifest = files.filled.out(files.filled.image)
    assert ("image", "probe linux/amd64", own) in store.database.roots()
    assert ("import", "probe linux/amd64", manifest) in store.database.roots()
    assert names(store) == {"probe-amd64": str(own)}


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("name", ["rebuild", "tree"])
def test_a_collection_keeps_what_was_imported(files: Files, tmp_path: Path, level: Level, name: str) -> None:
    with LocalStore(tmp_path / "store") as store:
        bring(store, files.top / name)
    with LocalStore(tmp_path / "store") as store:
        collect(store, level)
        target = files.filled.image if name == "rebuild" else files.filled.script
        gather(store, [target], Level.RUN)
        if level is not Level.RUN:
            gather(store, [target], Level.REBUILD)


def test_what_this_store_built_otherwise_is_told_and_nothing_changes(files: Files, store: LocalStore) -> None:
    mine = fill(store, made=b"mine\n")
    before = store.database.roots(), store.database.resolved_ids(step.id for step in mine.steps)
    with pytest.raises(CheckFailed) as caught:
        bring(store, files.top / "audit")
    assert any(line.startswith("here      hello: out nar:") for line in caught.value.detail)
    assert (store.database.roots(), store.database.resolved_ids(step.id for step in mine.steps)) == before
    assert mine.out(mine.image) == fill(store, made=b"mine\n").out(mine.image)


def test_what_this_store_built_otherwise_and_lost_is_replaced(files: Files, tmp_path: Path) -> None:
    with LocalStore(tmp_path / "store") as store:
        mine = fill(store, made=b"mine\n")
        for name in ("script", "layer", "image"):
            one = mine.outputs[getattr(mine, name).id]["out"]
            path = store.root / "listings" / f"{one.digest.hex}.json"
            (path if isinstance(one, TreeOutput) else store.blob_path(one.digest)).unlink()
        bring(store, files.top / "audit")
        gather(store, [files.filled.image], Level.AUDIT)


def test_a_person_s_name_for_a_derivation_stays(files: Files, store: LocalStore) -> None:
    bring(store, files.top / "rebuild")
    with store.database.cursor() as cursor:
        cursor.execute("UPDATE derivations SET name = 'mine'")
    bring(store, files.top / "audit")
    assert {row[0] for row in store.database.find_derivations(files.filled.image.id.hex)} == {"mine"}


# Files that are put together wrongly


def test_an_altered_blob_is_named_what_came_before_it_stays_and_nothing_is_known(
    files: Files, store: LocalStore, tmp_path: Path
) -> None:
    data = bytearray((files.top / "audit").read_bytes())
    with open_closure(files.top / "audit") as file:
        last = file.members[-1]
    data[last.offset] ^= 1
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(Corrupt, match=last.contents.digest.hex):
        bring(store, tmp_path / "x")
    assert realised(store.root) == 0
    assert store.database.roots() == []
    assert not store.has_blob(last.contents.digest)
    assert bring(store, files.top / "audit").blobs == 1


def test_a_listing_that_is_not_of_its_tree_makes_nothing_known(files: Files, store: LocalStore) -> None:
    filled = files.filled

    def swapped(found: Gathered) -> Gathered:
        tools, script = filled.out(filled.tools), filled.out(filled.script)
        listings = {**found.listings, tools: found.listings[script]}
        trees = tuple(
            replace(tree, listing=Sized(digest=sha256(listings[tree.digest]), size=len(listings[tree.digest])))
            for tree in found.closure.trees
        )
        return replace(found, listings=listings, closure=replace(found.closure, trees=trees))

    with pytest.raises(Corrupt, match="a tree is not what its name says"):
        bring(store, files.changed("swapped", swapped))
    assert realised(store.root) == 0
    assert not store.has_tree(filled.out(filled.tools))


def test_an_image_whose_layer_is_not_in_the_file_is_refused(files: Files, store: LocalStore) -> None:
    layer = files.filled.out(files.filled.layer)

    def without(found: Gathered) -> Gathered:
        blobs = tuple(blob for blob in found.closure.blobs if blob.digest != layer)
        return replace(found, closure=replace(found.closure, blobs=blobs))

    gathered = files.gathered[Level.RUN]
    with LocalStore(files.top / "origin") as origin:
        found = without(gathered)
        subject = Subject(name="manifest.json", digest=sha256(found.closure.encoded()))
        found = replace(found, statement=Statement.of([subject], found.statement.claims))
        export_closure(origin, found, files.top / "layerless", [])
    with pytest.raises(Corrupt, match="not whole"):
        bring(store, files.top / "layerless")
    assert realised(store.root) == 0
    assert store.database.roots() == []


def test_a_manifest_that_is_no_manifest_is_refused(files: Files, store: LocalStore) -> None:
    filled = files.filled
    config = filled.outputs[filled.image.id]["config"]
    assert isinstance(config, FlatOutput)

    def other(found: Gathered) -> Gathered:
        claims = [
            replace(one, outputs={**one.outputs, "out": config}) if "config" in one.outputs else one
            for one in found.statement.claims
        ]
        return replace(found, statement=Statement.of(found.statement.subjects, claims))

    with pytest.raises(Corrupt):
        bring(store, files.changed("other", other))
    assert realised(store.root) == 0


def test_a_store_without_room_is_said_before_anything_is_written(
    files: Files, store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        f_blocks, f_bavail, f_frsize = 1, 1, 1

    monkeypatch.setattr("os.statvfs", lambda _: Full)
    with pytest.raises(HostRefuses, match="no space left"):
        bring(store, files.top / "audit")
    assert list((store.root / "blobs" / "sha256").iterdir()) == []
