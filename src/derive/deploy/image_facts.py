# SPDX-License-Identifier: Apache-2.0
"""What an image is made of, what of it an engine lacks, and whether what an engine shows is that image.

Core: no IO.

An engine whose images lie with a storage driver (overlay2) knows an image by its config's digest, and a layer by all
layers below it: one that lies upon others is another layer. One whose images lie in containerd knows an image by its
manifest's digest, and keeps blobs. Either digest names the image whole: the manifest names the config, and the config
every layer's bytes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from derive.canonical import Digest, encode, sha256
from derive.errors import Corrupt, expected_got
from derive.images.oci import CREATED, Descriptor
from derive.oci.documents import Index, parse_config, parse_manifest

if TYPE_CHECKING:
    from derive.deploy.engines import ImageSeen

PART_LABEL = "io.derive.part-of"
"""The digest of the image whose lower layers an image holds; one that has this label is there for a while only."""
PARTS = 8
"""How many parts an image is moved in at most, where an engine keeps nothing of one that did not come whole."""
PART_BYTES = 64 << 20
"""What such a part has at least: each costs its node some requests."""
MARGIN_BYTES = 1 << 30
"""What is to stay free beside an image: an engine whose disk is full can no longer stop a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer: the blob that is moved, and the digest of the tar inside it."""

    blob: Descriptor
    diff_id: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """One platform's image; ``layers`` the lowest first. ``variant`` is the config's own, empty where it has none."""

    platform: str
    variant: str
    manifest: Descriptor
    config: Descriptor
    layers: tuple[Layer, ...]

    @property
    def ids(self) -> tuple[Digest, Digest]:
        """The digests by which engines know the image: its manifest's, and its config's."""
        return (self.manifest.digest, self.config.digest)

    @property
    def diff_ids(self) -> tuple[str, ...]:
        """The digests of the uncompressed layers, as engines show them."""
        return tuple(str(layer.diff_id) for layer in self.layers)

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """All that the manifest names, the config first, each once."""
        return _distinct((self.config, *(layer.blob for layer in self.layers)))


def image_facts(manifest: bytes, config: bytes) -> ImageFacts:
    """Read an image's two documents.

    Raises:
        Corrupt: when they are none, do not belong together, or do not name as many layers.
    """
    where = f"image {sha256(manifest).short}"
    media_type, found = parse_manifest(manifest, where=where)
    if isinstance(found, Index):
        raise Corrupt("an index of several images, where one platform's is meant", where=where)
    if sha256(config) != found.config.digest:
        raise Corrupt("another config", where=where, detail=expected_got(found.config.digest, sha256(config)))
    said = parse_config(config, where=where)
    if len(said.diff_ids) != len(found.layers):
        detail = expected_got(f"{len(found.layers)}, as the manifest", len(said.diff_ids))
        raise Corrupt("the config names another number of layers", where=where, detail=detail)
    return ImageFacts(
        platform=said.platform,
        variant=str(json.loads(config).get("variant", "")),
        manifest=Descriptor(media_type=media_type, digest=sha256(manifest), size=len(manifest)),
        config=found.config,
        layers=tuple(
            Layer(blob=blob, diff_id=diff_id) for blob, diff_id in zip(found.layers, said.diff_ids, strict=True)
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What an engine lacks of an image.

    ``move`` are the layers whose blobs it will ask for, ``unpack`` those that it will write out, the lowest first.
    ``is_there`` says that it has the image under the wanted reference, so that nothing is to be done.
    """

    is_there: bool
    move: tuple[Layer, ...]
    unpack: tuple[Layer, ...]

    @property
    def move_bytes(self) -> int:
        """Bytes of the blobs to move, each once."""
        return sum(blob.size for blob in _distinct(layer.blob for layer in self.move))

    def room_bytes(self, unpacked: Mapping[Digest, int]) -> int:
        """Return the bytes that must be free for it: blobs, layers written out (sizes by diff id), and a margin.

        Both kinds of engine have a blob beside what is written out of it, one until that is done, the other for good.
        """
        if not self.unpack:
            return 0
        return self.move_bytes + sum(unpacked[layer.diff_id] for layer in self.unpack) + MARGIN_BYTES


def need(image: ImageFacts, reference: str, seen: Sequence[ImageSeen], blobs: Collection[Digest] = ()) -> Need:
    """Say what an engine lacks; ``seen`` are its images, ``blobs`` what it is known to keep as blobs."""
    if any(reference in one.names and judged(image, one) for one in seen):
        return Need(is_there=True, move=(), unpack=())
    shared = max((_shared(image.diff_ids, one.layers) for one in seen), default=0)
    unpack = image.layers[shared:]
    return Need(is_there=False, move=tuple(layer for layer in unpack if layer.blob.digest not in blobs), unpack=unpack)


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many layers, from the lowest, two images have in common."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """How an engine knows the image: the id that it gives it, and which of the image's two digests that is."""

    id: Digest
    by: Literal["manifest", "config"]

    def words(self, image: ImageFacts) -> str:
        """Return both digests, and by which the engine knows the image."""
        return f"manifest {image.manifest.digest.short}, config {image.config.digest.short}; known by its {self.by}"


def judged(image: ImageFacts, seen: ImageSeen) -> Match | None:
    """Say how an engine's image is the one wanted; None where it is another.

    Its id must be one of the image's two digests, and its layers those that the config names. What is known by its
    config was, where one of its references has a manifest's digest, pulled by that.
    """
    if seen.layers != image.diff_ids:
        return None
    if seen.id == str(image.manifest.digest):
        return Match(id=image.manifest.digest, by="manifest")
    return Match(id=image.config.digest, by="config") if seen.id == str(image.config.digest) else None


def differing(image: ImageFacts, seen: ImageSeen | None) -> tuple[str, ...]:
    """Return aligned lines of what was wanted and what an engine has in its place."""
    wanted = f"manifest {image.manifest.digest}, or config {image.config.digest}"
    if seen is None:
        return expected_got(wanted, "no image of that reference")
    if seen.id in map(str, image.ids):
        return expected_got(f"{len(image.layers)} layers", f"{len(seen.layers)}, which are not the same")
    return expected_got(wanted, seen.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An image of the lowest layers of another one: its two documents."""

    manifest: bytes
    config: bytes

    @property
    def digest(self) -> Digest:
        """The manifest's digest."""
        return sha256(self.manifest)

    @property
    def config_digest(self) -> Digest:
        """The config's digest."""
        return sha256(self.config)


def parts(image: ImageFacts, lacking: Need, least_bytes: int = PART_BYTES) -> tuple[Part, ...]:
    """Return the images to pull beside the whole one, so that what an engine has of it outlives a broken pull.

    An engine with a storage driver drops what it has of an image that did not come whole, layers that it had finished
    included. Those that belong to a smaller image it keeps. Each part adds an eighth of what moves, ``least_bytes`` at
    least.
    """
    least = max(least_bytes, lacking.move_bytes // PARTS)
    first = len(image.layers) - len(lacking.unpack)
    found, since = [], 0
    for count, layer in enumerate(image.layers[first:-1], start=first + 1):
        since += layer.blob.size if layer in lacking.move else 0
        if since >= least:
            found.append(_part(image, count))
            since = 0
    return tuple(found)


def _part(image: ImageFacts, count: int) -> Part:
    system, architecture = image.platform.split("/")[:2]
    layers = image.layers[:count]
    config = encode(
        {
            "os": system,
            "architecture": architecture,
            **({"variant": image.variant} if image.variant else {}),
            "created": CREATED,
            "config": {"Labels": {PART_LABEL: str(image.manifest.digest)}},
            "rootfs": {"type": "layers", "diff_ids": [str(layer.diff_id) for layer in layers]},
        }
    )
    manifest = encode(
        {
            "schemaVersion": 2,
            "mediaType": image.manifest.media_type,
            "config": replace(image.config, digest=sha256(config), size=len(config)).to_document(),
            "layers": [layer.blob.to_document() for layer in layers],
        }
    )
    return Part(manifest=manifest, config=config)


def _distinct(blobs: Iterable[Descriptor]) -> tuple[Descriptor, ...]:
    return tuple({blob.digest: blob for blob in blobs}.values())
