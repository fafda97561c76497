# SPDX-License-Identifier: Apache-2.0
"""One entry of a builder's log: what it vouches for, which entry it follows, and what it saw of others.

Core: no IO. The format is on docs/formats/cache.md.

An entry is an in-toto statement in a DSSE envelope that one key signed. Entries of a log are numbered and chained by
the digest of the envelope's bytes, so that two who read one log know whether they read the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from derive.canonical import CanonicalError, Digest, Json, decode, encode, sha256
from derive.errors import Corrupt
from derive.trust.dsse import Envelope, read_envelope, shown, sign
from derive.trust.keys import PublicKey, SigningKey
from derive.trust.statement import PAYLOAD_TYPE, STATEMENT_TYPE, Claim, claims_document, read_claims

PREDICATE_TYPE = "urn:derive:cache-entry:1"
TAG = "cache-entry/1"
SUBJECT = "realisations.json"
LARGEST = 16 << 20
"""Bytes of an entry as it is read; a writer splits long before."""
MOST_CLAIMS = 4000
"""Claims of one entry as it is written."""

_LOG = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Head:
    """How far a log goes, as somebody saw it: which log, its last number, the digest of that entry."""

    log: str
    sequence: int
    digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a signer says of an output beside it, for plans: bytes of its contents, and what building took."""

    name: str
    size_bytes: int
    duration_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry. ``log`` are 32 hex digits chosen by its first writer; ``sequence`` counts from 1.

    ``previous`` is the digest of the entry before it, None for the first; ``made_s`` is the signer's clock, for people;
    ``seen`` are the heads of other keys' logs in the same place, by key id; ``costs`` are by resolved id.
    """

    log: str
    sequence: int
    previous: Digest | None
    made_s: int
    claims: tuple[Claim, ...]
    costs: Mapping[Digest, Cost] = field(default_factory=dict)
    seen: Mapping[Digest, Head] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return the canonical bytes of the statement."""
        claims = claims_document(sorted(self.claims, key=lambda claim: claim.resolved))
        return encode(
            {
                "_type": STATEMENT_TYPE,
                "subject": [{"name": SUBJECT, "digest": {"sha256": sha256(encode(claims)).hex}}],
                "predicateType": PREDICATE_TYPE,
                "predicate": {
                    "derive": TAG,
                    "log": self.log,
                    "sequence": self.sequence,
                    "previous": None if self.previous is None else self.previous.hex,
                    "made_s": self.made_s,
                    "statement": claims,
                    "costs": {
                        key.hex: {"name": one.name, "size_bytes": one.size_bytes, "duration_ns": one.duration_ns}
                        for key, one in self.costs.items()
                    },
                    "seen": {
                        key.hex: {"log": one.log, "sequence": one.sequence, "head": one.digest.hex}
                        for key, one in self.seen.items()
                    },
                },
            }
        )

    def signed(self, key: SigningKey) -> bytes:
        """Return the bytes of the envelope that a key signs: their SHA-256 is the entry's digest."""
        return sign(PAYLOAD_TYPE, self.encoded(), [key]).encoded()


def read_entry(data: bytes, key: PublicKey) -> Entry:
    """Read an entry that must be signed by a key.

    Raises:
        Corrupt: when the bytes are not what :meth:`Entry.signed` gives, or the key did not sign them.
    """
    envelope: Envelope = read_envelope(data, PAYLOAD_TYPE)
    if not envelope.is_signed_by(key):
        raise Corrupt("an entry that the log's own key did not sign", detail=[f"key       {key.id}"])
    try:
        entry = _entry(decode(envelope.payload))
    except (CanonicalError, ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"the entry cannot be read: {shown(error)}") from error
    if entry.encoded() != envelope.payload:
        raise Corrupt("the entry is not written as an entry is")
    return entry


def _entry(document: Json) -> Entry:
    found = _mapping(document)
    if found["predicateType"] != PREDICATE_TYPE:
        raise ValueError(f"not a statement of type {PREDICATE_TYPE}")
    body = _mapping(found["predicate"])
    log = str(body["log"])
    if not _LOG.fullmatch(log):
        raise ValueError("a log is named by 32 hex digits")
    previous = body["previous"]
    claims = read_claims(body["statement"])
    if len({claim.resolved for claim in claims}) != len(claims):
        raise ValueError("two claims about one resolved derivation")
    return Entry(
        log=log,
        sequence=_count(body["sequence"], 1),
        previous=None if previous is None else Digest(str(previous)),
        made_s=_count(body["made_s"], 0),
        claims=claims,
        costs={Digest(key): _read_cost(_mapping(one)) for key, one in _mapping(body["costs"]).items()},
        seen={Digest(key): _read_head(_mapping(one)) for key, one in _mapping(body["seen"]).items()},
    )


def _read_cost(item: Mapping[str, Json]) -> Cost:
    return Cost(
        name=str(item["name"]), size_bytes=_count(item["size_bytes"], 0), duration_ns=_count(item["duration_ns"], 0)
    )


def _read_head(item: Mapping[str, Json]) -> Head:
    return Head(log=str(item["log"]), sequence=_count(item["sequence"], 1), digest=Digest(str(item["head"])))


def _count(value: Json, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"not a whole number of {least} or more: {str(value)[:20]!r}")
    return value


def _mapping(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        raise TypeError(f"not an object: {str(value)[:80]!r}")
    return value
