# SPDX-License-Identifier: Apache-2.0
"""What a push would move: an image and what refers to it, less what the registry has already.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Digest, Json, sha256
from derive.errors import Corrupt
from derive.images.oci import Descriptor
from derive.oci.documents import Manifest, parse_manifest
from derive.oci.listing import Listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A manifest as bytes, and the blobs that it names, each once. ``listed`` is how an index of referrers names it."""

    media_type: str
    data: bytes
    blobs: tuple[Descriptor, ...]
    listed: Listed | None = None

    @property
    def digest(self) -> Digest:
        """What the manifest is called."""
        return sha256(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushPlan:
    """What goes where. ``there`` are the blobs that the repository has already."""

    image: Document
    referrers: tuple[Document, ...]
    there: frozenset[Digest]

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """Everything that the manifests name, each once, in the order in which they name it."""
        return distinct(blob for document in self.documents for blob in document.blobs)

    @property
    def documents(self) -> tuple[Document, ...]:
        """The image's manifest, and those that refer to it."""
        return (self.image, *self.referrers)

    @property
    def missing(self) -> tuple[Descriptor, ...]:
        """What has to be uploaded, the largest first: the last one to begin is then soon at its end."""
        found = [blob for blob in self.blobs if blob.digest not in self.there]
        return tuple(sorted(found, key=lambda blob: (-blob.size, blob.digest)))

    @property
    def missing_bytes(self) -> int:
        """Bytes to upload."""
        return sum(blob.size for blob in self.missing)

    @property
    def there_bytes(self) -> int:
        """Bytes that need not be uploaded."""
        return sum(blob.size for blob in self.blobs) - self.missing_bytes

    def lines(self) -> Iterator[tuple[str, Descriptor]]:
        """Yield each blob with what happens to it: ``upload`` or ``there``."""
        for blob in self.blobs:
            yield ("there" if blob.digest in self.there else "upload"), blob

    def body(self) -> dict[str, Json]:
        """Return it as the body of a record."""
        blobs: list[Json] = [
            {"digest": str(blob.digest), "size_bytes": blob.size, "action": action} for action, blob in self.lines()
        ]
        return {
            "digest": str(self.image.digest),
            "blobs": blobs,
            "upload_bytes": self.missing_bytes,
            "there_bytes": self.there_bytes,
            "referrers": [str(one.digest) for one in self.referrers],
        }


def distinct(blobs: Iterable[Descriptor]) -> tuple[Descriptor, ...]:
    """Return each blob once, in the order of their first mention."""
    found: dict[Digest, Descriptor] = {}
    for blob in blobs:
        found.setdefault(blob.digest, blob)
    return tuple(found.values())


def image_document(data: bytes, *, where: str) -> Document:
    """Read an image's manifest; raises Corrupt for anything else, an index of images included."""
    media_type, found = parse_manifest(data, where=where)
    if not isinstance(found, Manifest):
        raise Corrupt("an index of several images, where one image is wanted", where=where)
    return Document(media_type=media_type, data=data, blobs=distinct((found.config, *found.layers)))


def already_there(blobs: Iterable[Descriptor], sizes: Mapping[Digest, int | None]) -> frozenset[Digest]:
    """Return the blobs of which a registry says that it has them.

    ``sizes`` has those that it has, with None where it states no size. One of another size is uploaded again: what
    comes of it is seen when everything is read back.
    """
    return frozenset(blob.digest for blob in blobs if blob.digest in sizes and sizes[blob.digest] in (None, blob.size))
