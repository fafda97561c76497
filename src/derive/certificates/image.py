# SPDX-License-Identifier: Apache-2.0
"""The certificate of one image by itself, kept with it beside its provenance and its bill.

Edge: the store, through the services below it.
"""

from __future__ import annotations

from collections.abc import Sequence

from derive.attest.attach import Attached, envelope_of
from derive.attest.facts import ImageFacts
from derive.attest.statement import CERTIFICATE_TYPE, read_said
from derive.build.execute import Progress
from derive.build.service import Options
from derive.canonical import Digest
from derive.certificates.folder import attach_certificate
from derive.certificates.make import certificate_of
from derive.certificates.model import Host, read_certificate
from derive.certificates.rederive import rederive, signers_of
from derive.derivations.model import Platform
from derive.errors import CheckFailed, Corrupt, Missing, expected_got
from derive.images.referrers import forget, referrers_of
from derive.project import Project
from derive.releases.document import platform as platform_of
from derive.store.local import LocalStore
from derive.trust.dsse import Envelope, sign
from derive.trust.keys import SigningKey
from derive.trust.statement import PAYLOAD_TYPE


def certify_image(
    project: Project,
    store: LocalStore,
    facts: ImageFacts,
    keys: Sequence[SigningKey],
    host: Host,
    made_s: int,
    options: Options,
    progress: Progress,
) -> Attached:
    """Derive an image, each step twice, sign that it came out as it is, and keep that with it.

    Raises:
        CheckFailed: when it came out otherwise, either time: nothing is signed.
    """
    platform: Platform = platform_of(facts.platform)
    signers, wanted = signers_of((key.public.id for key in keys), host), {platform: (facts.name, facts.image)}
    (found,) = rederive(project, wanted, store, options, progress, signers=signers)
    if not found.holds:
        detail = [*expected_got(facts.image, found.image.digest)]
        detail += [f"differs   {one.derivation}: {one.path}" for one in found.differences]
        hint = f"see: derive image {facts.name} --platform {platform} --check"
        raise CheckFailed("the image does not come out here as it is, and nothing was signed", detail=detail, hint=hint)
    envelope = sign(PAYLOAD_TYPE, certificate_of(None, (found,), host, made_s).encoded(), keys)
    earlier = [one for one in referrers_of(store, facts.image) if _replaces(store, one, envelope)]
    manifest = attach_certificate(store, facts.image, envelope)
    for one in earlier:
        forget(store, facts.image, one)
    return Attached(kind="certificate", manifest=manifest, size=len(envelope.encoded()))


def _replaces(store: LocalStore, manifest: Digest, envelope: Envelope) -> bool:
    """Say whether the same keys certified the image alone before."""
    try:
        before = envelope_of(store, manifest)
        if before is None or read_said(before.payload).predicate_type != CERTIFICATE_TYPE:
            return False
        certificate, _ = read_certificate(before.encoded())
    except (Corrupt, Missing):
        return False
    signers = [one.key for one in envelope.signatures]
    return certificate.release is None and [one.key for one in before.signatures] == signers
