# SPDX-License-Identifier: Apache-2.0
"""The OCI artifacts of a cache: an output with the blobs that its contents lie in, and a piece of a key's log.

Core: no IO. The format is on docs/formats/cache.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import CanonicalError, Digest, Json, decode, encode, sha256
from derive.derivations.model import FlatOutput, Output, TreeOutput
from derive.errors import Corrupt
from derive.images.oci import MANIFEST_TYPE, Descriptor
from derive.trust.dsse import shown

EMPTY = b"{}"
"""The config of what has none, as OCI writes it."""
EMPTY_DESCRIPTOR = Descriptor(media_type="application/vnd.oci.empty.v1+json", digest=sha256(EMPTY), size=len(EMPTY))
OUTPUT_TYPE = "application/vnd.derive.output.v1+json"
LOG_TYPE = "application/vnd.derive.log.v1+json"
LISTING_TYPE = "application/vnd.derive.listing.v1+json"
CONTENTS_TYPE = "application/octet-stream"
ENTRY_TYPE = "application/vnd.dsse.envelope.v1+json"
FIRST = "io.derive.log.first"
"""The annotation of a piece of a log that says which number its first entry has."""

SEGMENT = 64
"""Entries of one piece of a log; a full piece keeps a tag of its own, and another begins."""
_KEY_DIGITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    """Entries of a log in order, as blobs; ``first`` is the number of the first of them."""

    first: int
    entries: tuple[Descriptor, ...]

    @property
    def last(self) -> int:
        """The number of the last entry."""
        return self.first + len(self.entries) - 1

    def encoded(self) -> bytes:
        """Return the manifest."""
        return _manifest(LOG_TYPE, self.entries, {FIRST: str(self.first)})

    def appended(self, entry: Descriptor) -> LogPiece:
        """Return the piece with one more entry; of a full one, the next piece, which has that entry alone."""
        if len(self.entries) >= SEGMENT:
            return LogPiece(first=self.last + 1, entries=(entry,))
        return LogPiece(first=self.first, entries=(*self.entries, entry))


def output_tag(output: Output) -> str:
    """Return the tag of an output's artifact."""
    return f"{'flat' if isinstance(output, FlatOutput) else output.identity}-{output.digest.hex}"


def log_tag(key: Digest, piece: int | None = None) -> str:
    """Return the tag of a key's log: its newest piece, or an earlier one by its number from 0."""
    tag = f"log-{key.hex[:_KEY_DIGITS]}"
    return tag if piece is None else f"{tag}-{piece}"


def piece_of(sequence: int) -> int:
    """Return the number of the piece that an entry stands in."""
    return (sequence - 1) // SEGMENT


def output_manifest(output: Output, blobs: Sequence[Descriptor]) -> bytes:
    """Encode an output's artifact: of a tree the listing first, then what its contents lie in; of a file itself first.

    Behind an image's manifest stand its config and layers.
    """
    return _manifest(OUTPUT_TYPE, blobs, {"io.derive.output": str(output)})


def read_output(data: bytes, output: Output) -> tuple[Descriptor, ...]:
    """Read an output's artifact, and return its blobs, of which the first is the listing or the file.

    Raises:
        Corrupt: when it is none, or another output's.
    """
    blobs, annotations = _read(data, OUTPUT_TYPE)
    if annotations.get("io.derive.output") != str(output) or not blobs:
        raise Corrupt(f"the tag {output_tag(output)} names the artifact of another output")
    is_listing = blobs[0].media_type == LISTING_TYPE
    if is_listing != isinstance(output, TreeOutput):
        raise Corrupt(f"the tag {output_tag(output)} names another kind of output")
    return blobs


def read_piece(data: bytes) -> LogPiece:
    """Read a piece of a log.

    Raises:
        Corrupt: when it is none.
    """
    blobs, annotations = _read(data, LOG_TYPE)
    first = annotations.get(FIRST, "")
    if not first.isascii() or not first.isdigit() or len(first) > 12 or int(first) < 1:
        raise Corrupt("a piece of a log that does not say with which entry it begins")
    if not 0 < len(blobs) <= SEGMENT or (int(first) - 1) % SEGMENT:
        raise Corrupt("a piece of a log that is not cut as a log is")
    return LogPiece(first=int(first), entries=blobs)


def _manifest(artifact_type: str, blobs: Sequence[Descriptor], annotations: Mapping[str, str]) -> bytes:
    return encode(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "artifactType": artifact_type,
            "config": EMPTY_DESCRIPTOR.to_document(),
            "layers": [blob.to_document() for blob in blobs],
            "annotations": dict(annotations),
        }
    )


def _read(data: bytes, artifact_type: str) -> tuple[tuple[Descriptor, ...], Mapping[str, str]]:
    try:
        return _parts(_mapping(decode(data)), artifact_type)
    except (CanonicalError, ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"the artifact's manifest cannot be read: {shown(error)}") from error


def _parts(document: Mapping[str, Json], artifact_type: str) -> tuple[tuple[Descriptor, ...], Mapping[str, str]]:
    if document["artifactType"] != artifact_type:
        raise ValueError(f"not an artifact of type {artifact_type}")
    layers = document["layers"]
    if isinstance(layers, str) or not isinstance(layers, Sequence):
        raise TypeError("layers: not a list")
    annotations = {key: str(text) for key, text in _mapping(document["annotations"]).items()}
    return tuple(_descriptor(_mapping(layer)) for layer in layers), annotations


def _descriptor(item: Mapping[str, Json]) -> Descriptor:
    size = item["size"]
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise ValueError("size: not a number of bytes")
    return Descriptor(media_type=str(item["mediaType"]), digest=Digest.parse(str(item["digest"])), size=size)


def _mapping(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        raise TypeError(f"not an object: {str(value)[:80]!r}")
    return value
