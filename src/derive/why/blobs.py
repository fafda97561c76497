# SPDX-License-Identifier: Apache-2.0
"""What images in the store say of themselves: manifests and configs are small documents.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.canonical import CanonicalError, Digest, Json, decode
from derive.store.protocol import Store

_LARGEST = 1 << 22


def small_document(store: Store, digest: Digest) -> Mapping[str, Json] | None:
    """Return a blob as a JSON object; None when it is none, is not there, or is too large to be one of ours."""
    if not store.has_blob(digest) or store.blob_size(digest) > _LARGEST:
        return None
    try:
        document = decode(b"".join(store.read_blob(digest)))
    except CanonicalError:
        return None
    return document if isinstance(document, Mapping) else None


def image_derivation(store: Store, manifest: Digest) -> Digest | None:
    """Return the derivation that an image carries as a label, or None for what is no image of ours."""
    from derive.images.oci import DERIVATION_LABEL, MANIFEST_TYPE

    document = small_document(store, manifest)
    if document is None or document.get("mediaType") != MANIFEST_TYPE:
        return None
    try:
        config = small_document(store, Digest.parse(str(_inner(document, "config", "digest"))))
        return Digest.parse(str(_inner(config, "config", "Labels", DERIVATION_LABEL)))
    except ValueError:
        return None


def _inner(value: Json, *keys: str) -> Json:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
