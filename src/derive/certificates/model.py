# SPDX-License-Identifier: Apache-2.0
"""A certificate: this builder derived these images on this machine, every step of them twice or on several builders.

Core: no IO. The format is on docs/formats/trust.md.

It is a statement of its own beside provenance and bill, which are functions of the closure alone: a machine and an hour
stand in this one, so no two are the same, and none is in any digest of an image or release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derive.attest.statement import CERTIFICATE_TYPE
from derive.canonical import CanonicalError, Digest, Json, decode, encode
from derive.errors import Corrupt
from derive.images.documents import digest, exact, fields, integer, items, mapping, second, text
from derive.trust.dsse import Envelope, read_envelope, shown
from derive.trust.statement import PAYLOAD_TYPE, STATEMENT_TYPE

PREDICATE_TYPE = CERTIFICATE_TYPE
PREDICATE_TAG = "certificate/1"
LONGEST = 1 << 20
"""Bytes of the largest certificate that is read."""

_DOCUMENT = "release.json"
_REBUILT, _BUILDERS = "rebuilt", "builders"
_KEYS = ("release", "images", "engine", "checked", "host", "made_s")
_FEWEST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine of a builder. ``id`` and ``boot`` are salted hashes: no machine can be found from them.

    ``id`` is the same as long as the machine is installed, ``boot`` until it starts again: containers of one machine
    have the same ``boot``. ``architecture``, ``cpu`` and ``kernel`` are as the kernel writes them.
    """

    id: Digest
    boot: Digest
    architecture: str
    cpu: str
    cores: int
    memory_bytes: int
    kernel: str

    def document(self) -> dict[str, Json]:
        """Return it as it stands in the predicate."""
        return {
            "id": str(self.id),
            "boot": str(self.boot),
            "architecture": self.architecture,
            "cpu": self.cpu,
            "cores": self.cores,
            "memory_bytes": self.memory_bytes,
            "kernel": self.kernel,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """One of several who each derived all images from nothing: the signer's machine, or a worker of BuildKit.

    ``buildkit`` is the worker's version, None for the machine itself. ``boot`` is hashed as a host's is; all a worker
    tells is its kernel's word, and which machine that kernel runs on is not known. ``steps`` is how many steps it ran.
    """

    buildkit: str | None
    boot: Digest
    architecture: str
    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    steps: int

    def document(self) -> dict[str, Json]:
        """Return it as it stands in the predicate."""
        return {
            "buildkit": self.buildkit,
            "boot": str(self.boot),
            "architecture": self.architecture,
            "cpu": self.cpu,
            "cores": self.cores,
            "memory_bytes": self.memory_bytes,
            "kernel": self.kernel,
            "steps": self.steps,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedImage:
    """An image of a platform, the id of its derivation, and how many steps of it were built more than once."""

    name: str
    digest: Digest
    derivation: Digest
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """The release that images belong to: its name, its digest, its recipe."""

    name: str
    digest: Digest
    recipe: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What is signed. ``release`` is None for images alone; ``made_s`` is in seconds since 1970, by the signer's clock.

    ``images`` are by platform, one at least. ``host`` is the machine of the engine and the keys. ``builders`` are those
    that each derived all of it and agreed, two at least; none where that machine built every step twice.
    """

    release: Certified | None
    images: Mapping[str, CertifiedImage]
    engine: Digest
    version: str
    host: Host
    made_s: int
    builders: tuple[Maker, ...] = ()

    @property
    def host_is_known(self) -> bool:
        """Say whether the host ran all of it: what only workers ran was run on machines that nothing tells apart."""
        return not self.builders or any(one.buildkit is None for one in self.builders)

    def encoded(self) -> bytes:
        """Return the canonical bytes of the statement, whose subjects are the images and the release document."""
        subjects = {f"{one.name}@{platform}": one.digest for platform, one in self.images.items()}
        if self.release is not None:
            subjects[_DOCUMENT] = self.release.digest
        return encode(
            {
                "_type": STATEMENT_TYPE,
                "subject": [{"name": name, "digest": {"sha256": subjects[name].hex}} for name in sorted(subjects)],
                "predicateType": PREDICATE_TYPE,
                "predicate": self._predicate(),
            }
        )

    def _predicate(self) -> dict[str, Json]:
        release = self.release
        return {
            "derive": PREDICATE_TAG,
            "release": None
            if release is None
            else {"name": release.name, "digest": str(release.digest), "recipe": release.recipe},
            "images": {
                platform: {
                    "name": one.name,
                    "digest": str(one.digest),
                    "derivation": one.derivation.hex,
                    "steps": one.steps,
                }
                for platform, one in self.images.items()
            },
            "engine": {"digest": str(self.engine), "version": self.version},
            "checked": _BUILDERS if self.builders else _REBUILT,
            "host": self.host.document(),
            "made_s": self.made_s,
            **({"builders": [one.document() for one in self.builders]} if self.builders else {}),
        }


def read_certificate(data: bytes) -> tuple[Certificate, Envelope]:
    """Read an envelope and the certificate in it; no signature is checked here.

    Raises:
        Corrupt: when the bytes are none that a writer would have written.
    """
    envelope = read_envelope(data, PAYLOAD_TYPE)
    try:
        certificate = _certificate(decode(envelope.payload))
    except (CanonicalError, ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"the certificate cannot be read: {shown(error)}") from error
    if certificate.encoded() != envelope.payload:
        raise Corrupt("the certificate is not written as one is")
    return certificate, envelope


def _certificate(document: Json) -> Certificate:
    found = exact(document, keys=("_type", "subject", "predicateType", "predicate"), what="statement")
    if (found["_type"], found["predicateType"]) != (STATEMENT_TYPE, PREDICATE_TYPE):
        raise ValueError(f"not a statement of type {PREDICATE_TYPE}")
    items(found, "subject")
    has_builders = _BUILDERS in mapping(found["predicate"], "predicate")
    said = fields(found["predicate"], tag=PREDICATE_TAG, keys=(*_KEYS, _BUILDERS) if has_builders else _KEYS)
    if said["checked"] != (_BUILDERS if has_builders else _REBUILT):
        raise ValueError("checked in no way that is known")
    builders = tuple(_maker(one) for one in items(said, _BUILDERS)) if has_builders else ()
    if has_builders and len(builders) < _FEWEST:
        raise ValueError("fewer builders than two")
    engine = exact(said["engine"], keys=("digest", "version"), what="engine")
    images = {name: _image(one) for name, one in mapping(said["images"], "images").items()}
    if not images:
        raise ValueError("no image")
    return Certificate(
        release=None if said["release"] is None else _release(said["release"]),
        images=images,
        engine=digest(engine, "digest"),
        version=text(engine, "version"),
        host=_host(said["host"]),
        made_s=second(said, "made_s"),
        builders=builders,
    )


def _release(value: Json) -> Certified:
    found = exact(value, keys=("name", "digest", "recipe"), what="release")
    return Certified(name=text(found, "name"), digest=digest(found, "digest"), recipe=text(found, "recipe"))


def _image(value: Json) -> CertifiedImage:
    found = exact(value, keys=("name", "digest", "derivation", "steps"), what="images")
    return CertifiedImage(
        name=text(found, "name"),
        digest=digest(found, "digest"),
        derivation=Digest(text(found, "derivation")),
        steps=integer(found, "steps"),
    )


def _host(value: Json) -> Host:
    keys = ("id", "boot", "architecture", "cpu", "cores", "memory_bytes", "kernel")
    found = exact(value, keys=keys, what="host")
    return Host(
        id=digest(found, "id"),
        boot=digest(found, "boot"),
        architecture=text(found, "architecture"),
        cpu=text(found, "cpu"),
        cores=integer(found, "cores"),
        memory_bytes=integer(found, "memory_bytes"),
        kernel=text(found, "kernel"),
    )


def _maker(value: Json) -> Maker:
    keys = ("buildkit", "boot", "architecture", "cpu", "cores", "memory_bytes", "kernel", "steps")
    found = exact(value, keys=keys, what="builders")
    return Maker(
        buildkit=None if found["buildkit"] is None else text(found, "buildkit"),
        boot=digest(found, "boot"),
        architecture=text(found, "architecture"),
        cpu=text(found, "cpu"),
        cores=integer(found, "cores"),
        memory_bytes=integer(found, "memory_bytes"),
        kernel=text(found, "kernel"),
        steps=integer(found, "steps"),
    )
