# SPDX-License-Identifier: Apache-2.0
"""What refers to an image from outside: attestations and bills of materials, which leave the image digest alone.

Edge: the store. A referrer is an OCI artifact manifest whose ``subject`` is the image's manifest; the documents are on
docs/formats/image.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from derive.canonical import Digest, Json, decode, encode, sha256
from derive.errors import Corrupt, Missing, expected_got
from derive.images.documents import digest, integer, items, mapping, text, text_map
from derive.images.oci import MANIFEST_TYPE, Descriptor
from derive.store.inventory import MANIFEST_LIMIT
from derive.store.local import LocalStore
from derive.store.protocol import Store

EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
EMPTY = b"{}"
"""The config of what has none, as OCI writes it."""
EMPTY_DESCRIPTOR = Descriptor(media_type=EMPTY_TYPE, digest=sha256(EMPTY), size=len(EMPTY))


@dataclass(frozen=True, slots=True, kw_only=True)
class Referrer:
    """An artifact manifest: what it is about, what kind of thing it is, its blobs, and what is noted beside them."""

    subject: Descriptor
    artifact_type: str
    config: Descriptor
    blobs: tuple[Descriptor, ...]
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def referrer_manifest(
    subject: Descriptor, artifact_type: str, blob: Descriptor, annotations: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """Encode the manifest of one blob that is about an image, whose manifest ``subject`` is."""
    document: dict[str, Json] = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": artifact_type,
        "config": EMPTY_DESCRIPTOR.to_document(),
        "layers": [blob.to_document()],
        "subject": subject.to_document(),
    }
    return encode(document | ({"annotations": dict(annotations)} if annotations else {}))


def read_referrer(manifest: bytes) -> Referrer:
    """Read the manifest of something that refers to an image, whoever wrote it.

    Raises:
        Corrupt: when the bytes are no such manifest.
    """
    try:
        document = mapping(decode(manifest), "manifest")
        config = _descriptor(document["config"])
        return Referrer(
            subject=_descriptor(document["subject"]),
            # Without a type of its own, what it is stands in the config's: so OCI reads older artifacts.
            artifact_type=text(document, "artifactType") if "artifactType" in document else config.media_type,
            config=config,
            blobs=tuple(_descriptor(item) for item in items(document, "layers")),
            annotations=text_map(document, "annotations") if "annotations" in document else {},
        )
    except (KeyError, ValueError) as error:
        raise Corrupt(f"not the manifest of something that refers to an image: {error}") from error


def subject_of(store: LocalStore, image: Digest) -> Descriptor:
    """Return an image's manifest as its referrers name it; raises Missing when the store does not hold it."""
    return Descriptor(media_type=MANIFEST_TYPE, digest=image, size=store.blob_size(image))


def attach(store: LocalStore, image: Digest, artifact_type: str, data: bytes, annotations: Mapping[str, str]) -> Digest:
    """Keep a document about an image, and return the digest of the manifest that refers to the image.

    Raises:
        Missing: when the store does not hold the image's manifest.
    """
    subject = subject_of(store, image)
    blob = Descriptor(media_type=artifact_type, digest=_add(store, data), size=len(data))
    _add(store, EMPTY)
    manifest = _add(store, referrer_manifest(subject, artifact_type, blob, annotations))
    remember(store, image, manifest)
    return manifest


def remember(store: LocalStore, image: Digest, manifest_digest: Digest) -> None:
    """Keep a referrer, whose blobs are in the store, for as long as the image it is about is kept.

    Raises:
        Corrupt: when it refers to no image, or to another one.
        Missing: when the store does not hold it.
    """
    found = read_referrer(read_whole(store, manifest_digest))
    if found.subject.digest != image:
        raise Corrupt(f"the manifest {manifest_digest.short} is not about the image {image.short}")
    store.staging.settle()  # a row speaks of what is in place
    store.database.add_referrer(image, manifest_digest)


def forget(store: LocalStore, image: Digest, manifest_digest: Digest) -> None:
    """Let a referrer be collected, though the image stays; one that is not known is no error."""
    store.database.remove_referrer(image, manifest_digest)


def referrers_of(store: LocalStore, image: Digest) -> tuple[Digest, ...]:
    """Return the manifests of what is known to refer to an image and is here whole, sorted."""
    return tuple(one for one in store.database.referrers().get(image, ()) if not _wrong(store, one))


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Something that is known to refer to an image and is not here whole: its manifest, and what is wrong with it."""

    manifest: Digest
    what: str


def broken_referrers(store: LocalStore, image: Digest) -> tuple[Broken, ...]:
    """Return what is known to refer to an image and cannot be read or moved any more, sorted."""
    found = ((one, _wrong(store, one)) for one in store.database.referrers().get(image, ()))
    return tuple(Broken(manifest=one, what=what) for one, what in found if what)


def read_whole(store: Store, digest: Digest) -> bytes:
    """Return a small blob of the store.

    Raises:
        Missing: when it is not there.
        Corrupt: when its bytes no longer have its digest.
    """
    data = b"".join(store.read_blob(digest))
    if sha256(data) != digest:
        raise Corrupt(
            f"the bytes of blob {digest.short} no longer have its digest",
            detail=[f"blob      {store.blob_path(digest)}", *expected_got(digest, sha256(data))],
            hint="derive store verify --repair",
        )
    return data


def _wrong(store: LocalStore, manifest: Digest) -> str:
    """Say what is wrong with a referrer, or nothing."""
    if not store.has_blob(manifest):
        return f"its manifest, blob {manifest}, is absent from the store"
    if store.blob_size(manifest) > MANIFEST_LIMIT:
        return f"its manifest, blob {manifest}, is larger than {MANIFEST_LIMIT} bytes"
    try:
        found = read_referrer(read_whole(store, manifest))
    except (Corrupt, Missing) as error:  # gone or damaged meanwhile
        return f"its manifest: {error.message}"
    gone = [one.digest for one in (found.config, *found.blobs) if not store.has_blob(one.digest)]
    return f"{', '.join(f'blob {one}' for one in gone)}, which it names, is absent from the store" if gone else ""


def _add(store: LocalStore, data: bytes) -> Digest:
    expected = sha256(data)
    if not store.has_blob(expected):
        with store.blob_writer() as writer:
            writer.write(data)
            writer.commit(expected)
    return expected


def _descriptor(value: Json) -> Descriptor:
    found = mapping(value, "descriptor")
    return Descriptor(media_type=text(found, "mediaType"), digest=digest(found, "digest"), size=integer(found, "size"))
