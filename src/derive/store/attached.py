# SPDX-License-Identifier: Apache-2.0
"""What refers to images, of which a part is gone: an attestation that is lost is told, and not merely absent.

Edge: the store.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from derive.canonical import Digest
from derive.errors import Corrupt, Missing
from derive.store.inventory import Inventory, manifest_parts
from derive.store.local import LocalStore

_ENVELOPE = b'{"payload":"'
_LONGEST = 1 << 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A referrer that is not whole: the image it is about, its manifest, and what is absent.

    ``absent`` is the manifest alone where that is gone or no manifest any more: what it named is not known then.
    """

    image: Digest
    manifest: Digest
    absent: tuple[Digest, ...]

    @property
    def what(self) -> str:
        """What is wrong, for people."""
        if self.absent == (self.manifest,):
            return "its manifest is absent, or none any more"
        more = f", and {len(self.absent) - 1} more" if len(self.absent) > 1 else ""
        return f"blob {self.absent[0].short}, which it names, is absent{more}"


def lost_referrers(store: LocalStore, inventory: Inventory) -> tuple[Lost, ...]:
    """Return what refers to images that are here, and is not here whole itself."""
    found = []
    for image in sorted(inventory.referrers.keys() & inventory.blobs.keys()):
        for manifest in inventory.referrers[image]:
            parts = manifest_parts(store, manifest) if manifest in inventory.blobs else None
            absent = (manifest,) if parts is None else tuple(one for one in parts if one not in inventory.blobs)
            if absent:
                found.append(Lost(image=image, manifest=manifest, absent=absent))
    return tuple(found)


def images_referred_by(store: LocalStore, inventory: Inventory, blob: Digest) -> tuple[Digest, ...]:
    """Return the images to which a blob refers: as a manifest, or as a part of one."""
    return tuple(
        image
        for image, manifests in sorted(inventory.referrers.items())
        if any(blob == one or blob in (manifest_parts(store, one) or ()) for one in manifests)
    )


def image_name(inventory: Inventory, image: Digest) -> str:
    """Return what people call an image: its roots, or its digest where it has none."""
    titles = sorted({root.title for root in inventory.roots if root.digest == image})
    return ", ".join(titles) or str(image)


def orphaned_envelopes(
    store: LocalStore, inventory: Inventory, orphans: Collection[Digest]
) -> Iterator[tuple[Digest, Digest]]:
    """Yield blobs that nothing names and that are said of an image of which a referrer's manifest is gone."""
    images = {one.image.hex: one.image for one in lost_referrers(store, inventory) if one.absent == (one.manifest,)}
    for blob in sorted(orphans) if images else ():
        if inventory.blobs[blob] <= _LONGEST and _begins(store, blob):
            found = _subject(store, blob)
            if found in images:
                yield blob, images[found]


def _begins(store: LocalStore, blob: Digest) -> bool:
    try:
        return b"".join(store.read_blob(blob, 0, len(_ENVELOPE))) == _ENVELOPE
    except (Corrupt, Missing):
        return False


def _subject(store: LocalStore, blob: Digest) -> str:
    """Return the SHA-256 of what an envelope is about, or nothing; whoever wrote it."""
    try:
        envelope = json.loads(b"".join(store.read_blob(blob)))
        return str(json.loads(base64.b64decode(envelope["payload"]))["subject"][0]["digest"]["sha256"])
    except (Corrupt, Missing, ValueError, KeyError, TypeError, IndexError, RecursionError):
        return ""
