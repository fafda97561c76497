# SPDX-License-Identifier: Apache-2.0
"""What an engine lacks of an image, and whether what it shows is that image."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from derive.canonical import Digest, sha256
from derive.deploy.engines import ImageSeen
from derive.deploy.image_facts import (
    MARGIN_BYTES,
    PART_LABEL,
    ImageFacts,
    differing,
    image_facts,
    judged,
    need,
    parts,
)
from derive.errors import Corrupt
from support.handmade import documents, layer_tar

A, B, C, D = (layer_tar(seed, 1000 * seed) for seed in (1, 2, 3, 4))
REFERENCE = "127.0.0.1:5170/derive/tiny@sha256:" + "0" * 64


def facts(*layers: bytes, platform: str = "linux/amd64") -> ImageFacts:
    manifest, config, _ = documents(layers, platform)
    return image_facts(manifest, config)


def seen(image: ImageFacts, by: str = "config", names: tuple[str, ...] = ()) -> ImageSeen:
    known = image.config if by == "config" else image.manifest
    return ImageSeen(id=str(known.digest), names=names, layers=image.diff_ids, size_bytes=0, platform=image.platform)


def blobs(image: ImageFacts, *numbers: int) -> int:
    return sum(image.layers[number].blob.size for number in numbers)


def test_l3_an_image_known_by_its_config_and_one_known_by_its_manifest_are_judged_equal() -> None:
    image = facts(A, B)
    on_overlay2, on_containerd = (judged(image, seen(image, by)) for by in ("config", "manifest"))
    assert on_overlay2 is not None
    assert on_containerd is not None
    assert (on_overlay2.id, on_containerd.id) == (image.config.digest, image.manifest.digest)
    for match in (on_overlay2, on_containerd):
        assert image.manifest.digest.short in match.words(image)
        assert image.config.digest.short in match.words(image)


def test_another_id_or_other_layers_are_another_image() -> None:
    image, other = facts(A, B), facts(A, C)
    assert judged(image, seen(other)) is None
    assert differing(image, seen(other))[1] == f"got       {other.config.digest}"
    disguised = replace(seen(image), layers=other.diff_ids)
    assert judged(image, disguised) is None
    assert differing(image, disguised)[1] == "got       2, which are not the same"
    assert differing(image, None)[1] == "got       no image of that reference"


def test_an_engine_without_images_needs_every_layer() -> None:
    image = facts(A, B)
    found = need(image, REFERENCE, ())
    assert (found.is_there, found.move, found.unpack) == (False, image.layers, image.layers)
    assert found.move_bytes == blobs(image, 0, 1)


def test_layers_that_another_image_has_from_the_lowest_on_are_not_needed() -> None:
    image = facts(A, B, C)
    assert need(image, REFERENCE, [seen(facts(A, B, D)), seen(facts(A))]).move == image.layers[2:]


def test_a_layer_that_is_there_upon_others_is_needed_unless_the_engine_keeps_its_blob() -> None:
    image, other = facts(A, D, C), facts(A, B, C)
    assert need(image, REFERENCE, [seen(other)]).move == image.layers[1:]
    kept = [layer.blob.digest for layer in other.layers]
    found = need(image, REFERENCE, [seen(other, "manifest")], kept)
    assert (found.move, found.unpack) == (image.layers[1:2], image.layers[1:])


@pytest.mark.parametrize("by", ["config", "manifest"])
def test_an_image_is_there_when_it_is_known_under_the_reference(by: str) -> None:
    image = facts(A, B)
    assert need(image, REFERENCE, [seen(image, by, (REFERENCE,))]).is_there
    loaded = need(image, REFERENCE, [seen(image, by, ("tiny:latest",))])
    assert (loaded.is_there, loaded.move_bytes) == (False, 0)
    assert not need(image, REFERENCE, [seen(facts(A, C), by, (REFERENCE,))]).is_there


def test_a_blob_that_two_layers_have_moves_once() -> None:
    image = facts(A, B, A)
    assert need(image, REFERENCE, ()).move_bytes == blobs(image, 0, 1)


def test_room_is_for_what_moves_and_what_is_written_out_and_a_margin() -> None:
    image = facts(A, B)
    sizes = {layer.diff_id: size for layer, size in zip(image.layers, (10_000, 20_000), strict=True)}
    assert need(image, REFERENCE, ()).room_bytes(sizes) == blobs(image, 0, 1) + 30_000 + MARGIN_BYTES
    assert need(image, REFERENCE, [seen(facts(A))]).room_bytes(sizes) == blobs(image, 1) + 20_000 + MARGIN_BYTES
    assert need(image, REFERENCE, [seen(image)]).room_bytes({}) == 0


def test_parts_are_images_of_the_lowest_layers_and_never_of_all() -> None:
    image = facts(A, B, C, D, platform="linux/arm64")
    found = parts(image, need(image, REFERENCE, ()), 1)
    read = [image_facts(part.manifest, part.config) for part in found]
    assert [one.layers for one in read] == [image.layers[:count] for count in (1, 2, 3)]
    assert {one.platform for one in read} == {"linux/arm64"}
    assert {json.loads(part.config)["config"]["Labels"][PART_LABEL] for part in found} == {str(image.manifest.digest)}
    assert [part.digest for part in found] == [one.manifest.digest for one in read]


def test_there_are_no_parts_of_what_an_engine_has_nor_of_little() -> None:
    image = facts(A, B, C)
    assert parts(image, need(image, REFERENCE, ()), 1 << 20) == ()
    assert parts(image, need(image, REFERENCE, [seen(facts(A, B))]), 1) == ()


def test_an_image_is_moved_in_eight_parts_at_most() -> None:
    image = facts(*(layer_tar(seed, 1000) for seed in range(40)))
    assert 5 <= len(parts(image, need(image, REFERENCE, ()), 1)) <= 8


def test_documents_that_do_not_belong_together_are_refused() -> None:
    manifest, config, _ = documents([A, B])
    with pytest.raises(Corrupt, match="another config"):
        image_facts(manifest, documents([A, C])[1])
    fewer = json.loads(config)
    fewer["rootfs"]["diff_ids"].pop()
    changed = json.dumps(fewer).encode()
    text = json.loads(manifest)
    text["config"]["digest"] = str(sha256(changed))
    with pytest.raises(Corrupt, match="another number of layers"):
        image_facts(json.dumps(text).encode(), changed)
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}
    with pytest.raises(Corrupt, match="an index of several images"):
        image_facts(json.dumps(index).encode(), config)


def test_the_image_has_two_ids() -> None:
    manifest, config, _ = documents([A])
    assert facts(A).ids == (sha256(manifest), sha256(config))
    assert isinstance(facts(A).ids[0], Digest)
