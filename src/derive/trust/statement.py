# SPDX-License-Identifier: Apache-2.0
"""The one statement that is signed: these resolved derivations gave these outputs.

Core: no IO. The format is on docs/formats/trust.md.

It has the shape of an in-toto statement, so that other tools can carry, verify and index it. Whoever signs one says
that a build of each named resolved derivation gave the named outputs; anybody may build again and compare.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import CanonicalError, Digest, Json, decode, encode
from derive.derivations.model import Output, parse_output
from derive.errors import Corrupt
from derive.trust.dsse import Envelope, read_envelope, shown, sign
from derive.trust.keys import SigningKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:derive:realisations:1"
PREDICATE_TAG = "realisations/1"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One realisation that a signer vouches for; ``builder`` is name and version."""

    resolved: Digest
    builder: str
    outputs: Mapping[str, Output]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Subject:
    """What a statement is about: a file by the SHA-256 of its bytes."""

    name: str
    digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Subjects and claims. Subjects are sorted by name, claims by resolved id; none stands twice."""

    subjects: tuple[Subject, ...]
    claims: tuple[Claim, ...]

    @classmethod
    def of(cls, subjects: Iterable[Subject], claims: Iterable[Claim]) -> Statement:
        """Build a statement from what comes in any order; raises ValueError when something stands twice."""
        found = cls(subjects=tuple(sorted(subjects)), claims=tuple(sorted(claims, key=lambda claim: claim.resolved)))
        if len({subject.name for subject in found.subjects}) != len(found.subjects):
            raise ValueError("two subjects of one name")
        if len({claim.resolved for claim in found.claims}) != len(found.claims):
            raise ValueError("two claims about one resolved derivation")
        return found

    def encoded(self) -> bytes:
        """Return the canonical bytes of the statement."""
        return encode(
            {
                "_type": STATEMENT_TYPE,
                "subject": [{"name": one.name, "digest": {"sha256": one.digest.hex}} for one in self.subjects],
                "predicateType": PREDICATE_TYPE,
                "predicate": claims_document(self.claims),
            }
        )

    def signed(self, keys: Iterable[SigningKey]) -> Envelope:
        """Return the statement in an envelope that these keys sign."""
        return sign(PAYLOAD_TYPE, self.encoded(), keys)


def read_statement(data: bytes) -> tuple[Statement, Envelope]:
    """Read an envelope and the statement in it; no signature is checked here.

    Raises:
        Corrupt: when the bytes are not what :meth:`Statement.signed` gives.
    """
    envelope = read_envelope(data, PAYLOAD_TYPE)
    try:
        statement = _statement(decode(envelope.payload))
    except (CanonicalError, ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"the statement cannot be read: {shown(error)}") from error
    if statement.encoded() != envelope.payload:
        raise Corrupt("the statement is not written as a statement is")
    return statement, envelope


def claims_document(claims: Iterable[Claim]) -> dict[str, Json]:
    """Return claims as the part of a statement that they are."""
    return {"derive": PREDICATE_TAG, "realisations": [_document(claim) for claim in claims]}


def read_claims(document: Json) -> tuple[Claim, ...]:
    """Read what :func:`claims_document` wrote; raises ValueError, KeyError or TypeError on what cannot be read."""
    return tuple(_claim(_mapping(item)) for item in _items(_mapping(document)["realisations"]))


def _document(claim: Claim) -> Json:
    return {
        "resolved": claim.resolved.hex,
        "builder": claim.builder,
        "outputs": {name: str(output) for name, output in claim.outputs.items()},
    }


def _statement(document: Json) -> Statement:
    found = _mapping(document)
    if found["_type"] != STATEMENT_TYPE or found["predicateType"] != PREDICATE_TYPE:
        raise ValueError(f"not a statement of type {PREDICATE_TYPE}")
    claims = read_claims(found["predicate"])
    return Statement.of([_subject(_mapping(item)) for item in _items(found["subject"])], claims)


def _subject(item: Mapping[str, Json]) -> Subject:
    return Subject(name=str(item["name"]), digest=Digest(str(_mapping(item["digest"])["sha256"])))


def _claim(item: Mapping[str, Json]) -> Claim:
    outputs = {name: parse_output(str(value)) for name, value in _mapping(item["outputs"]).items()}
    builder = str(item["builder"])
    if not all(_NAME.fullmatch(text) for text in (builder, *outputs)):
        raise ValueError("a builder or an output has a name that none has")
    return Claim(resolved=Digest(str(item["resolved"])), builder=builder, outputs=outputs)


def _mapping(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        raise TypeError(f"not an object: {str(value)[:80]!r}")
    return value


def _items(value: Json) -> Sequence[Json]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"not a list: {str(value)[:80]!r}")
    return value
