# SPDX-License-Identifier: Apache-2.0
"""DSSE envelopes: a payload, its type, and signatures over both.

Core: no IO. The format is on docs/formats/trust.md.

What is signed is the pre-authentication encoding, in which the lengths of type and payload stand before them, so that
no signature over one pair can be taken for one over another.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import CanonicalError, Digest, Json, decode, encode
from derive.errors import Corrupt
from derive.trust.keys import SIGNATURE_SIZE, PublicKey, SigningKey, from_base64

MAX_SIGNATURES = 64
_LONGEST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature, and the id of the key that is said to have made it: a hint, which proves nothing."""

    key: Digest
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A payload with its signatures, sorted by key id. An envelope without any is one that nobody signed."""

    payload_type: str
    payload: bytes
    signatures: tuple[Signature, ...]

    def encoded(self) -> bytes:
        """Return the canonical bytes of the envelope."""
        return encode(
            {
                "payload": base64.b64encode(self.payload).decode(),
                "payloadType": self.payload_type,
                "signatures": [
                    {"keyid": one.key.hex, "sig": base64.b64encode(one.value).decode()} for one in self.signatures
                ],
            }
        )

    def is_signed_by(self, key: PublicKey) -> bool:
        """Say whether one of the signatures is this key's, whatever key id stands beside it."""
        message = pae(self.payload_type, self.payload)
        return any(key.verifies(signature.value, message) for signature in self.signatures)


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the pre-authentication encoding: what a signature is made over."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(payload_type: str, payload: bytes, keys: Iterable[SigningKey]) -> Envelope:
    """Return the envelope that keys sign; each key once, in the order of their ids."""
    message = pae(payload_type, payload)
    made = {key.public.id: key for key in keys}
    signatures = tuple(Signature(key=name, value=made[name].sign(message)) for name in sorted(made))
    return Envelope(payload_type=payload_type, payload=payload, signatures=signatures)


def read_envelope(data: bytes, payload_type: str) -> Envelope:
    """Read an envelope of one payload type; no signature is checked here.

    Raises:
        Corrupt: when the bytes are no envelope as :meth:`Envelope.encoded` writes it, or of another type.
    """
    try:
        document = decode(data)
        if not isinstance(document, Mapping) or set(document) != {"payload", "payloadType", "signatures"}:
            raise Corrupt("not an envelope: its keys are payload, payloadType and signatures")
        if document["payloadType"] != payload_type:
            raise Corrupt(f"an envelope of another type: {document['payloadType']!r}")
        signatures = document["signatures"]
        if not isinstance(signatures, Sequence) or isinstance(signatures, str) or len(signatures) > MAX_SIGNATURES:
            raise Corrupt(f"an envelope has a list of at most {MAX_SIGNATURES} signatures")
        envelope = Envelope(
            payload_type=payload_type,
            payload=from_base64(str(document["payload"])),
            signatures=tuple(_signature(item) for item in signatures),
        )
    except (CanonicalError, ValueError) as error:
        raise Corrupt(f"the envelope cannot be read: {shown(error)}") from error
    if envelope.encoded() != data:
        raise Corrupt("the envelope is not written as an envelope is")
    return envelope


def shown(error: Exception) -> str:
    """Return what an error says, with nothing in it that a terminal would take for a command: a stranger wrote it."""
    return str(error)[:_LONGEST].encode("unicode_escape").decode()


def _signature(item: Json) -> Signature:
    if not isinstance(item, Mapping) or set(item) != {"keyid", "sig"}:
        raise ValueError("a signature has the keys keyid and sig")
    value = from_base64(str(item["sig"]))
    if len(value) != SIGNATURE_SIZE:
        raise ValueError(f"a signature has {SIGNATURE_SIZE} bytes")
    return Signature(key=Digest(str(item["keyid"])), value=value)
