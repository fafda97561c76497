# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.build import memo
from derive.build.memo import image_is_whole, keep_recalled, memo_key, recall, remember
from derive.cache.rows import Substitution, note_substituted
from derive.canonical import Digest, sha256
from derive.images.oci import DERIVATION_LABEL
from derive.project import Project, Settings
from derive.store.history import answered
from derive.store.local import LocalStore
from derive.trust.keys import SigningKey
from derive.trust.policy import OutputRule, Policy
from support.archives import put

ROOT = Path("/project")
ANN = SigningKey(b"a" * 32).public
POLICY = Policy(keys={"ann": ANN}, threshold=1)
PROJECT = Project(
    root=ROOT,
    settings=Settings(default_image="a", build_platform="linux/amd64"),
    files={"images/a.toml": b"x"},
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def image(store: LocalStore) -> Digest:
    blobs = [put(store, data) for data in (b"config", b"layer")]
    config, layer = ({"digest": str(blob)} for blob in blobs)
    return put(store, json.dumps({"config": config, "layers": [layer]}).encode())


def test_the_key_is_of_the_content_what_was_asked_and_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    key = memo_key(PROJECT, "a", None)
    assert memo_key(replace(PROJECT, root=Path("/elsewhere")), "a", None) == key
    others = [
        memo_key(replace(PROJECT, files={"images/a.toml": b"y"}), "a", None),
        memo_key(replace(PROJECT, files={"images/b.toml": b"x"}), "a", None),
        memo_key(replace(PROJECT, settings=replace(PROJECT.settings, build_platform="linux/arm64")), "a", None),
        memo_key(PROJECT, "b", None),
        memo_key(PROJECT, "a", "linux/amd64"),
    ]
    monkeypatch.setattr(memo, "engine_digest", lambda: sha256(b"another engine"))
    others.append(memo_key(PROJECT, "a", None))
    assert len({key, *others}) == 7


def test_a_name_that_is_no_text_has_a_key() -> None:
    assert memo_key(PROJECT, "\udce9", None) != memo_key(PROJECT, "é", None)


def test_what_was_remembered_is_recalled_while_the_image_is_whole(store: LocalStore) -> None:
    key = sha256(b"key")
    assert recall(store, key, ROOT) is None
    manifest = image(store)
    store.database.set_memo(key, manifest.hex)
    assert recall(store, key, ROOT) == manifest


@pytest.mark.parametrize("lost", [b"config", b"layer", None])
def test_an_image_that_lacks_a_blob_is_not_recalled(store: LocalStore, lost: bytes | None) -> None:
    manifest = image(store)
    store.database.set_memo(sha256(b"key"), manifest.hex)
    store.blob_path(manifest if lost is None else sha256(lost)).unlink()
    assert not image_is_whole(store, manifest)
    assert recall(store, sha256(b"key"), ROOT) is None


def test_an_image_is_recalled_for_as_long_as_the_same_word_is_believed_where_anything_came_by_somebody_s(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, manifest = sha256(b"key"), image(store)
    policies = [POLICY, replace(POLICY, threshold=2), replace(POLICY, revoked=frozenset((ANN.id,))), None]
    policies.append(replace(POLICY, outputs=(OutputRule(keys=("ann",), threshold=1),)))
    monkeypatch.setattr("derive.project.load_policy", lambda _: policies[0])
    remember(store, key, ROOT, manifest)
    assert recall(store, key, ROOT) == manifest
    came = Substitution(resolved=sha256(b"resolved"), cache="team", signers={"ann": ANN.id}, came_s=1)
    note_substituted(store.database, came)
    assert recall(store, key, ROOT) is None
    remember(store, key, ROOT, manifest)
    recalled = []
    for policy in policies:
        monkeypatch.setattr("derive.project.load_policy", lambda _, policy=policy: policy)
        recalled.append(recall(store, key, ROOT))
    assert recalled == [manifest, None, None, None, None]


def test_an_image_that_is_recalled_is_what_its_name_stands_for(store: LocalStore) -> None:
    manifests = []
    for number in (b"1", b"2"):
        labels = {DERIVATION_LABEL: str(sha256(number))}
        config = {"os": "linux", "architecture": "amd64", "config": {"Labels": labels}}
        parts = {"config": {"digest": str(put(store, json.dumps(config).encode()))}, "layers": []}
        manifests.append(put(store, json.dumps(parts).encode()))
    for manifest in (manifests[0], manifests[1], manifests[0], manifests[0]):
        keep_recalled(store, "a", manifest)
    assert ("image", "a linux/amd64", manifests[0]) in store.database.roots()
    assert answered(store.database, after=0) == ((3, sha256(b"1")), (2, sha256(b"2")))
