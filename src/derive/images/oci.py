# SPDX-License-Identifier: Apache-2.0
"""Layers and a configuration become an OCI image: two canonical documents, whose digest is the image's name.

Core: no IO.

The documents are specified on docs/formats/image.md. No commit, date, host or builder enters; attestations and bills of
materials refer to the image from outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from derive.canonical import CanonicalError, Digest, Json, decode, encode, sha256
from derive.errors import Corrupt, InputErrors, Problem, expected_got
from derive.images import docker
from derive.images.documents import digest, fields, integer, items, mapping, text, text_map, texts
from derive.images.layer import LayerDescriptor

TAG = "image-config/1"
CREATED = "1980-01-01T00:00:00Z"
DERIVATION_LABEL = "io.derive.derivation"
OVERLAY_LABEL = "io.derive.overlay"
"""Says which work trees lie over an image. One that has it is never promoted."""
CAPABILITIES_LABEL = "io.derive.capabilities"
"""What an image can do: names, sorted and separated by spaces. An image without any has no such label."""
BACKEND_LABEL = "io.derive.backend"
"""What assembled an image, where it was not derive itself."""
NATIVE_LABEL = "io.derive.native"
"""The digest of the image that derive made, whose files and settings one of another backend has."""
EXPORT_ANNOTATION = "io.derive.export"
NAME_ANNOTATION = "org.opencontainers.image.ref.name"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
LAYOUT = encode({"imageLayoutVersion": "1.0.0"})

_PLATFORMS: Mapping[str, Mapping[str, str]] = {
    "linux/amd64": {"os": "linux", "architecture": "amd64"},
    "linux/arm64": {"os": "linux", "architecture": "arm64", "variant": "v8"},
}
_VARIABLE = re.compile(r"[^=\0]+")
_PORT = re.compile(r"[1-9][0-9]{0,4}(/(tcp|udp|sctp))?")
_SIGNALS = (
    "ABRT ALRM BUS CHLD CONT FPE HUP ILL INT IO KILL PIPE POLL PROF PWR QUIT SEGV STKFLT STOP SYS TERM TRAP TSTP TTIN"
    " TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ"
)
_SIGNAL = re.compile(rf"SIG({'|'.join(_SIGNALS.split())}|RTMIN(\+[1-9][0-9]?)?|RTMAX(-[1-9][0-9]?)?)|[1-9][0-9]?")
_PERSON = r"([0-9]+|[A-Za-z_][A-Za-z0-9_.-]*)"
_USER = re.compile(rf"({_PERSON}(:{_PERSON})?)?")
_NAME = re.compile(r"[A-Za-z0-9]+([-._:@+/]+[A-Za-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """How a container of the image is started. What is empty is left out of the image.

    ``environment``, ``labels`` and ``annotations`` have no order: they are written sorted. ``annotations`` stand on the
    manifest, labels in the config.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""
    working_folder: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    stop_signal: str = ""
    exposed_ports: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("environment", "labels", "annotations"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        object.__setattr__(self, "exposed_ports", tuple(sorted(set(self.exposed_ports))))

    def to_document(self) -> dict[str, Json]:
        """Return the configuration as the part of a derivation that it is."""
        return {
            "derive": TAG,
            "environment": dict(self.environment),
            "entrypoint": self.entrypoint,
            "command": self.command,
            "user": self.user,
            "working-folder": self.working_folder,
            "labels": dict(self.labels),
            "stop-signal": self.stop_signal,
            "exposed-ports": self.exposed_ports,
            "annotations": dict(self.annotations),
        }

    @classmethod
    def from_document(cls, document: Json) -> ImageConfig:
        """Read what :meth:`to_document` wrote; raises ValueError on anything else."""
        keys = ("environment", "entrypoint", "command", "user", "working-folder")
        found = fields(document, tag=TAG, keys=(*keys, "labels", "stop-signal", "exposed-ports", "annotations"))
        return cls(
            environment=text_map(found, "environment"),
            entrypoint=texts(found, "entrypoint"),
            command=texts(found, "command"),
            user=text(found, "user"),
            working_folder=text(found, "working-folder"),
            labels=text_map(found, "labels"),
            stop_signal=text(found, "stop-signal"),
            exposed_ports=texts(found, "exposed-ports"),
            annotations=text_map(found, "annotations"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDocuments:
    """The config and the manifest, as bytes. The manifest's digest is the image digest."""

    config: bytes
    manifest: bytes

    @property
    def digest(self) -> Digest:
        """The image digest."""
        return sha256(self.manifest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A blob as an image names it; ``size`` in bytes."""

    media_type: str
    digest: Digest
    size: int

    def to_document(self) -> dict[str, Json]:
        """Return the descriptor as OCI writes it."""
        return {"mediaType": self.media_type, "digest": str(self.digest), "size": self.size}


def config_problems(config: ImageConfig, *, where: str = "") -> tuple[Problem, ...]:
    """Return what cannot stand in an image's configuration."""
    return tuple(Problem(where=where, message=message) for message in _faults(config))


def image_documents(
    config: ImageConfig, layers: Sequence[LayerDescriptor], *, platform: str, derivation: Digest
) -> ImageDocuments:
    """Encode an image; ``derivation`` is the image step's own derivation id, carried as a label.

    Raises:
        InputErrors: when the configuration cannot stand in an image.
        ValueError: on an unknown platform, or layers of two media types.
    """
    problems = config_problems(config)
    if problems:
        raise InputErrors(problems)
    if platform not in _PLATFORMS:
        raise ValueError(f"unknown platform: {platform}")
    if len({layer.media_type for layer in layers}) > 1:
        raise ValueError("an image has layers of one media type")
    config_bytes = encode(
        {
            **_PLATFORMS[platform],
            "created": CREATED,
            "config": _execution(config, derivation),
            "rootfs": {"type": "layers", "diff_ids": [str(layer.diff_id) for layer in layers]},
            "history": [{"created": CREATED, "created_by": "derive"} for _ in layers],
        }
    )
    manifest: dict[str, Json] = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": Descriptor(media_type=CONFIG_TYPE, digest=sha256(config_bytes), size=len(config_bytes)).to_document(),
        "layers": [
            Descriptor(media_type=layer.media_type, digest=layer.blob, size=layer.size).to_document()
            for layer in layers
        ],
    }
    if config.annotations:
        manifest["annotations"] = config.annotations
    return ImageDocuments(config=config_bytes, manifest=encode(manifest))


def named_blobs(manifest: bytes) -> tuple[Descriptor, ...]:
    """Return the blobs that a manifest names, the config first.

    Raises:
        Corrupt: when the bytes are no image manifest.
    """
    try:
        document = mapping(decode(manifest), "manifest")
        if document.get("mediaType") != MANIFEST_TYPE:
            got = document.get("mediaType")
            raise Corrupt("not an OCI image manifest", detail=expected_got(MANIFEST_TYPE, got))
        return tuple(_descriptor(item) for item in (document["config"], *items(document, "layers")))
    except (KeyError, ValueError) as error:
        raise Corrupt(f"the image's manifest cannot be read: {error}") from error


def platform_of(config: bytes) -> dict[str, Json]:
    """Return the platform that an image's config states, as an index writes it; raises Corrupt on anything else."""
    try:
        document = mapping(decode(config), "config")
        return {key: text(document, key) for key in ("architecture", "os", "variant") if key in document}
    except ValueError as error:
        raise Corrupt(f"the image's config cannot be read: {error}") from error


def index(manifest: Descriptor, *, platform: Mapping[str, Json], name: str) -> bytes:
    """Encode the index of an exported layout, which names one image.

    Raises:
        InputErrors: when the name is not one that OCI allows.
    """
    if not _NAME.fullmatch(name):
        raise InputErrors.one(f"an OCI layout cannot name an image {name!r}")
    annotations = {NAME_ANNOTATION: name}
    local = docker.local_name(name)
    if local is not None:
        annotations[docker.NAME_ANNOTATION] = local
    entry = {**manifest.to_document(), "platform": platform, "annotations": annotations}
    return encode(
        {
            "schemaVersion": 2,
            "mediaType": INDEX_TYPE,
            "manifests": [entry],
            "annotations": {EXPORT_ANNOTATION: "1"},
        }
    )


def is_export(index_bytes: bytes) -> bool:
    """Say whether this index is one that :func:`index` wrote."""
    try:
        document = decode(index_bytes)
    except CanonicalError:
        return False
    annotations = document.get("annotations") if isinstance(document, Mapping) else None
    return isinstance(annotations, Mapping) and annotations.get(EXPORT_ANNOTATION) == "1"


def _descriptor(value: Json) -> Descriptor:
    found = mapping(value, "descriptor")
    return Descriptor(media_type=text(found, "mediaType"), digest=digest(found, "digest"), size=integer(found, "size"))


def _execution(config: ImageConfig, derivation: Digest) -> dict[str, Json]:
    full: dict[str, Json] = {
        "User": config.user,
        "ExposedPorts": {port: {} for port in config.exposed_ports},
        "Env": [f"{name}={value}" for name, value in sorted(config.environment.items())],
        "Entrypoint": config.entrypoint,
        "Cmd": config.command,
        "WorkingDir": config.working_folder,
        "Labels": {**config.labels, DERIVATION_LABEL: str(derivation)},
        "StopSignal": config.stop_signal,
    }
    return {key: value for key, value in full.items() if value}


def _faults(config: ImageConfig) -> Iterator[str]:
    for name, value in config.environment.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            yield f"no environment variable: {name!r}"
    for argument in (*config.entrypoint, *config.command):
        if "\0" in argument:
            yield f"a zero byte in an argument: {argument!r}"
    if config.working_folder and not config.working_folder.startswith("/"):
        yield f"the working folder is no absolute path: {config.working_folder!r}"
    if not _USER.fullmatch(config.user):
        yield f"no user, nor user and group: {config.user!r}"
    if config.stop_signal and not _SIGNAL.fullmatch(config.stop_signal):
        yield f"no signal: {config.stop_signal!r}"
    yield from _name_faults(config)


def _name_faults(config: ImageConfig) -> Iterator[str]:
    for port in config.exposed_ports:
        if not _PORT.fullmatch(port) or int(port.partition("/")[0]) > 65535:
            yield f"no port: {port!r}"
    for kind, names in (("label", config.labels), ("annotation", config.annotations)):
        if "" in names:
            yield f"an empty {kind} name"
    if DERIVATION_LABEL in config.labels:
        yield f"the label {DERIVATION_LABEL} is written by the image step"
