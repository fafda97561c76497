# SPDX-License-Identifier: Apache-2.0
"""A capsule as an OCI artifact: one manifest a release, all in the index of one layout.

Core: no IO. The documents are specified on docs/formats/capsule.md.

An index may name images and artifacts of others beside capsules: they are nobody's here, and passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from derive.canonical import CanonicalError, Digest, Json, decode, encode, escape, sha256
from derive.capsule.model import CapsuleDocument
from derive.errors import Corrupt, expected_got
from derive.images.documents import DocumentError, digest, integer, items, mapping, text
from derive.images.oci import INDEX_TYPE, LAYOUT, MANIFEST_TYPE, NAME_ANNOTATION, Descriptor

__all__ = ["INDEX_FILE", "LAYOUT", "LAYOUT_FILE", "Listed", "Manifest", "index_of", "manifest_of", "read_index"]

CONFIG_TYPE = "application/vnd.derive.capsule.v1+json"
BLOB_TYPE = "application/octet-stream"
LAYOUT_FILE, INDEX_FILE = "oci-layout", "index.json"
_VERSION = "1.0.0"
LIMIT = 1 << 26
"""Bytes of the largest index, manifest or document that is read."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Listed:
    """A capsule as an index names it: the release's name, and the manifest's digest and size in bytes."""

    name: str
    manifest: Digest
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a capsule's manifest names: its document, and every blob with its size in bytes."""

    document: Descriptor
    blobs: Mapping[Digest, int]


def manifest_of(document: CapsuleDocument) -> bytes:
    """Return the manifest of a capsule."""
    data = document.encoded()
    config = Descriptor(media_type=CONFIG_TYPE, digest=sha256(data), size=len(data))
    blobs = [Descriptor(media_type=BLOB_TYPE, digest=part.digest, size=part.size) for part in document.parts]
    return encode(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "artifactType": CONFIG_TYPE,
            "config": config.to_document(),
            "layers": [blob.to_document() for blob in blobs],
        }
    )


def index_of(listed: Iterable[Listed]) -> bytes:
    """Return the index of a layout, the same in whatever order capsules were added to it."""
    entries: list[Json] = []
    for one in sorted(set(listed)):
        manifest = Descriptor(media_type=MANIFEST_TYPE, digest=one.manifest, size=one.size)
        entries.append(
            {
                **manifest.to_document(),
                "artifactType": CONFIG_TYPE,
                "annotations": {NAME_ANNOTATION: one.name},
            }
        )
    return encode({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries})


def require_version(data: bytes, where: str) -> None:
    """Refuse an ``oci-layout`` of another version than the one that there is; raises Corrupt."""
    try:
        version = text(mapping(decode(data), LAYOUT_FILE), "imageLayoutVersion")
    except (CanonicalError, DocumentError, ValueError, KeyError) as error:
        raise Corrupt(f"it says no version: {error}", where=where) from error
    if version != _VERSION:
        detail = expected_got(f"imageLayoutVersion {_VERSION}", f"imageLayoutVersion {escape(version.encode())}")
        raise Corrupt("an OCI layout of another version", where=where, detail=detail)


def read_index(data: bytes, where: str) -> tuple[Listed, ...]:
    """Return the capsules that an index names; raises Corrupt when it is no index."""
    found = []
    try:
        for item in items(mapping(decode(data), "index"), "manifests"):
            entry = mapping(item, "manifests")
            if entry.get("artifactType") != CONFIG_TYPE:
                continue
            annotations = mapping(entry.get("annotations", {}), "annotations")
            name = text(annotations, NAME_ANNOTATION)
            found.append(Listed(name=name, manifest=digest(entry, "digest"), size=_size(entry)))
    except (CanonicalError, DocumentError, ValueError, KeyError) as error:
        raise Corrupt(f"no index of an OCI layout: {error}", where=where) from error
    return tuple(sorted(found))


def read_manifest(data: bytes, where: str) -> Manifest:
    """Return what a capsule's manifest names; raises Corrupt when it is none."""
    try:
        document = mapping(decode(data), "manifest")
        _require_type(document)
        blobs = [_descriptor(item) for item in items(document, "layers")]
        config = _descriptor(document["config"])
    except (CanonicalError, DocumentError, ValueError, KeyError) as error:
        raise Corrupt(f"no manifest of a capsule: {error}", where=where) from error
    return Manifest(document=config, blobs={blob.digest: blob.size for blob in blobs})


def _require_type(document: Mapping[str, Json]) -> None:
    if document.get("mediaType") != MANIFEST_TYPE or document.get("artifactType") != CONFIG_TYPE:
        raise DocumentError(f"artifactType: not {CONFIG_TYPE}")


def _descriptor(value: Json) -> Descriptor:
    found = mapping(value, "descriptor")
    return Descriptor(media_type=text(found, "mediaType"), digest=digest(found, "digest"), size=_size(found))


def _size(found: Mapping[str, Json]) -> int:
    size = integer(found, "size")
    if size < 0:
        raise DocumentError(f"size: below 0: {size}")
    return size
