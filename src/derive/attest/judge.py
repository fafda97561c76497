# SPDX-License-Identifier: Apache-2.0
"""Whether what is attested of an image is signed by those whose word is taken, is about it, and is right.

Core: no IO.

Envelopes over the same statement are taken together: two people who sign it need not meet. What nobody trusted has
signed proves nothing and breaks nothing; what they have signed must be right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from derive.attest.compare import differences
from derive.attest.statement import KINDS, Said, read_said
from derive.canonical import Digest, Json
from derive.errors import Corrupt
from derive.trust.dsse import Envelope
from derive.trust.policy import Judgement, Policy, judge
from derive.words import count_text

_LONGEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Attestation:
    """One statement: the manifests that carry it, what it says in short, and what its signatures are worth."""

    manifests: tuple[Digest, ...]
    kind: str
    judgement: Judgement
    wrong: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether enough trusted keys signed it, and nothing in it is wrong."""
        return self.judgement.holds and not self.wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is attested of an image, and every reason for which that is not enough."""

    attestations: tuple[Attestation, ...]
    findings: tuple[str, ...]


def verdict(
    image: Digest,
    envelopes: Mapping[Digest, Envelope],
    policy: Policy,
    revoked: Collection[Digest],
    known: Mapping[str, Mapping[str, Json]],
) -> Verdict:
    """Judge envelopes by the manifests that carry them; ``known`` is what is known here, by the type of predicate."""
    together: dict[bytes, list[Digest]] = {}
    for manifest in sorted(envelopes):
        together.setdefault(envelopes[manifest].payload, []).append(manifest)
    found = tuple(
        _attestation(image, manifests, [envelopes[one] for one in manifests], policy, revoked, known)
        for manifests in together.values()
    )
    return Verdict(attestations=found, findings=tuple(_findings(found)))


def _attestation(
    image: Digest,
    manifests: Iterable[Digest],
    envelopes: list[Envelope],
    policy: Policy,
    revoked: Collection[Digest],
    known: Mapping[str, Mapping[str, Json]],
) -> Attestation:
    signatures = dict.fromkeys(one for envelope in envelopes for one in envelope.signatures)
    first = envelopes[0]
    merged = Envelope(payload_type=first.payload_type, payload=first.payload, signatures=tuple(signatures))
    kind, wrong = _read(image, first.payload, known)
    judgement = judge(merged, policy, revoked)
    return Attestation(manifests=tuple(manifests), kind=kind, judgement=judgement, wrong=wrong)


def _read(image: Digest, payload: bytes, known: Mapping[str, Mapping[str, Json]]) -> tuple[str, tuple[str, ...]]:
    try:
        said = read_said(payload)
    except Corrupt as error:
        return "", (error.message,)
    # A stranger may have written the type: nothing in it is to be taken for a command by a terminal.
    other = said.predicate_type[:_LONGEST].encode("unicode_escape").decode()
    return KINDS.get(said.predicate_type, other), tuple(_wrong(image, said, known))


def _wrong(image: Digest, said: Said, known: Mapping[str, Mapping[str, Json]]) -> Iterator[str]:
    about = [digest for _, digest in said.subjects]
    if about != [image]:
        yield f"it is about {', '.join(map(str, about)) or 'nothing'}"
    if said.predicate_type in known:
        yield from differences(said.predicate_type, known[said.predicate_type], said.predicate)


def _findings(attestations: Iterable[Attestation]) -> Iterator[str]:
    found = tuple(attestations)
    for kind in KINDS.values():
        if not any(one.kind == kind and one.judgement.holds for one in found):
            signed = [_worth(one.judgement) for one in found if one.kind == kind]
            yield f"{kind}: {'; '.join(signed) if signed else 'there is none'}"
    for one in found:
        if one.judgement.holds:
            yield from (f"{one.kind or 'attestation'} {one.manifests[0].short}: {text}" for text in one.wrong)


def _worth(judgement: Judgement) -> str:
    """Say what the signatures on a statement that is not trusted are worth."""
    parts = [
        *(f"{name} signed" for name in judgement.trusted),
        *(f"{name} signed, which is revoked" for name in judgement.revoked),
        *(f"{name} is named, whose signature is not over this" for name in judgement.wrong),
        *(f"{key.short} signed, which the project does not trust" for key in judgement.unknown),
    ]
    needed = count_text(judgement.threshold, "trusted key")
    return f"{needed} must sign: {', '.join(parts) or 'nobody signed'}"
