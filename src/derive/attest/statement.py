# SPDX-License-Identifier: Apache-2.0
"""In-toto statements about an image: the frame around what is said of it.

Core: no IO. The formats are on docs/formats/provenance.md and docs/formats/sbom.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import CanonicalError, Digest, Json, decode, encode
from derive.errors import Corrupt
from derive.trust.dsse import shown
from derive.trust.statement import STATEMENT_TYPE

PROVENANCE_TYPE = "https://slsa.dev/provenance/v1"
SBOM_TYPE = "https://cyclonedx.org/bom"
CERTIFICATE_TYPE = "urn:derive:certificate:1"
"""That a builder derived it: a machine and an hour stand in it, and an image need have none."""
KINDS: Mapping[str, str] = {PROVENANCE_TYPE: "provenance", SBOM_TYPE: "sbom"}
"""What is said of an image, in short, by the type of its predicate."""

ENVELOPE_TYPE = "application/vnd.dsse.envelope.v1+json"
"""The media type of an attestation: a statement in its envelope."""
PREDICATE_ANNOTATION = "in-toto.io/predicate-type"
"""What tells attestations of one image apart without reading them; nothing rests on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A statement: what it is about (names and digests), the type of what is said, and that itself.

    ``added`` are keys of the frame that no statement of ours has.
    """

    subjects: tuple[tuple[str, Digest], ...]
    predicate_type: str
    predicate: Mapping[str, Json]
    added: tuple[str, ...] = ()


def statement(name: str, image: Digest, predicate_type: str, predicate: Mapping[str, Json]) -> bytes:
    """Encode a statement about an image."""
    return encode(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": name, "digest": {"sha256": image.hex}}],
            "predicateType": predicate_type,
            "predicate": predicate,
        }
    )


def read_said(payload: bytes) -> Said:
    """Read a statement, whoever wrote it; raises Corrupt when it is none."""
    try:
        document = _mapping(decode(payload))
        if document["_type"] != STATEMENT_TYPE:
            raise Corrupt(f"not a statement of type {STATEMENT_TYPE}")
        return Said(
            subjects=tuple(_subject(_mapping(item)) for item in _items(document["subject"])),
            predicate_type=str(document["predicateType"]),
            predicate=_mapping(document["predicate"]),
            added=tuple(_added(document)),
        )
    except (CanonicalError, ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"the statement cannot be read: {shown(error)}") from error


def _added(document: Mapping[str, Json]) -> Iterator[str]:
    yield from (key for key in document if key not in ("_type", "subject", "predicateType", "predicate"))
    for number, item in enumerate(map(_mapping, _items(document["subject"]))):
        yield from (f"subject[{number}].{key}" for key in item if key not in ("name", "digest"))
        yield from (f"subject[{number}].digest.{key}" for key in _mapping(item["digest"]) if key != "sha256")


def _subject(item: Mapping[str, Json]) -> tuple[str, Digest]:
    return str(item.get("name", "")), Digest(str(_mapping(item["digest"])["sha256"]))


def _mapping(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        raise TypeError("not an object")
    return value


def _items(value: Json) -> Sequence[Json]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError("not a list")
    return value
