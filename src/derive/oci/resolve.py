# SPDX-License-Identifier: Apache-2.0
"""From a reference to a pin: which manifest, config and layers it means now, on each platform that is wanted.

Edge: the network, by way of the registries, and the store, which keeps the documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, UpstreamGone, expected_got
from derive.images.oci import Descriptor
from derive.oci.documents import Config, Index, parse_config
from derive.oci.model import OciImage, OciPin
from derive.oci.reference import Reference
from derive.oci.registry import Registries, Served
from derive.store.protocol import Store

_FALSE_INDEX = "the index is wrong: have it pushed anew, or pull the image by its own digest"


class Documents(Protocol):
    """Where manifests and configs come from: the registries, or a store that may have them already."""

    def manifest(self, reference: Reference) -> Served:
        """Return what is served under a reference."""

    def blob(self, reference: Reference, digest: Digest) -> bytes:
        """Return a small blob of an image."""

    def note(self, message: str) -> None:
        """Tell the person something."""


def resolve_oci(store: Store, registries: Registries, reference: Reference, platforms: Sequence[str]) -> OciPin:
    """Find what a reference means; the index, manifests and configs are kept in the store, layers are not fetched.

    Raises:
        UpstreamGone: no registry has it, or it has no image for a platform; those that it has are named.
        Corrupt: what is served is no image, or not what its digest says.
        Unavailable: it could not be had now, or not without a login.
    """
    return pin_served(store, registries, reference, registries.manifest(reference), platforms)


def pin_served(
    store: Store,
    documents: Documents,
    reference: Reference,
    served: Served,
    platforms: Sequence[str],
    *,
    strict: bool = False,
) -> OciPin:
    """Find what a reference means of which the manifest or index is there; raises as :func:`resolve_oci`.

    An image that is for another platform than its index says is told, and with ``strict`` Corrupt.
    """
    top = _keep(store, served.body)
    if isinstance(served.document, Index):
        manifests = dict(served.document.manifests)
        _require(reference, platforms, tuple(manifests))
        images = [
            _member(store, documents, reference, platform, manifests[platform], strict=strict)
            for platform in set(platforms)
        ]
        index: Digest | None = top
    else:
        descriptor = Descriptor(media_type=served.media_type, digest=top, size=len(served.body))
        image = _image(store, documents, reference, served, descriptor)
        _require(reference, platforms, (image.platform,))
        images, index = [image], None
    ordered = tuple(sorted(images, key=lambda image: image.platform))
    return OciPin(repository=reference.repository, tag=reference.tag, index=index, images=ordered)


def digest_of_tag(registries: Registries, reference: Reference) -> Digest:
    """Return the digest of the index or manifest that a tag names now; raises as :func:`resolve_oci`."""
    return sha256(registries.manifest(reference).body)


def _require(reference: Reference, platforms: Sequence[str], known: Sequence[str]) -> None:
    absent = sorted(set(platforms) - set(known))
    if absent:
        raise UpstreamGone(
            f"{reference} has no image for {', '.join(absent)}",
            detail=[f"it has    {', '.join(sorted(known)) or 'none'}"],
        )


def _member(
    store: Store, documents: Documents, reference: Reference, platform: str, descriptor: Descriptor, *, strict: bool
) -> OciImage:
    """Read the manifest that an index names for a platform."""
    inner = Reference(repository=reference.repository, tag=None, digest=descriptor.digest)
    served = documents.manifest(inner)
    if len(served.body) != descriptor.size:
        detail = expected_got(f"{descriptor.size} bytes", f"{len(served.body)} bytes")
        raise Corrupt("a manifest of another size than its index states", where=str(inner), detail=detail)
    image = _image(store, documents, inner, served, descriptor)
    if strict and not _agree(platform, image.platform):
        message = f"{reference}: the image is for another platform than its index says"
        raise Corrupt(
            message, detail=[f"image     {inner}", *expected_got(platform, image.platform)], hint=_FALSE_INDEX
        )
    if image.platform.split("/")[:2] != platform.split("/")[:2]:
        documents.note(f"{reference}: the index says {platform}, the image's own config {image.platform}")
    return OciImage(platform=platform, manifest=descriptor, config=image.config, layers=image.layers)


def _agree(said: str, own: str) -> bool:
    """Say whether two platforms are the same; a variant that only one of them states is no contradiction."""
    return all(one == other for one, other in zip(said.split("/"), own.split("/"), strict=False))


def _image(
    store: Store, documents: Documents, reference: Reference, served: Served, descriptor: Descriptor
) -> OciImage:
    where = str(reference)
    found = served.document
    if isinstance(found, Index) or served.media_type != descriptor.media_type:
        detail = expected_got(descriptor.media_type, served.media_type)
        raise Corrupt("a manifest of another type than its index states", where=where, detail=detail)
    config = _config(store, documents, reference, found.config)
    if len(config.diff_ids) != len(found.layers):
        detail = expected_got(f"{len(found.layers)} layers", f"{len(config.diff_ids)} diff ids")
        raise Corrupt("the config is not this manifest's", where=where, detail=detail)
    _keep(store, served.body)
    return OciImage(platform=config.platform, manifest=descriptor, config=found.config, layers=found.layers)


def _config(store: Store, documents: Documents, reference: Reference, descriptor: Descriptor) -> Config:
    where = f"{reference}: config"
    data = documents.blob(reference, descriptor.digest)
    config = parse_config(data, where=where)
    _keep(store, data)
    return config


def _keep(store: Store, data: bytes) -> Digest:
    with store.blob_writer() as writer:
        writer.write(data)
        return writer.commit()
