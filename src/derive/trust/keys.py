# SPDX-License-Identifier: Apache-2.0
"""Ed25519 keys as values: the public half stands in projects, the private half signs.

Core: no IO. A new key's randomness comes from the caller. The arithmetic is that of the package ``cryptography``.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field

from derive.canonical import Digest, sha256

ALGORITHM = "ed25519"
KEY_SIZE = 32
SIGNATURE_SIZE = 64


@dataclass(frozen=True, slots=True, order=True)
class PublicKey:
    """A public key, 32 bytes. Text form ``ed25519:<base64>``; ``id`` is the SHA-256 of the bytes."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != KEY_SIZE:
            raise ValueError(f"a key has {KEY_SIZE} bytes, and this has {len(self.raw)}")

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Read ``ed25519:<base64>``; raises ValueError on anything else, and on a second way to write the same key."""
        algorithm, _, encoded = text.partition(":")
        if algorithm != ALGORITHM:
            raise ValueError(f"not an {ALGORITHM} key: {text!r}")
        return cls(from_base64(encoded))

    @property
    def id(self) -> Digest:
        """The key id."""
        return sha256(self.raw)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Say whether this key made a signature over a message."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    def __str__(self) -> str:
        return f"{ALGORITHM}:{base64.b64encode(self.raw).decode()}"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key, which no text form of this value shows. Signatures are a function of key and message alone."""

    seed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.seed) != KEY_SIZE:
            raise ValueError(f"a key has {KEY_SIZE} bytes")

    @classmethod
    def from_pem(cls, data: bytes) -> SigningKey:
        """Read an unencrypted PKCS #8 file; raises ValueError when it holds no Ed25519 key."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(data, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise ValueError("not an unencrypted PKCS #8 private key") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError(f"a private key, but no {ALGORITHM} key")  # noqa: TRY004 - a value of the wrong kind
        return cls(key.private_bytes_raw())

    def to_pem(self) -> bytes:
        """Write the key as an unencrypted PKCS #8 file, which other programs read too."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        key = Ed25519PrivateKey.from_private_bytes(self.seed)
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def public(self) -> PublicKey:
        """The public half."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return PublicKey(Ed25519PrivateKey.from_private_bytes(self.seed).public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Return the 64 bytes of a signature."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(message)


def from_base64(text: str) -> bytes:
    """Read standard base64 with its padding; raises ValueError on any other way to write the same bytes."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(f"not base64: {text[:80]!r}") from error
    if base64.b64encode(raw).decode() != text:
        raise ValueError(f"not base64 as it is written: {text[:80]!r}")
    return raw
