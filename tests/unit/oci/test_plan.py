# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from derive.canonical import Digest, sha256
from derive.errors import Corrupt
from derive.images.oci import CONFIG_TYPE, INDEX_TYPE, MANIFEST_TYPE, Descriptor
from derive.oci.listing import Listed, parse_listing, with_listed
from derive.oci.plan import PushPlan, already_there, image_document
from support.pushing import some_image

MADE = some_image(30, 20, 30)
IMAGE = image_document(MADE.manifest, where="it")


def named(text: str, size: int = 5) -> Listed:
    manifest = Descriptor(media_type=MANIFEST_TYPE, digest=sha256(text.encode()), size=size)
    return Listed(manifest=manifest, artifact_type="application/vnd.example.note", annotations={"a": text})


def test_a_plan_has_each_blob_once_and_sends_the_largest_first() -> None:
    twice = json.loads(MADE.manifest)
    twice["layers"].append(twice["layers"][0])
    document = image_document(json.dumps(twice).encode(), where="it")
    assert document.blobs == IMAGE.blobs
    plan = PushPlan(image=document, referrers=(IMAGE,), there=frozenset())
    assert len(plan.blobs) == 4
    assert [blob.size for blob in plan.missing] == sorted((blob.size for blob in plan.blobs), reverse=True)


def test_what_is_there_counts_apart() -> None:
    first, second, *_ = IMAGE.blobs
    plan = PushPlan(image=IMAGE, referrers=(), there=frozenset((second.digest,)))
    assert second not in plan.missing
    assert (plan.there_bytes, plan.missing_bytes + plan.there_bytes) == (30, sum(b.size for b in IMAGE.blobs))
    body = plan.body()
    assert body["blobs"][:2] == [  # type: ignore[index]
        {"digest": str(first.digest), "size_bytes": first.size, "action": "upload"},
        {"digest": str(second.digest), "size_bytes": 30, "action": "there"},
    ]
    assert body["digest"] == MADE.digest


def test_a_blob_is_there_when_its_size_is_right_or_not_stated() -> None:
    first, second, third, fourth = IMAGE.blobs
    sizes = {first.digest: first.size, second.digest: None, third.digest: third.size + 1}
    assert already_there(IMAGE.blobs, sizes) == {first.digest, second.digest}
    assert fourth.digest not in sizes


def test_an_index_is_no_image_to_push() -> None:
    data = json.dumps({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": []}).encode()
    with pytest.raises(Corrupt, match="an index of several images"):
        image_document(data, where="it")


def test_a_listing_grows_by_what_it_lacks_and_keeps_what_others_wrote() -> None:
    first = with_listed(None, [named("b"), named("a")], where="it")
    assert first is not None
    other = json.loads(first)
    other["annotations"] = {"kept": "yes"}
    other["manifests"].insert(0, {"mediaType": CONFIG_TYPE, "digest": "md5:0", "strange": 0.5})
    again = with_listed(json.dumps(other).encode(), [named("c"), named("a")], where="it")
    assert again is not None
    document = json.loads(again)
    assert document["manifests"][:-1] == other["manifests"]
    assert document["annotations"] == {"kept": "yes"}
    assert {one.digest for one in parse_listing(again, where="it")} == {sha256(t) for t in (b"a", b"b", b"c")}
    assert with_listed(again, [named("b")], where="it") is None


def test_the_order_in_which_things_are_listed_does_not_matter() -> None:
    things = [named(text) for text in "abc"]
    assert with_listed(None, things, where="it") == with_listed(None, reversed(things), where="it")


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"manifests": 1}', b"\xff", b"[" * 100_000])
def test_what_is_no_listing_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt):
        parse_listing(data, where="it")
    with pytest.raises(Corrupt):
        with_listed(data, [], where="it")


def test_entries_that_no_manifest_can_be_behind_are_passed_over() -> None:
    good = named("a").to_document()
    odd = [5, None, {**good, "digest": "sha256:x"}, {**good, "size": -1}, {**good, "size": True}, {"mediaType": "x"}]
    data = json.dumps({"manifests": [*odd, good, good]}).encode()
    found = parse_listing(data, where="it")
    assert found == (Descriptor(media_type=MANIFEST_TYPE, digest=Digest.parse(str(good["digest"])), size=5),)
