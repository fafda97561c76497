# SPDX-License-Identifier: Apache-2.0
"""What a layout is to hold in the end: the capsules that it is of, and every blob once, wherever it is read from.

Core: no IO of its own; bytes come from functions that the caller gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Digest, sha256
from derive.capsule.model import CapsuleDocument
from derive.capsule.oci import Listed, index_of, manifest_of

Read = Callable[[Digest], Iterator[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Capsules by their place in an index, and every blob that they name, with its size in bytes."""

    listed: tuple[Listed, ...]
    blobs: Mapping[Digest, int]
    read: Read

    @property
    def index(self) -> bytes:
        """The bytes of the layout's index."""
        return index_of(self.listed)

    @property
    def size(self) -> int:
        """Bytes of all blobs."""
        return sum(self.blobs.values())


def whole_of(document: CapsuleDocument, read: Read) -> Whole:
    """Return a layout of one capsule; ``read`` yields its parts."""
    data = document.encoded()
    manifest = manifest_of(document)
    texts = {sha256(data): data, sha256(manifest): manifest}

    def every(digest: Digest) -> Iterator[bytes]:
        return iter((texts[digest],)) if digest in texts else read(digest)

    return Whole(
        listed=(Listed(name=document.name, manifest=sha256(manifest), size=len(manifest)),),
        blobs={part.digest: part.size for part in document.parts} | {key: len(text) for key, text in texts.items()},
        read=every,
    )


def joined(first: Whole, second: Whole) -> Whole:
    """Return a layout of both; of a release that both have, the second's capsule stays alone."""
    names = {one.name for one in second.listed}
    kept = tuple(one for one in first.listed if one.name not in names)

    def every(digest: Digest) -> Iterator[bytes]:
        return second.read(digest) if digest in second.blobs else first.read(digest)

    return Whole(listed=(*kept, *second.listed), blobs={**first.blobs, **second.blobs}, read=every)
