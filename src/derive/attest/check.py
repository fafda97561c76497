# SPDX-License-Identifier: Apache-2.0
"""Reads what is attached to an image, and has it judged.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from derive.attest.attach import envelope_of
from derive.attest.facts import ImageFacts
from derive.attest.judge import Verdict, verdict
from derive.attest.provenance import predicate
from derive.attest.sbom import bill
from derive.attest.statement import CERTIFICATE_TYPE, KINDS, PROVENANCE_TYPE, SBOM_TYPE, read_said
from derive.canonical import Digest
from derive.errors import Corrupt, Missing
from derive.images.referrers import broken_referrers, read_referrer, read_whole, referrers_of
from derive.store.local import LocalStore
from derive.trust.dsse import Envelope
from derive.trust.policy import Policy


def attached(store: LocalStore, image: Digest) -> tuple[tuple[str, Digest], ...]:
    """Return what is attached to an image and can be read here: what each statement is, and the blob that it lies in.

    Whoever attached one says what it is; nobody's word is taken for it here.
    """
    found = []
    for manifest in referrers_of(store, image):
        with suppress(Corrupt, Missing):
            envelope = envelope_of(store, manifest)
            if envelope is not None:
                said = read_said(envelope.payload).predicate_type
                kind = "certificate" if said == CERTIFICATE_TYPE else KINDS.get(said, "attestation")
                found.append((kind, read_referrer(read_whole(store, manifest)).blobs[0].digest))
    return tuple(sorted(found))


def check_attestations(
    store: LocalStore, image: Digest, facts: ImageFacts | None, policy: Policy, revoked: Collection[Digest]
) -> Verdict:
    """Judge what is attested of an image; without ``facts``, whether it is right is not asked."""
    envelopes: dict[Digest, Envelope] = {}
    unreadable = {one.manifest: one.what for one in broken_referrers(store, image)}
    for manifest in referrers_of(store, image):
        try:
            envelope = envelope_of(store, manifest)
        except (Corrupt, Missing) as error:
            unreadable[manifest] = error.message
            continue
        if envelope is not None:
            envelopes[manifest] = envelope
    known = {} if facts is None else {PROVENANCE_TYPE: predicate(facts), SBOM_TYPE: bill(facts)}
    name = "" if facts is None else facts.name
    return verdict(image, envelopes, policy, revoked, known, name=name, unreadable=unreadable)
