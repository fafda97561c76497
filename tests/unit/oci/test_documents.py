# SPDX-License-Identifier: Apache-2.0
"""Reading other people's manifests, indices and configs; what is no image is refused with the reason."""

from __future__ import annotations

import json

import pytest

from derive.errors import Corrupt
from derive.images.oci import CONFIG_TYPE, INDEX_TYPE, MANIFEST_TYPE
from derive.oci.documents import DOCKER_INDEX_TYPE, DOCKER_MANIFEST_TYPE, Index, Manifest, parse_config, parse_manifest

DIGEST = "sha256:" + "0" * 64
LAYER = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": DIGEST, "size": 5}
CONFIG = {"mediaType": CONFIG_TYPE, "digest": DIGEST, "size": 7}
IMAGE: dict[str, object] = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": CONFIG, "layers": [LAYER]}


def read(document: object, stated: str = "") -> tuple[str, Index | Manifest]:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return parse_manifest(data, where="x:1", stated=stated)


def entry(platform: object, **more: object) -> dict[str, object]:
    return {"mediaType": MANIFEST_TYPE, "digest": DIGEST, "size": 9, "platform": platform, **more}


def test_a_manifest_may_leave_its_type_to_who_serves_it() -> None:
    bare = {key: value for key, value in IMAGE.items() if key != "mediaType"}
    assert read(bare)[0] == MANIFEST_TYPE
    assert read(bare, f"{DOCKER_MANIFEST_TYPE}; charset=utf-8")[0] == DOCKER_MANIFEST_TYPE
    assert read(bare, "text/plain")[0] == MANIFEST_TYPE
    assert read({"manifests": []})[0] == INDEX_TYPE


def test_an_index_gives_each_platform_once_and_no_attestations() -> None:
    _, found = read(
        {
            "mediaType": INDEX_TYPE,
            "manifests": [
                entry({"os": "linux", "architecture": "arm64", "variant": "v8"}),
                entry({"os": "linux", "architecture": "arm64"}, size=10),
                entry({"os": "linux", "architecture": "arm", "variant": "v7"}),
                entry({"os": "linux", "architecture": "amd64", "variant": ""}),
                entry({"os": "unknown", "architecture": "unknown"}),
                entry({"os": "linux", "architecture": "s390x"}, mediaType="application/vnd.example+json"),
                {"mediaType": MANIFEST_TYPE, "digest": DIGEST, "size": 9},
            ],
        }
    )
    assert isinstance(found, Index)
    assert [(platform, item.size) for platform, item in found.manifests] == [
        ("linux/arm64", 9),
        ("linux/arm/v7", 9),
        ("linux/amd64", 9),
    ]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"\xff", "cannot be read as JSON"),
        (b"[" * 100_000, "cannot be read as JSON"),
        (b'{"a": 1, "a": 2}', "a key stands twice"),
        (b"[]", "not a JSON object"),
        (b"{}", "neither an image's manifest nor an index"),
        ({"schemaVersion": 1, "fsLayers": []}, "schema 1"),
        ({**IMAGE, "manifests": []}, "neither an image's manifest nor an index"),
        ({**IMAGE, "mediaType": INDEX_TYPE}, "neither an image's manifest nor an index"),
        ({**IMAGE, "mediaType": 5}, "mediaType: not text"),
        ({**IMAGE, "config": {**CONFIG, "mediaType": "application/vnd.cncf.helm.config.v1+json"}}, "no image"),
        ({**IMAGE, "mediaType": "application/vnd.oci.artifact.manifest.v1+json"}, "no image"),
        ({**IMAGE, "config": None}, "not a JSON object"),
        ({**IMAGE, "layers": {}}, "layers: not a list"),
        ({**IMAGE, "layers": [{**LAYER, "digest": "sha512:" + "0" * 128}]}, "only SHA-256 is used"),
        ({**IMAGE, "layers": [{**LAYER, "digest": None}]}, "only SHA-256 is used"),
        ({**IMAGE, "layers": [{**LAYER, "size": -1}]}, "size: not a size"),
        ({**IMAGE, "layers": [{**LAYER, "size": True}]}, "size: not a size"),
        ({**IMAGE, "layers": [{**LAYER, "size": 1.5}]}, "size: not a size"),
        ({**IMAGE, "layers": ["x"]}, "not a JSON object"),
        ({"mediaType": INDEX_TYPE, "manifests": [entry({}, mediaType=INDEX_TYPE)]}, "an index of indices"),
        ({"mediaType": INDEX_TYPE, "manifests": [entry({"os": "linux"})]}, "architecture: not text"),
    ],
)
def test_what_is_no_image_is_refused_with_the_reason(document: object, words: str) -> None:
    with pytest.raises(Corrupt) as caught:
        read(document)
    assert words in str(caught.value)
    assert "recursion" not in str(caught.value)
    assert str(caught.value.where).startswith("x:1")


def test_a_document_that_says_another_type_than_who_serves_it_is_refused() -> None:
    with pytest.raises(Corrupt, match="of two types"):
        read(IMAGE, DOCKER_INDEX_TYPE)


def test_a_config_may_hold_anything_beside_what_is_read() -> None:
    found = parse_config(
        b'{"os": "linux", "architecture": "arm64", "variant": "v8", "config": {"Weight": 0.5, "Big": 9007199254740993},'
        b' "rootfs": {"type": "layers", "diff_ids": ["' + DIGEST.encode() + b'"]}}',
        where="x",
    )
    assert (found.platform, [str(item) for item in found.diff_ids]) == ("linux/arm64", [DIGEST])
    with pytest.raises(Corrupt, match="diff_ids: not a list"):
        parse_config(b'{"os": "linux", "architecture": "arm64", "rootfs": {}}', where="x")
