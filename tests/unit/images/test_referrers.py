# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, Missing, Unavailable
from derive.images.oci import Descriptor
from derive.images.referrers import (
    attach,
    broken_referrers,
    forget,
    read_referrer,
    referrer_manifest,
    referrers_of,
    remember,
)
from derive.store.collect import collect
from derive.store.findings import Kind
from derive.store.local import LocalStore
from derive.store.reach import Level
from derive.store.repair import repair
from derive.store.verify import How, verify
from support.stored import add_blob, fetched, image, tree

TYPE = "application/vnd.dsse.envelope.v1+json"
MEDIA_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def an_image(store: LocalStore, name: str = "a") -> Digest:
    return image(store, name, tree(store, name.encode(), fetched(store, name.encode()))).output.digest


def reopened(store: LocalStore) -> LocalStore:
    """Return the store as another process sees it that just came: without a lease on what was written."""
    store.__exit__(None, None, None)
    return store.__enter__()


def document(store: LocalStore, digest: Digest) -> Any:
    return json.loads(b"".join(store.read_blob(digest)))


def check_descriptor(store: LocalStore, found: Any) -> None:
    """Check what the image specification says of descriptors, and that the blob is there."""
    assert found.keys() >= {"mediaType", "digest", "size"}
    assert MEDIA_TYPE.fullmatch(found["mediaType"])
    assert store.blob_size(Digest.parse(found["digest"])) == found["size"]


def test_a_manifest_is_as_the_image_specification_says_of_artifacts(store: LocalStore) -> None:
    about = an_image(store)
    found = document(store, attach(store, about, TYPE, b"envelope", {"in-toto.io/predicate-type": "x"}))
    assert found["schemaVersion"] == 2
    assert found["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    assert MEDIA_TYPE.fullmatch(found["artifactType"]), "it must stand there where the config is empty"
    assert found["config"] == {
        "mediaType": "application/vnd.oci.empty.v1+json",
        "digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
        "size": 2,
    }
    assert len(found["layers"]) == 1
    assert found["subject"]["digest"] == str(about)
    for one in (found["config"], found["subject"], *found["layers"]):
        check_descriptor(store, one)
    assert all(isinstance(value, str) for value in found["annotations"].values())


def test_the_same_document_is_attached_once(store: LocalStore) -> None:
    about = an_image(store)
    first = attach(store, about, TYPE, b"envelope", {})
    assert attach(store, about, TYPE, b"envelope", {}) == first
    assert referrers_of(store, about) == (first,)


def test_what_refers_to_one_image_is_not_what_refers_to_another(store: LocalStore) -> None:
    one, two = an_image(store, "a"), an_image(store, "b")
    attached = attach(store, one, TYPE, b"envelope", {})
    assert (referrers_of(store, one), referrers_of(store, two)) == ((attached,), ())


def test_what_came_from_a_registry_is_remembered_when_its_blobs_are_here(store: LocalStore) -> None:
    about = an_image(store)
    config, blob = add_blob(store, b"{}"), add_blob(store, b"data")
    manifest = {
        "schemaVersion": 2,
        "config": {"mediaType": "application/x.thing", "digest": str(config), "size": 2},
        "layers": [{"mediaType": "text/plain", "digest": str(blob), "size": 4}],
        "subject": {"mediaType": "x/y", "digest": str(about), "size": 1},
    }
    digest = add_blob(store, json.dumps(manifest).encode())
    remember(store, about, digest)
    assert referrers_of(store, about) == (digest,)
    assert read_referrer(b"".join(store.read_blob(digest))).artifact_type == "application/x.thing"


def test_what_is_about_another_image_or_about_none_is_not_remembered(store: LocalStore) -> None:
    about, other = an_image(store, "a"), an_image(store, "b")
    attached = attach(store, other, TYPE, b"envelope", {})
    with pytest.raises(Corrupt, match="not about the image"):
        remember(store, about, attached)
    with pytest.raises(Corrupt, match="refers to an image"):
        remember(store, about, other)
    with pytest.raises(Missing):
        remember(store, about, sha256(b"nowhere"))
    assert referrers_of(store, about) == ()


def test_nothing_is_attached_to_an_image_that_is_not_here(store: LocalStore) -> None:
    with pytest.raises(Missing):
        attach(store, sha256(b"nowhere"), TYPE, b"envelope", {})


@pytest.mark.parametrize("level", list(Level))
def test_a_collection_keeps_it_with_its_image(store: LocalStore, level: Level) -> None:
    about = an_image(store)
    attached = attach(store, about, TYPE, b"envelope", {})
    store = reopened(store)
    collect(store, level)
    assert referrers_of(store, about) == (attached,)
    assert b"".join(store.read_blob(sha256(b"envelope"))) == b"envelope"


def test_it_goes_with_its_image(store: LocalStore) -> None:
    about = an_image(store)
    attached = attach(store, about, TYPE, b"envelope", {})
    store = reopened(store)
    collect(store, Level.RUN, forget=["a"])
    assert not store.has_blob(attached)
    assert not store.has_blob(sha256(b"envelope"))
    assert store.database.referrers() == {}


def test_one_that_is_forgotten_goes_though_the_image_stays(store: LocalStore) -> None:
    about = an_image(store)
    one, two = (attach(store, about, TYPE, data, {}) for data in (b"one", b"two"))
    forget(store, about, one)
    forget(store, about, sha256(b"never known"))
    store = reopened(store)
    collect(store, Level.RUN)
    assert (store.has_blob(one), referrers_of(store, about)) == (False, (two,))


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("part", ["manifest", "config", "envelope"])
def test_one_of_which_a_part_is_gone_counts_no_more_and_a_check_of_the_store_tells_of_which_image(
    store: LocalStore, part: str, fast: bool
) -> None:
    about = an_image(store)
    attached = attach(store, about, TYPE, b"envelope", {})
    gone = {"manifest": attached, "config": sha256(b"{}"), "envelope": sha256(b"envelope")}[part]
    store = reopened(store)
    store.blob_path(gone).unlink()
    assert referrers_of(store, about) == ()
    (broken,) = broken_referrers(store, about)
    assert (broken.manifest, str(gone) in broken.what) == (attached, True)
    found = verify(store, How(jobs=1, fast=fast))
    assert not found.is_sound
    (finding,) = (one for one in found.findings if one.is_damage)
    assert (finding.kind, finding.digest) == (Kind.REFERRER, attached)
    assert finding.what.startswith("it refers to a@linux/amd64: ")
    assert part == "manifest" or gone.short in finding.what


def test_a_manifest_that_is_damaged_is_said_to_be(store: LocalStore) -> None:
    about = an_image(store)
    attached = attach(store, about, TYPE, b"envelope", {})
    path = store.blob_path(attached)
    path.chmod(0o600)
    path.write_bytes(b"[" * 100_000)
    (broken,) = broken_referrers(store, about)
    assert broken.what == f"its manifest: the bytes of blob {attached.short} no longer have its digest"


def test_an_envelope_whose_manifest_is_gone_is_no_mere_orphan(store: LocalStore) -> None:
    about = an_image(store)
    said = json.dumps({"subject": [{"name": "a", "digest": {"sha256": about.hex}}]}).encode()
    envelope = b'{"payload":"%s","payloadType":"x","signatures":[]}' % base64.b64encode(said)
    attached = attach(store, about, TYPE, envelope, {})
    stranger = add_blob(store, b'{"payload":"no')
    store = reopened(store)
    store.blob_path(attached).unlink()
    found = {one.name: one.what for one in verify(store, How(jobs=1, fast=True)).findings if one.kind is Kind.ORPHAN}
    assert found[sha256(envelope).hex].startswith("an attestation of a@linux/amd64, whose manifest is gone")
    assert found[stranger.hex].startswith("nothing names it")


@pytest.mark.parametrize("is_served", [True, False])
def test_a_repair_brings_back_what_is_gone_of_one_or_forgets_it(store: LocalStore, is_served: bool) -> None:
    about = an_image(store)
    attached = attach(store, about, TYPE, b"envelope", {})
    saved = {one: b"".join(store.read_blob(one)) for one in (attached, sha256(b"envelope"))}
    store = reopened(store)
    for one in saved:
        store.blob_path(one).unlink()

    def bring(digest: Digest, name: str, request: object) -> None:
        if not is_served:
            raise Unavailable(f"{name} {request}")
        add_blob(store, saved[digest])

    found = [one for one in verify(store, How(jobs=1, fast=True)).findings if one.is_damage]
    (done,) = repair(store, found, bring)
    assert done.done.startswith("whole again" if is_served else "forgotten: attest the image again")
    assert [one for one in verify(store, How(jobs=1, fast=True)).findings if one.is_damage] == []
    assert referrers_of(store, about) == ((attached,) if is_served else ())


def test_a_check_of_the_store_knows_what_it_is(store: LocalStore) -> None:
    attach(store, an_image(store), TYPE, b"envelope", {})
    store = reopened(store)
    assert verify(store, How(jobs=1)).findings == ()


def test_the_bytes_are_a_function_of_what_they_say() -> None:
    one = Descriptor(media_type="a/b", digest=sha256(b"one"), size=3)
    two = Descriptor(media_type="c/d", digest=sha256(b"two"), size=4)
    found = referrer_manifest(one, "e/f", two, {"z": "1", "a": "2"})
    assert found == referrer_manifest(one, "e/f", two, {"a": "2", "z": "1"})
    read = read_referrer(found)
    assert (read.subject, read.artifact_type, read.blobs) == (one, "e/f", (two,))
    assert read.annotations == {"a": "2", "z": "1"}
