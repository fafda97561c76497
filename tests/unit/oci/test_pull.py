# SPDX-License-Identifier: Apache-2.0
"""Pulling an image: from a real registry, through a proxy that breaks things."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, Unavailable, UpstreamGone
from derive.images.layout import export_image
from derive.images.oci import INDEX_TYPE, MANIFEST_TYPE, Descriptor
from derive.images.referrers import referrer_manifest, referrers_of
from derive.oci.pull import PULLED
from derive.store.collect import collect
from derive.store.local import LocalStore
from derive.store.reach import Level
from derive.store.repair import repair
from derive.store.usage import usage
from derive.store.verify import How, verify
from support.archives import put
from support.faults import FaultProxy
from support.oci_registry import Image, Registry, image, registry
from support.pushing import Told, pull_from, push_to, some_image, store_with

IMAGE = some_image(700_000, 20_000)
ARM64 = image(b"arm64", platform="linux/arm64", packed=False)
DIGEST = Digest.parse(IMAGE.digest)
HOW = How(jobs=1, fast=True)
CONFIG, LAYER, SMALL = (Digest.parse(digest) for digest in IMAGE.blobs)
SIZE = sum(map(len, IMAGE.blobs.values()))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry")) as running:
        running.push("b/one", "1", IMAGE, indexed=False)
        running.push("b/both", "1", IMAGE, ARM64)
        yield running


@pytest.fixture
def proxy(real: Registry) -> Iterator[FaultProxy]:
    with FaultProxy(real.host) as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def assert_whole(store: LocalStore, made: Image) -> None:
    for digest, data in {**made.blobs, made.digest: made.manifest}.items():
        assert b"".join(store.read_blob(Digest.parse(digest))) == data


# What comes, and what stays


def test_a_pulled_image_is_kept_under_a_name_and_measured(proxy: FaultProxy, tmp_path: Path) -> None:
    with LocalStore(tmp_path / "store") as store:
        done = pull_from(proxy.url, "b/one:1", store)
        put(store, b"of nobody")
    assert (sum(blob.size for blob in done.moved), done.there, done.referrers) == (SIZE, (), ())
    with LocalStore(tmp_path / "store") as store:
        assert store.database.roots() == [(PULLED, "b/one:1 linux/amd64", DIGEST)]
        assert collect(store, Level.RUN).size == len(b"of nobody")
        assert_whole(store, IMAGE)
        (used,) = usage(store).images
    assert (used.root.title, used.image) == ("pulled b/one:1@linux/amd64", SIZE + len(IMAGE.manifest))


def test_a_pulled_image_is_forgotten_by_its_name(proxy: FaultProxy, tmp_path: Path) -> None:
    with LocalStore(tmp_path / "store") as store:
        pull_from(proxy.url, f"b/one@{DIGEST}", store)
    with LocalStore(tmp_path / "store") as store:
        assert [name for _, name, _ in store.database.roots()] == [f"b/one@{DIGEST.short} linux/amd64"]
        collect(store, Level.RUN, forget=[f"pulled b/one@{DIGEST.short}"])
        assert not store.has_blob(LAYER)
        assert json.loads((store.root / "index.json").read_bytes())["manifests"] == []


def test_what_the_store_has_is_not_asked_for(proxy: FaultProxy, store: LocalStore) -> None:
    put(store, IMAGE.blobs[str(LAYER)])
    done = pull_from(proxy.url, "b/one:1", store)
    assert [blob.digest for blob in done.there] == [LAYER]
    assert proxy.count(LAYER.hex) == 0
    proxy.forget()
    pull_from(proxy.url, f"b/one@{DIGEST}", store, referrers=False)
    assert proxy.seen == []


def test_an_index_gives_the_platform_that_is_wanted(proxy: FaultProxy, store: LocalStore) -> None:
    done = pull_from(proxy.url, "b/both:1", store, "linux/arm64")
    assert str(done.image.manifest.digest) == ARM64.digest
    assert not store.has_blob(DIGEST)
    asked: list[Sequence[str]] = []

    def choose(platforms: Sequence[str]) -> str:
        asked.append(platforms)
        return platforms[0]

    assert pull_from(proxy.url, "b/both:1", store, choose=choose).image.manifest.digest == DIGEST
    assert asked == [["linux/amd64", "linux/arm64"]]


@pytest.mark.parametrize("reference", ["b/one:1", "b/both:1"])
def test_a_platform_that_is_not_there_is_told(proxy: FaultProxy, store: LocalStore, reference: str) -> None:
    with pytest.raises(UpstreamGone, match="no image for linux/riscv64"):
        pull_from(proxy.url, reference, store, "linux/riscv64")


def put_index(real: Registry, tag: str, *entries: dict[str, object]) -> None:
    """Let a tag name an index, whatever it says."""
    data = json.dumps({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries}).encode()
    real.push_manifest("b/one", tag, INDEX_TYPE, data)


@pytest.mark.parametrize("wanted", [None, "linux/arm64"])
def test_an_image_for_another_platform_than_its_index_says_is_refused(
    proxy: FaultProxy, store: LocalStore, real: Registry, wanted: str | None
) -> None:
    put_index(real, "false", {**IMAGE.entry(), "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}})
    with pytest.raises(Corrupt, match="for another platform than its index says") as caught:
        pull_from(proxy.url, "b/one:false", store, wanted)
    assert caught.value.detail[1:] == ("expected  linux/arm64", "got       linux/amd64")
    assert store.database.roots() == []
    assert not (store.root / "index.json").exists() or b"b/one" not in (store.root / "index.json").read_bytes()


def test_a_variant_that_the_config_leaves_out_is_no_contradiction(
    proxy: FaultProxy, store: LocalStore, real: Registry
) -> None:
    put_index(real, "v3", {**IMAGE.entry(), "platform": {"os": "linux", "architecture": "amd64", "variant": "v3"}})
    assert pull_from(proxy.url, "b/one:v3", store).image.platform == "linux/amd64/v3"


def test_an_index_without_an_image_is_called_empty(proxy: FaultProxy, store: LocalStore, real: Registry) -> None:
    put_index(real, "empty")
    for wanted in (None, "linux/amd64"):
        with pytest.raises(Corrupt, match="b/one:empty: an empty index"):
            pull_from(proxy.url, "b/one:empty", store, wanted)


def test_a_pulled_image_is_exported_by_its_digest(proxy: FaultProxy, store: LocalStore, tmp_path: Path) -> None:
    made = some_image(1000, seed=3)
    with store_with(tmp_path / "first", made) as first:
        push_to(proxy.url, "b/export", first, Digest.parse(made.digest), "1")
    done = pull_from(proxy.url, "b/export:1", store)
    export_image(store, done.image.manifest.digest, "export", tmp_path / "layout")
    blobs = tmp_path / "layout" / "blobs" / "sha256"
    assert {path.name for path in blobs.iterdir()} == {d.removeprefix("sha256:") for d in (made.digest, *made.blobs)}


# Faults on the way


def test_a_layer_goes_on_where_the_connection_ended(proxy: FaultProxy, store: LocalStore) -> None:
    proxy.add(f"GET .*blobs/sha256:{LAYER.hex}", "truncate", 400_000)
    pull_from(proxy.url, "b/one:1", store)
    assert_whole(store, IMAGE)
    assert proxy.got(LAYER.hex) < 700_000 + 100_000
    assert any("range" in one.headers for one in proxy.seen)


def test_a_layer_comes_although_connections_are_reset(proxy: FaultProxy, store: LocalStore) -> None:
    # A reset also takes back what had arrived and was not read yet: how far it came cannot be known.
    for at in (400_000, 100_000, 0):
        proxy.add(f"GET .*blobs/sha256:{LAYER.hex}", "reset-answer", at)
    pull_from(proxy.url, "b/one:1", store)
    assert_whole(store, IMAGE)


def test_a_layer_goes_on_in_another_run(proxy: FaultProxy, store: LocalStore) -> None:
    proxy.add(f"GET .*blobs/sha256:{LAYER.hex}", "truncate", 400_000)
    proxy.add(f"GET .*blobs/sha256:{LAYER.hex}", "status", status=503, times=3)
    with pytest.raises(Unavailable):
        pull_from(proxy.url, "b/one:1", store)
    proxy.forget()
    pull_from(proxy.url, "b/one:1", store)
    assert_whole(store, IMAGE)
    assert proxy.got(LAYER.hex) < 400_000
    assert proxy.count(SMALL.hex) == 0


def test_wrong_bytes_are_refused_and_nothing_of_them_is_kept(proxy: FaultProxy, store: LocalStore) -> None:
    proxy.add(f"GET .*blobs/sha256:{LAYER.hex}", "flip", 1000, times=9)
    with pytest.raises(Corrupt, match="serves other bytes than the manifest names"):
        pull_from(proxy.url, "b/one:1", store)
    assert not store.has_blob(LAYER)
    assert store.database.roots() == []
    proxy.forget()
    pull_from(proxy.url, "b/one:1", store)
    assert_whole(store, IMAGE)


@pytest.mark.parametrize("what", ["manifests/1", CONFIG.hex], ids=["manifest", "config"])
def test_a_document_with_a_wrong_byte_is_refused(proxy: FaultProxy, store: LocalStore, what: str) -> None:
    proxy.add(f"GET .*{what}", "flip", 5, times=9)
    with pytest.raises(Corrupt):
        pull_from(proxy.url, "b/one:1", store)


@pytest.mark.parametrize("what", ["manifests/1", "blobs", "referrers"])
def test_a_pull_survives_errors_of_the_registry(proxy: FaultProxy, store: LocalStore, what: str) -> None:
    proxy.add(f"GET .*{what}", "status", status=500)
    proxy.add(f"GET .*{what}", "status", status=429, headers={"Retry-After": "0"})
    proxy.add(f"GET .*{what}", "reset-unforwarded")
    pull_from(proxy.url, "b/one:1", store)
    assert_whole(store, IMAGE)


@pytest.mark.parametrize("kind", ["drip", "hang"])
def test_a_registry_that_is_too_slow_ends_the_pull(proxy: FaultProxy, store: LocalStore, kind: str) -> None:
    proxy.add(f"GET .*blobs/sha256:{LAYER.hex}", kind, times=99)  # type: ignore[arg-type]
    with pytest.raises(Unavailable) as caught:
        pull_from(proxy.url, "b/one:1", store)
    assert ("only" if kind == "drip" else "no answer") in caught.value.detail[0]


def test_a_manifest_whose_layer_the_registry_lost_says_so(proxy: FaultProxy, store: LocalStore) -> None:
    proxy.add(f"GET .*blobs/sha256:{SMALL.hex}", "status", status=404, times=9)
    with pytest.raises(UpstreamGone) as caught:
        pull_from(proxy.url, "b/one:1", store)
    assert str(caught.value.hint).startswith("push it again")


# Referrers


def test_what_refers_to_an_image_comes_with_it_and_stays_with_it(proxy: FaultProxy, tmp_path: Path) -> None:
    with store_with(tmp_path / "first", IMAGE, attached=[b"one", b"two"]) as first:
        push_to(proxy.url, "b/referred", first, DIGEST, "1")
        wanted = referrers_of(first, DIGEST)
    with LocalStore(tmp_path / "store") as store:
        assert pull_from(proxy.url, "b/referred:1", store).referrers == wanted
    with LocalStore(tmp_path / "store") as store:
        collect(store, Level.RUN)
        assert referrers_of(store, DIGEST) == wanted
        assert store.has_blob(sha256(b"one"))
        assert store.has_blob(sha256(b"two"))


def test_what_is_listed_and_refers_to_another_image_is_passed_over(
    proxy: FaultProxy, store: LocalStore, real: Registry
) -> None:
    subject = Descriptor(media_type=MANIFEST_TYPE, digest=sha256(b"another"), size=7)
    blob = Descriptor(media_type="application/json", digest=CONFIG, size=1)
    stray = referrer_manifest(subject, "application/vnd.example.note", blob)
    real.push_blob("b/one", str(sha256(b"{}")), b"{}")
    real.push_manifest("b/one", str(sha256(stray)), MANIFEST_TYPE, stray)
    entry = {"mediaType": MANIFEST_TYPE, "digest": str(sha256(stray)), "size": len(stray)}
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]}).encode()
    real.push_manifest("b/one", f"sha256-{DIGEST.hex}", INDEX_TYPE, index)
    told = Told()
    assert pull_from(proxy.url, "b/one:1", store, told=told).referrers == ()
    assert told.notes == [f"b/one@{sha256(stray)} does not refer to this image: passed over"]


def test_repair_names_a_pulled_image_again_and_the_command_that_brings_back_what_it_lost(
    proxy: FaultProxy, tmp_path: Path
) -> None:
    def bring(digest: Digest, name: str, request: object) -> None:
        raise Unavailable(f"{name} {digest} {request}")

    def mended(store: LocalStore) -> list[str]:
        return [one.done for one in repair(store, verify(store, HOW).findings, bring)]

    with LocalStore(tmp_path / "store") as store:
        pull_from(proxy.url, "b/one:1", store)
        named = (store.root / "index.json").read_bytes()
        (store.root / "index.json").write_text("{")
        assert mended(store) == ["written again: 1 names from the table of roots"]
        assert (store.root / "index.json").read_bytes() == named
        store.blob_path(SMALL).unlink()
        assert mended(store) == [f"not mended: derive pull b/one@{DIGEST}"]
        pull_from(proxy.url, f"b/one@{DIGEST}", store)
        assert mended(store) == []
