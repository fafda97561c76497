# SPDX-License-Identifier: Apache-2.0
"""Whether what is attested of an image is signed by those whose word is taken, is about it, and is right.

Core: no IO.

Envelopes over the same statement are taken together: two people who sign it need not meet. Anybody may attach anything:
what cannot be read, is about another image or was signed by nobody trusted is passed over, proves nothing and breaks
nothing. What enough trusted keys signed about this image must be right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from derive.attest.compare import differences
from derive.attest.statement import CERTIFICATE_TYPE, KINDS, Said, read_said
from derive.canonical import Digest, Json
from derive.errors import Corrupt
from derive.trust.dsse import Envelope
from derive.trust.policy import Judgement, Policy, judge
from derive.words import count_text

_LONGEST = 100
_MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Attestation:
    """One statement: the manifests that carry it, what it says in short, and what its signatures are worth.

    ``signed_in`` are those of the manifests in which signatures that count stand; ``passed_over`` is why it counts
    neither for nor against the image, empty where it counts.
    """

    manifests: tuple[Digest, ...]
    signed_in: tuple[Digest, ...]
    kind: str
    judgement: Judgement
    wrong: tuple[str, ...]
    passed_over: str = ""

    @property
    def holds(self) -> bool:
        """Whether enough trusted keys signed it about this image, and nothing in it is wrong."""
        return not self.passed_over and not self.wrong

    @property
    def title(self) -> str:
        """What it is called in a line."""
        return f"{self.kind or 'attestation'} {self.place}"

    @property
    def place(self) -> str:
        """The manifests in which it is signed, in short; one that carries it where no signature counts."""
        return ", ".join(one.short for one in self.signed_in or self.manifests[:1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is attested of an image, and every reason for which that is not enough.

    ``unreadable`` are manifests that refer to the image, with why nothing could be read of each.
    """

    attestations: tuple[Attestation, ...]
    findings: tuple[str, ...]
    unreadable: Mapping[Digest, str] = field(default_factory=lambda: MappingProxyType({}))

    def passed_over(self) -> Iterator[tuple[str, tuple[Digest, ...], str]]:
        """Yield what counts neither way: what it is called, the manifests that carry it, and why."""
        for manifest in sorted(self.unreadable):
            yield f"attestation {manifest.short}", (manifest,), self.unreadable[manifest]
        yield from ((one.title, one.manifests, one.passed_over) for one in self.attestations if one.passed_over)


def verdict(
    image: Digest,
    envelopes: Mapping[Digest, Envelope],
    policy: Policy,
    revoked: Collection[Digest],
    known: Mapping[str, Mapping[str, Json]],
    *,
    name: str = "",
    unreadable: Mapping[Digest, str] = MappingProxyType({}),
) -> Verdict:
    """Judge envelopes by the manifests that carry them.

    ``known`` is what is known here, by the type of predicate, and ``name`` what the image is called, where that is.
    """
    together: dict[bytes, list[Digest]] = {}
    for manifest in sorted(envelopes):
        together.setdefault(envelopes[manifest].payload, []).append(manifest)
    found = tuple(
        _attestation(
            tuple(manifests),
            tuple(one for one in manifests if judge(envelopes[one], policy, revoked).trusted),
            judge(_merged([envelopes[one] for one in manifests]), policy, revoked),
            *_read(image, payload, known, name),
        )
        for payload, manifests in together.items()
    )
    return Verdict(attestations=found, findings=tuple(_findings(found)), unreadable=unreadable)


def _merged(envelopes: Sequence[Envelope]) -> Envelope:
    """Return the envelope of one statement with all signatures on it."""
    signatures = dict.fromkeys(one for envelope in envelopes for one in envelope.signatures)
    return replace(envelopes[0], signatures=tuple(signatures))


def _attestation(
    manifests: tuple[Digest, ...],
    signed_in: tuple[Digest, ...],
    judgement: Judgement,
    kind: str,
    away: str,
    wrong: tuple[str, ...],
) -> Attestation:
    over = away or ("" if judgement.holds else _worth(judgement))
    return Attestation(
        manifests=manifests,
        signed_in=signed_in,
        kind=kind,
        judgement=judgement,
        wrong=() if over else wrong,
        passed_over=over,
    )


def _read(
    image: Digest, payload: bytes, known: Mapping[str, Mapping[str, Json]], name: str
) -> tuple[str, str, tuple[str, ...]]:
    """Return what a statement says in short, why it is none about the image, if so, and what is wrong in it."""
    try:
        said = read_said(payload)
    except Corrupt as error:
        return "", error.message, ()
    kind = "certificate" if said.predicate_type == CERTIFICATE_TYPE else KINDS.get(said.predicate_type, "")
    kind = kind or _shown(said.predicate_type)
    about = [digest for _, digest in said.subjects]
    if image not in about:
        return kind, f"it is about {_listed(about)}", ()
    return kind, "", tuple(_wrong(image, said, known, name))


def _shown(text: str) -> str:
    """Return what a stranger may have written with nothing in it that a terminal would take for a command."""
    return text[:_LONGEST].encode("unicode_escape").decode()


def _listed(about: Sequence[Digest]) -> str:
    more = f" and {len(about) - 3} more" if len(about) > 3 else ""
    return (", ".join(map(str, about[:3])) or "nothing") + more


def _wrong(image: Digest, said: Said, known: Mapping[str, Mapping[str, Json]], name: str) -> Iterator[str]:
    about = [digest for _, digest in said.subjects]
    if about != [image] and said.predicate_type != CERTIFICATE_TYPE:  # it is about all images of a release
        yield f"it is about {_listed(about)}"
    if said.predicate_type not in known:
        return
    for called, digest in said.subjects:
        if name and digest == image and called != name:
            yield f"subject: expected the name {name}, says {_shown(called)}"
    yield from (f"{_shown(key)}: said, and nothing that is known here" for key in said.added)
    yield from differences(said.predicate_type, known[said.predicate_type], said.predicate)


def _findings(found: Sequence[Attestation]) -> Iterator[str]:
    for kind in KINDS.values():
        if not any(one.kind == kind and not one.passed_over for one in found):
            over = [one.passed_over for one in found if one.kind == kind]
            yield f"{kind}: {'; '.join(over[:_MOST]) if over else 'there is none'}"
    for one in found:
        yield from (f"{one.title}: {text}" for text in one.wrong)


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
