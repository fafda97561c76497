# SPDX-License-Identifier: Apache-2.0
"""One platform's image of a pin, brought into the store: manifest, config and layers, each checked by its digest.

Edge: the network, by way of the registries and the fetcher, and the store.
"""

from __future__ import annotations

from collections.abc import Sequence

from derive.canonical import Digest
from derive.errors import Corrupt, InputErrors, Unavailable, expected_got
from derive.net.fetch import Fetcher
from derive.net.places import Named, Place, Wanted
from derive.oci.documents import Manifest, parse_manifest
from derive.oci.model import OciImage, OciPin
from derive.oci.reference import Reference
from derive.oci.registry import Registries
from derive.store.protocol import Store


def fetch_oci(
    store: Store,
    registries: Registries,
    fetcher: Fetcher,
    pin: OciPin,
    platform: str,
    *,
    name: str | None = None,
    reuse: bool = True,
) -> Digest:
    """Bring an image into the store, and return its manifest's digest.

    ``name`` is what ``derive lock --update`` calls the pin, when that is not its repository. With ``reuse`` blobs that
    are there already are enough; without, the repository itself must serve every one, or an archive.

    Raises:
        UpstreamGone: every registry and archive answers, and none has what is pinned.
        Corrupt: other bytes were served, or the manifest does not name what is pinned.
        Unavailable: it could not be had now.
        InputErrors: when the pin has no such platform.
    """
    image = pin.image(platform)
    if image is None:
        known = ", ".join(found.platform for found in pin.images)
        raise InputErrors.one(f"{pin.repository} is not pinned for {platform}", detail=[f"pinned    {known}"])
    _fetch_manifest(store, registries, fetcher, pin, image, name, reuse=reuse)
    _check(store, pin, image, name)

    def places(wanted: Wanted) -> Sequence[Place]:
        return registries.places(pin.repository, wanted.sha256)

    wanted = [_wanted(pin, blob.digest, blob.size, name) for blob in image.blobs]
    fetcher.fetch_all(wanted, reuse=reuse, places=places)
    return image.manifest.digest


def _fetch_manifest(
    store: Store,
    registries: Registries,
    fetcher: Fetcher,
    pin: OciPin,
    image: OciImage,
    name: str | None,
    *,
    reuse: bool,
) -> None:
    digest = image.manifest.digest
    if reuse and store.has_blob(digest):
        return
    reference = Reference(repository=pin.repository, tag=None, digest=digest)
    try:
        served = registries.manifest(reference)
    except (Unavailable, Corrupt):
        try:
            fetcher.fetch_at(_wanted(pin, digest, image.manifest.size, name), (), reuse=False)  # from an archive
        except (Unavailable, Corrupt):
            pass  # what the registries said tells more
        else:
            return
        raise
    with store.blob_writer() as writer:
        writer.write(served.body)
        writer.commit(digest)


def _check(store: Store, pin: OciPin, image: OciImage, name: str | None) -> None:
    """Refuse a manifest that names other blobs than the pin: somebody edited one of them."""
    where = f"{pin.repository}@{image.manifest.digest}"
    stated = image.manifest.media_type
    _, found = parse_manifest(b"".join(store.read_blob(image.manifest.digest)), where=where, stated=stated)
    pinned = Manifest(config=image.config, layers=image.layers)
    if found != pinned:
        detail = expected_got(_summary(pinned), _summary(found) if isinstance(found, Manifest) else "an index")
        hint = f"run: derive lock --update {name or pin.repository}"
        raise Corrupt("the pin does not hold what its manifest names", where=where, detail=detail, hint=hint)


def _summary(manifest: Manifest) -> str:
    layers = " ".join(layer.digest.short for layer in manifest.layers)
    return f"config {manifest.config.digest.short}, layers {layers}"


def _wanted(pin: OciPin, digest: Digest, size: int, name: str | None) -> Wanted:
    return Wanted(
        name=name or pin.repository,
        version=pin.tag or digest.short,
        locator=Named(text=f"{pin.repository}@{digest}", file=f"{pin.repository.rpartition('/')[2]}-{digest.short}"),
        sha256=digest,
        size=size,
    )
