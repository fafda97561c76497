# SPDX-License-Identifier: Apache-2.0
"""Makes an image's attestations and keeps them with it; the image itself stays as it is.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from derive.attest.facts import ImageFacts
from derive.attest.provenance import provenance
from derive.attest.sbom import sbom_statement
from derive.attest.statement import (
    ENVELOPE_TYPE,
    KINDS,
    PREDICATE_ANNOTATION,
    PROVENANCE_TYPE,
    SBOM_TYPE,
    read_said,
)
from derive.canonical import Digest
from derive.errors import Corrupt, Missing
from derive.images.referrers import attach, forget, read_referrer, read_whole, referrers_of
from derive.store.local import LocalStore
from derive.trust.dsse import Envelope, read_envelope, sign
from derive.trust.keys import SigningKey
from derive.trust.statement import PAYLOAD_TYPE

LONGEST = 1 << 26
"""Bytes of the largest envelope that is read: it is held in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """An attestation: what it says in short, the manifest that refers to the image, and the envelope's bytes."""

    kind: str
    manifest: Digest
    size: int


def attest(store: LocalStore, facts: ImageFacts, keys: Sequence[SigningKey]) -> tuple[Attached, ...]:
    """Sign an image's provenance and its bill of materials, and keep both for as long as the image is kept.

    Raises:
        Missing: when the store does not hold the image.
        HostRefuses: when the store cannot be written.
    """
    store.protect(())  # a collection must not take what is about to be named
    earlier = _earlier(store, facts.image)
    found = []
    for kind, payload in ((PROVENANCE_TYPE, provenance(facts)), (SBOM_TYPE, sbom_statement(facts))):
        envelope = sign(PAYLOAD_TYPE, payload, keys)
        data = envelope.encoded()
        manifest = attach(store, facts.image, ENVELOPE_TYPE, data, {PREDICATE_ANNOTATION: kind})
        found.append(Attached(kind=KINDS[kind], manifest=manifest, size=len(data)))
        for other in (one for one, before in earlier if one != manifest and _replaces(envelope, before)):
            forget(store, facts.image, other)
    return tuple(found)


def _earlier(store: LocalStore, image: Digest) -> tuple[tuple[Digest, Envelope], ...]:
    found = []
    for manifest in referrers_of(store, image):
        with suppress(Corrupt, Missing):  # of a damaged one nothing is known, and --check tells
            envelope = envelope_of(store, manifest)
            found += [(manifest, envelope)] if envelope is not None else []
    return tuple(found)


def _replaces(envelope: Envelope, before: Envelope) -> bool:
    """Say whether the same signers have said something of the same type before."""
    if [one.key for one in before.signatures] != [one.key for one in envelope.signatures]:
        return False
    try:
        return read_said(before.payload).predicate_type == read_said(envelope.payload).predicate_type
    except Corrupt:
        return False


def envelope_of(store: LocalStore, manifest: Digest) -> Envelope | None:
    """Return the envelope that a manifest carries, or None where it carries something else.

    Raises:
        Corrupt: when it is damaged, or too large.
        Missing: when it is gone meanwhile.
    """
    found = read_referrer(read_whole(store, manifest))
    if found.artifact_type != ENVELOPE_TYPE or len(found.blobs) != 1:
        return None
    (blob,) = found.blobs
    if store.blob_size(blob.digest) > LONGEST:
        raise Corrupt(f"it is larger than {LONGEST} bytes")
    return read_envelope(read_whole(store, blob.digest), PAYLOAD_TYPE)
