# SPDX-License-Identifier: Apache-2.0
"""Builders, hosts and certificates made up for tests of who counts.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.canonical import Digest, sha256
from derive.certificates.judge import Held, Order, Standing, Wanted, stand
from derive.certificates.model import Certificate, Certified, CertifiedImage, Host, Maker
from derive.trust.dsse import sign
from derive.trust.history import History
from derive.trust.keys import SigningKey
from derive.trust.policy import Policy
from derive.trust.statement import PAYLOAD_TYPE

ANN, BEN, CAT, EVE = (SigningKey(bytes([number]) * 32) for number in (1, 2, 3, 9))
KEYS = {"ann": ANN.public, "ben": BEN.public, "cat": CAT.public}
POLICY = Policy(keys=KEYS, threshold=2, builders=("ann", "ben", "cat"))

RELEASE, IMAGE, OTHER, DERIVATION = (sha256(word) for word in (b"release", b"image", b"other", b"derivation"))
AMD64 = "linux/amd64"
WANTED = Wanted(release=RELEASE, images={AMD64: (IMAGE, DERIVATION)})
NOTHING = Order(numbers={}, named={})


def host(name: str, boot: str | None = None, *, cpu: str = "EPYC", kernel: str = "6.1") -> Host:
    """Return a machine; ``boot`` is of its own unless given."""
    return Host(
        id=sha256(name.encode()),
        boot=sha256((boot or f"boot of {name}").encode()),
        architecture="x86_64",
        cpu=cpu,
        cores=2,
        memory_bytes=1 << 34,
        kernel=kernel,
    )


def maker(name: str, *, buildkit: str | None = None) -> Maker:
    """Return one of several who derived it: the machine by that name, or a worker on its kernel."""
    facts = host(name)
    return Maker(
        buildkit=buildkit,
        boot=facts.boot,
        architecture=facts.architecture,
        cpu=facts.cpu,
        cores=facts.cores,
        memory_bytes=facts.memory_bytes,
        kernel=facts.kernel,
        steps=7,
    )


def certificate(
    on: Host, image: Digest = IMAGE, *, release: Digest | None = RELEASE, derivation: Digest = DERIVATION
) -> Certificate:
    """Return what somebody says who derived an image."""
    return Certificate(
        release=None if release is None else Certified(name="small-1", digest=release, recipe="small"),
        images={AMD64: CertifiedImage(name="small", digest=image, derivation=derivation, steps=7)},
        engine=sha256(b"engine"),
        version="0.1.0",
        host=on,
        made_s=1_800_000_000,
    )


def held(one: Certificate, *keys: SigningKey, file: str = "") -> Held:
    """Return a certificate as it lies by a release."""
    envelope = sign(PAYLOAD_TYPE, one.encoded(), keys)
    digest = sha256(envelope.encoded())
    return Held(file=file or f"{digest.short}.dsse.json", digest=digest, certificate=one, envelope=envelope)


def standing(
    *found: Held, need: int = 2, policy: Policy = POLICY, history: History | None = None, order: Order = NOTHING
) -> Standing:
    """Return how far the release is certified."""
    return stand(WANTED, found, policy, history or History(), order, need=need)


def revoked(key: Digest, upto: Digest | None) -> History:
    """Return the history in which a key was revoked."""
    from derive.trust.history import End

    end = End(file="records/keys/0001-ann.json", cause="revoked", upto=upto, made_s=0, why="stolen")
    ends: Mapping[Digest, tuple[End, ...]] = {key: (end,)}
    return History(ends=ends)
