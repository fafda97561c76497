# SPDX-License-Identifier: Apache-2.0
"""A tree becomes a layer: (tree, mode table, encoding, wheels) decide every byte of the blob, and nothing else does.

Core: no IO of its own; it writes through the store that it is given.

The bytes are specified on docs/formats/layer.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from derive.canonical import Digest, Json, escape
from derive.errors import InputErrors, Problem
from derive.images.carry import Wheel, carry_map
from derive.images.documents import digest, fields, integer, text
from derive.images.encoding import CARRIED, MEDIA_TYPE, Encoding
from derive.images.members import members, segments
from derive.images.modes import ModeTable
from derive.images.tar import END, headers
from derive.store.protocol import Store
from derive.trees.listing import Directory, Listing

TAG = "layer/1"

_WHITEOUT = b".wh."
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDescriptor:
    """A written layer: the blob that registries carry, and the tar inside it that the image's config names.

    Sizes are in bytes. ``diff_id`` is the digest of the uncompressed tar.
    """

    blob: Digest
    size: int
    diff_id: Digest
    uncompressed_size: int
    media_type: str = MEDIA_TYPE

    @property
    def is_empty(self) -> bool:
        """Whether the tar holds nothing but its end."""
        return self.uncompressed_size == len(END)

    def to_document(self) -> dict[str, Json]:
        """Return the descriptor as the layer step's output."""
        return {
            "derive": TAG,
            "blob": str(self.blob),
            "size": self.size,
            "diff-id": str(self.diff_id),
            "uncompressed-size": self.uncompressed_size,
            "media-type": self.media_type,
        }

    @classmethod
    def from_document(cls, document: Json) -> LayerDescriptor:
        """Read what :meth:`to_document` wrote; raises ValueError on anything else."""
        found = fields(document, tag=TAG, keys=("blob", "size", "diff-id", "uncompressed-size", "media-type"))
        return cls(
            blob=digest(found, "blob"),
            size=integer(found, "size"),
            diff_id=digest(found, "diff-id"),
            uncompressed_size=integer(found, "uncompressed-size"),
            media_type=text(found, "media-type"),
        )


def write_layer(
    store: Store,
    listing: Listing,
    modes: ModeTable,
    encoding: Encoding,
    *,
    wheels: Sequence[Wheel] = (),
    jobs: int = 2,
) -> LayerDescriptor:
    """Write a tree as a layer blob into the store. Memory does not grow with the tree's size, only with ``jobs``.

    ``wheels`` are the archives whose streams are carried, by an encoding that carries.

    Raises:
        InputErrors: when the tree cannot be a layer (see :func:`problems`), or a wheel holds what no archive may.
        HostRefuses: when the compressor at hand is not the pinned one.
        Missing, Corrupt: from the store and from the wheels.
    """
    found = problems(listing, modes)
    if found:
        raise InputErrors(found)
    carry = carry_map(wheels, CARRIED, store.read_blob) if encoding.carries else {}
    hasher = hashlib.sha256()
    uncompressed = 0
    cut = segments(headers(listing.items(), modes), store.read, carry)
    with store.blob_writer() as writer:
        for piece in members(cut, encoding.level, store.read_blob, jobs=jobs):
            for plain in piece.plain:
                hasher.update(plain)
                uncompressed += len(plain)
            for stored in piece.stored:
                writer.write(stored)
        size = writer.size
        blob = writer.commit()
    return LayerDescriptor(
        blob=blob,
        size=size,
        diff_id=Digest(hasher.hexdigest()),
        uncompressed_size=uncompressed,
        media_type=encoding.media_type,
    )


def problems(listing: Listing, modes: ModeTable, *, where: str = "") -> tuple[Problem, ...]:
    """Return why a tree cannot be a layer: its root is no folder, a name is a whiteout, a mode rule does not fit."""
    if not isinstance(listing[b""], Directory):
        return (Problem(where=where, message="a layer needs a folder, and this tree is one file"),)
    whiteouts = [path for path in listing if path.rpartition(b"/")[2].startswith(_WHITEOUT)]
    named = [
        Problem(where=where, message=f"{escape(path)}: a container engine takes this name for a deletion")
        for path in whiteouts[:_SHOWN]
    ]
    if len(whiteouts) > _SHOWN:
        named.append(Problem(where=where, message=f"{len(whiteouts)} names begin with .wh., the first {_SHOWN} shown"))
    return (*named, *modes.misfits(listing, where=where))
