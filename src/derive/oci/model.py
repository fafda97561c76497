# SPDX-License-Identifier: Apache-2.0
"""What a reference to an image meant when it was resolved: manifests, configs and layers, by digest; never a host.

Core: no IO.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.canonical import Digest
from derive.images.oci import Descriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class OciImage:
    """One platform's image. Sizes are in bytes, layers stand lowest first.

    ``platform`` is ``os/architecture`` or ``os/architecture/variant``, without a variant that says nothing
    (``linux/arm64``, never ``linux/arm64/v8``).
    """

    platform: str
    manifest: Descriptor
    config: Descriptor
    layers: tuple[Descriptor, ...]

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """Everything that the manifest names, the config first, each once."""
        return tuple({blob.digest: blob for blob in (self.config, *self.layers)}.values())

    @property
    def size(self) -> int:
        """Bytes of the manifest and of all that it names."""
        return self.manifest.size + sum(blob.size for blob in self.blobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class OciPin:
    """A repository's image for some platforms, sorted by platform.

    ``tag`` is the tag that was asked for, None when a digest was. ``index`` is the digest of the image index, None
    where the reference names one platform's manifest.
    """

    repository: str
    tag: str | None
    index: Digest | None
    images: tuple[OciImage, ...]

    def image(self, platform: str) -> OciImage | None:
        """Return the image for a platform, or None when it is not pinned."""
        return next((image for image in self.images if image.platform == platform), None)
