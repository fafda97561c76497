# SPDX-License-Identifier: Apache-2.0
"""An image as the store holds it, and how large its layers are once they are written out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.deploy.stored_image import known_blobs, stored_image, unpacked_sizes
from derive.errors import Corrupt, Missing
from derive.store.local import LocalStore
from support.handmade import documents, layer_tar, stored

LAYERS = [layer_tar(1, 3000), layer_tar(2, 2000)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as opened:
        yield opened


def test_an_image_is_read_from_its_own_documents(store: LocalStore) -> None:
    manifest, config, blobs = documents(LAYERS)
    image = stored_image(store, stored(store, LAYERS))
    assert image.ids == (sha256(manifest), sha256(config))
    assert [layer.blob.digest for layer in image.layers] == list(blobs)
    assert image.diff_ids == tuple(str(sha256(layer)) for layer in LAYERS)


def test_the_size_of_a_layer_written_out_is_counted_once_and_then_remembered(store: LocalStore) -> None:
    image = stored_image(store, stored(store, LAYERS))
    sizes = {layer.diff_id: len(data) for layer, data in zip(image.layers, LAYERS, strict=True)}
    assert unpacked_sizes(store, image.layers) == sizes
    for layer in image.layers:
        store.blob_path(layer.blob.digest).unlink()
    assert unpacked_sizes(store, image.layers) == sizes


def test_an_image_that_is_not_there_is_named_with_what_brings_it(store: LocalStore) -> None:
    with pytest.raises(Missing, match="the store does not hold image") as caught:
        stored_image(store, sha256(b"no image"))
    assert caught.value.hint is not None
    assert "derive pull" in caught.value.hint


def test_a_blob_of_another_size_is_found_before_it_is_sent(store: LocalStore) -> None:
    image = stored(store, LAYERS)
    path = store.blob_path(stored_image(store, image).layers[0].blob.digest)
    path.chmod(0o644)
    path.write_bytes(b"short")
    with pytest.raises(Corrupt, match="has another size"):
        stored_image(store, image)


def test_blobs_of_images_that_the_store_knows_are_known_and_others_passed_over(store: LocalStore) -> None:
    image = stored(store, LAYERS)
    blobs = documents(LAYERS)[2]
    assert known_blobs(store, [str(image), str(sha256(b"another")), str(next(iter(blobs)))]) == set(blobs)
