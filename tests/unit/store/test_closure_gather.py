# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.derivations.model import Derivation
from derive.errors import InputErrors, Missing
from derive.store.closure_gather import Gathered, gather
from derive.store.database import Database
from derive.store.local import LocalStore
from derive.store.reach import Level
from support.closures import ARTIFACT, Filled, fill


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def manifest(store: LocalStore, target: Derivation | Digest, level: Level = Level.REBUILD) -> bytes:
    return gather(store, [target], level).closure.encoded()


@pytest.mark.parametrize("level", Level)
def test_a_derivation_of_a_project_and_its_id_give_the_same_closure(store: LocalStore, level: Level) -> None:
    image = fill(store).image
    assert manifest(store, image, level) == manifest(store, image.id, level)


@pytest.mark.parametrize("level", [Level.RUN, Level.REBUILD])
def test_the_same_closure_in_another_store_gives_the_same_manifest(
    store: LocalStore, tmp_path: Path, level: Level
) -> None:
    first = manifest(store, fill(store).image, level)
    with LocalStore(tmp_path / "a b" / "other") as other:
        fill(other, made=b"something that was made before\n")
        assert manifest(other, fill(other, order=True).image, level) != b""
    with LocalStore(tmp_path / "third") as third:
        assert manifest(third, fill(third, order=True).image, level) == first


def test_an_audit_differs_in_its_histories_alone(store: LocalStore, tmp_path: Path) -> None:
    first = gather(store, [fill(store).image], Level.AUDIT).closure
    with LocalStore(tmp_path / "other") as other:
        filled = fill(other, order=True)
        with other.database.cursor() as cursor:
            cursor.execute("UPDATE realisations SET duration_ns = 7, built_s = 8, engine = 'other'")
        second = gather(other, [filled.image], Level.AUDIT).closure
    assert first.histories != second.histories
    assert (first.steps, first.trees, first.blobs) == (second.steps, second.trees, second.blobs)


def test_a_run_of_an_image_holds_manifest_config_and_layers_alone(store: LocalStore) -> None:
    filled = fill(store)
    found = gather(store, [filled.image], Level.RUN).closure
    config = filled.outputs[filled.image.id]["config"].digest
    assert {blob.digest for blob in found.blobs} == {filled.out(filled.image), filled.out(filled.layer), config}
    assert found.trees == ()


def test_a_run_of_a_tree_holds_what_is_in_it(store: LocalStore) -> None:
    filled = fill(store)
    found = gather(store, [filled.script], Level.RUN)
    assert [tree.digest for tree in found.closure.trees] == [filled.out(filled.script)]
    assert [blob.digest for blob in found.closure.blobs] == list(found.packs)


def test_contents_that_lie_in_something_fetched_are_not_held_twice(store: LocalStore) -> None:
    found = gather(store, [fill(store).image], Level.AUDIT)
    assert sha256(ARTIFACT) in {blob.digest for blob in found.closure.blobs}
    assert sum(pack.blob.size for pack in found.packs.values()) == len(b"#!shell\n" + b"made by the script\n")


def test_logs_and_histories_are_for_an_audit(store: LocalStore) -> None:
    filled = fill(store)
    audit = gather(store, [filled.image], Level.AUDIT)
    assert len(audit.closure.histories) == len(audit.logs) == 6
    assert audit.logs[filled.script.id] == b"log of hello\n"
    rebuild = gather(store, [filled.image], Level.REBUILD)
    assert (rebuild.closure.histories, rebuild.logs) == ((), {})


def test_a_log_that_is_gone_is_no_failure(store: LocalStore) -> None:
    filled = fill(store)
    store.log_path(f"{filled.script.id.hex}.log").unlink()
    found = gather(store, [filled.image], Level.AUDIT)
    assert filled.script.id not in found.logs
    assert [history.log for history in found.closure.histories].count(None) == 1


def test_several_targets_are_one_closure(store: LocalStore) -> None:
    filled = fill(store)
    found = gather(store, [filled.script, filled.tools.id, filled.script.id], Level.RUN).closure
    assert set(found.targets) == {filled.script.id, filled.tools.id}


def test_a_step_that_the_store_knows_under_another_id_alone_is_found(store: LocalStore) -> None:
    filled = fill(store)
    with store.database.cursor() as cursor:
        cursor.execute("DELETE FROM derivations WHERE id = ?", (filled.script.id.hex,))
    found = gather(store, [filled.image], Level.AUDIT).closure
    assert filled.script.id in {step.id for step in found.steps}


def missing(store: LocalStore, filled: Filled, level: Level) -> tuple[str, ...]:
    with pytest.raises(Missing) as caught:
        gather(store, [filled.image], level)
    return caught.value.detail


def test_what_is_gone_is_named_all_at_once(store: LocalStore) -> None:
    filled = fill(store)
    store.blob_path(filled.out(filled.fetch)).unlink()
    (store.root / "listings" / f"{filled.out(filled.tools).hex}.json").unlink()
    gone = ("missing   demo, whose output is gone", "missing   tools, whose output is gone")
    assert missing(store, filled, Level.REBUILD) == gone
    gather(store, [filled.image], Level.RUN)


def test_a_layer_that_is_gone_is_named(store: LocalStore) -> None:
    filled = fill(store)
    layer = filled.out(filled.layer)
    store.blob_path(layer).unlink()
    assert missing(store, filled, Level.RUN) == (f"missing   probe, of which the blob {layer.short} is gone",)


def test_what_was_never_built_is_named(store: LocalStore, tmp_path: Path) -> None:
    with LocalStore(tmp_path / "other") as other:
        filled = fill(other)
    assert missing(store, filled, Level.RUN) == ("missing   probe, which was not built here",)
    with pytest.raises(InputErrors):
        gather(store, [filled.image.id], Level.RUN)


def test_gathering_changes_nothing(store: LocalStore) -> None:
    filled = fill(store)
    kept = ("blobs", "listings", "logs", "trees")
    before = [sorted((store.root / name).rglob("*")) for name in kept]
    gather(store, [filled.image], Level.AUDIT)
    assert [sorted((store.root / name).rglob("*")) for name in kept] == before


def test_a_lost_database_is_no_reason_to_guess(store: LocalStore, tmp_path: Path) -> None:
    filled = fill(store)
    store.database.close()
    shutil.move(store.root / "derive.sqlite", tmp_path)
    for suffix in ("-wal", "-shm"):
        (store.root / f"derive.sqlite{suffix}").unlink(missing_ok=True)
    store.database = Database(store.root / "derive.sqlite")
    assert missing(store, filled, Level.RUN) == ("missing   probe, which was not built here",)


def test_a_gathered_closure_says_what_it_is_about(store: LocalStore) -> None:
    found: Gathered = gather(store, [fill(store).image], Level.REBUILD)
    (subject,) = found.statement.subjects
    assert (subject.name, subject.digest) == ("manifest.json", sha256(found.closure.encoded()))
