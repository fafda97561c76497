# SPDX-License-Identifier: Apache-2.0
"""An image as the store holds it: what it is made of, and how large its layers are once they are written out.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from derive.canonical import Digest, decode, digest_document
from derive.deploy.image_facts import ImageFacts, Layer, image_facts
from derive.errors import Corrupt, DeriveError, Missing, expected_got

if TYPE_CHECKING:
    from derive.store.local import LocalStore

_AT_MOST = 1 << 44


def stored_image(store: LocalStore, digest: Digest) -> ImageFacts:
    """Return what an image is made of; nothing of it is collected as long as the store is open.

    Raises:
        Missing: when the store does not hold all of it.
        Corrupt: when its documents are none, or a blob has another size than they say.
    """
    from derive.images.referrers import read_whole
    from derive.oci.documents import Manifest, parse_manifest

    store.protect(())
    if not store.has_blob(digest):
        raise _absent(digest, "its manifest")
    manifest = read_whole(store, digest)
    _, found = parse_manifest(manifest, where=f"image {digest.short}")
    if not isinstance(found, Manifest):
        raise Corrupt("an index of several images, where one platform's is meant", where=f"image {digest.short}")
    for blob in (found.config, *found.layers):
        if not store.has_blob(blob.digest):
            raise _absent(digest, f"blob {blob.digest.short}")
        size = store.blob_size(blob.digest)
        if size != blob.size:
            raise Corrupt(f"blob {blob.digest.short} has another size", detail=expected_got(blob.size, size))
    return image_facts(manifest, read_whole(store, found.config.digest))


def _absent(digest: Digest, what: str) -> Missing:
    hint = "derive it again: derive audit RELEASE; or bring it: derive pull REPOSITORY@DIGEST"
    return Missing(f"the store does not hold image {digest}", detail=(f"absent    {what}",), hint=hint)


def known_blobs(store: LocalStore, manifests: Iterable[str]) -> frozenset[Digest]:
    """Return the blobs of those images that the store knows: an engine that keeps blobs has them too."""
    from derive.images.referrers import read_whole
    from derive.oci.documents import Manifest, parse_manifest

    found: set[Digest] = set()
    for text in manifests:
        digest = Digest.parse(text)
        if not store.has_blob(digest):
            continue
        try:
            _, manifest = parse_manifest(read_whole(store, digest), where=f"image {digest.short}")
        except DeriveError:
            continue  # damaged here: what it names is moved once more
        if isinstance(manifest, Manifest):
            found.update(blob.digest for blob in manifest.layers)
    return frozenset(found)


def unpacked_sizes(store: LocalStore, layers: Iterable[Layer]) -> Mapping[Digest, int]:
    """Return the bytes of each layer's tar by its diff id: as whoever wrote it noted, else counted, once."""
    wanted = {layer.diff_id: layer for layer in layers}
    found = {diff_id: size for diff_id in wanted if (size := _remembered(store, diff_id)) is not None}
    if len(found) < len(wanted):
        found |= {diff_id: size for diff_id, size in _noted(store).items() if diff_id in wanted}
    for diff_id, layer in wanted.items():
        if diff_id not in found:
            found[diff_id] = _counted(store, layer)
            if not store.read_only:
                store.database.set_memo(_key(diff_id), str(found[diff_id]))
    return found


def _noted(store: LocalStore) -> dict[Digest, int]:
    """Return the sizes of all layers that this store has written, by diff id."""
    from derive.images.layer import LayerDescriptor
    from derive.store.graph import of_builder, outputs

    found: dict[Digest, int] = {}
    for given in outputs(store.database, of_builder(store.database, "layer")).values():
        kind, _, text = given.get("descriptor", "").partition(":")
        try:
            digest = Digest.parse(text)
            if kind != "flat" or not store.has_blob(digest):
                continue
            written = LayerDescriptor.from_document(decode(b"".join(store.read_blob(digest))))
        except (ValueError, DeriveError):
            continue
        found[written.diff_id] = written.uncompressed_size
    return found


def _counted(store: LocalStore, layer: Layer) -> int:
    from derive.archives.stream import decompressed

    name = f"layer {layer.blob.digest.short}"
    return sum(len(piece) for piece in decompressed(name, store.read_blob(layer.blob.digest), _AT_MOST))


def _remembered(store: LocalStore, diff_id: Digest) -> int | None:
    value = store.database.memo(_key(diff_id))
    return int(value) if value is not None and value.isdecimal() else None


def _key(diff_id: Digest) -> Digest:
    return digest_document({"derive": "unpacked-size/1", "diff-id": diff_id.hex})
