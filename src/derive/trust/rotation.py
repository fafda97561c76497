# SPDX-License-Identifier: Apache-2.0
"""The statement that one key takes another's place: the old one signs it, and the new one, so that neither is claimed.

Core: no IO. The format is on docs/formats/trust.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.canonical import CanonicalError, Json, decode, encode
from derive.errors import Corrupt
from derive.images.documents import exact, items, mapping, second, text
from derive.trust.dsse import Envelope, read_envelope, shown, sign
from derive.trust.keys import PublicKey, SigningKey
from derive.trust.statement import PAYLOAD_TYPE, STATEMENT_TYPE

PREDICATE_TYPE = "urn:derive:key-rotation:1"
PREDICATE_TAG = "key-rotation/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """Key ``new`` takes the place of key ``old``, by whose ``name`` it goes; ``made_s`` is in seconds since 1970."""

    name: str
    old: PublicKey
    new: PublicKey
    made_s: int

    def encoded(self) -> bytes:
        """Return the canonical bytes of the statement; its subject is the new key, by its id."""
        return encode(
            {
                "_type": STATEMENT_TYPE,
                "subject": [{"name": self.name, "digest": {"sha256": self.new.id.hex}}],
                "predicateType": PREDICATE_TYPE,
                "predicate": {
                    "derive": PREDICATE_TAG,
                    "old": str(self.old),
                    "new": str(self.new),
                    "made_s": self.made_s,
                },
            }
        )

    def signed(self, old: SigningKey, new: SigningKey) -> Envelope:
        """Return the statement in the envelope that both keys sign."""
        return sign(PAYLOAD_TYPE, self.encoded(), (old, new))


def read_rotation(envelope: Json) -> Rotation:
    """Read a rotation from its envelope, as a document, and check both signatures.

    Raises:
        Corrupt: when it is none, or either key did not sign it.
    """
    try:
        read = read_envelope(encode(envelope), PAYLOAD_TYPE)
        rotation = _rotation(decode(read.payload))
    except (CanonicalError, ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"the rotation cannot be read: {shown(error)}") from error
    if rotation.encoded() != read.payload:
        raise Corrupt("the rotation is not written as one is")
    for what, key in (("old", rotation.old), ("new", rotation.new)):
        if not read.is_signed_by(key):
            raise Corrupt(f"the {what} key did not sign the rotation")
    return rotation


def _rotation(document: Json) -> Rotation:
    found = exact(document, keys=("_type", "subject", "predicateType", "predicate"), what="rotation")
    if (found["_type"], found["predicateType"]) != (STATEMENT_TYPE, PREDICATE_TYPE):
        raise ValueError(f"not a statement of type {PREDICATE_TYPE}")
    said = exact(found["predicate"], keys=("derive", "old", "new", "made_s"), what="predicate")
    (subject,) = items(found, "subject")
    rotation = Rotation(
        name=text(mapping(subject, "subject"), "name"),
        old=PublicKey.parse(text(said, "old")),
        new=PublicKey.parse(text(said, "new")),
        made_s=second(said, "made_s"),
    )
    if rotation.old == rotation.new:
        raise ValueError("a key does not take its own place")
    return rotation
