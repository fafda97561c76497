# SPDX-License-Identifier: Apache-2.0
"""Manifests, indices and configs of other people's images, in OCI's and in Docker's types, read strictly.

Core: no IO.

The bytes decide identity and are never written again; what is read here only says which blobs belong to an image.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import Digest
from derive.errors import Corrupt
from derive.images.oci import CONFIG_TYPE, INDEX_TYPE, MANIFEST_TYPE, Descriptor

DOCKER_INDEX_TYPE = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_CONFIG_TYPE = "application/vnd.docker.container.image.v1+json"

ACCEPT = f"{INDEX_TYPE}, {MANIFEST_TYPE}, {DOCKER_INDEX_TYPE}, {DOCKER_MANIFEST_TYPE}"
"""What a registry is asked for: without it, some convert what they hold to a form of long ago."""

LONGEST_MANIFEST = 4 << 20
"""Bytes; what registries take at most."""
LONGEST_CONFIG = 16 << 20
"""Bytes; real ones have some thousands."""

_INDEX_TYPES = frozenset((INDEX_TYPE, DOCKER_INDEX_TYPE))
_MANIFEST_TYPES = frozenset((MANIFEST_TYPE, DOCKER_MANIFEST_TYPE))
_CONFIG_TYPES = frozenset((CONFIG_TYPE, DOCKER_CONFIG_TYPE))
_IMPLIED_VARIANTS = frozenset((("arm64", "v8"), ("amd64", "v1")))
_LARGEST = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """An image index: each platform's manifest, the first one where two claim the same; attestations left out."""

    manifests: tuple[tuple[str, Descriptor], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One platform's image: its config, and its layers, lowest first."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a config says of the image: its platform, and the digest of each layer's uncompressed tar."""

    platform: str
    diff_ids: tuple[Digest, ...]


def parse_manifest(data: bytes, *, where: str, stated: str = "") -> tuple[str, Index | Manifest]:
    """Read what a registry holds under a reference, and return its media type with it.

    ``stated`` is the type that came beside the bytes, for manifests that do not say their own.

    Raises:
        Corrupt: when it is no image, in a form that is not read, or says two things of itself.
    """
    document = _Table(_load(data, where), where)
    if document.has("schemaVersion") and document.integer("schemaVersion") != 2:
        raise Corrupt("an image in the form of Docker's schema 1, which is not read", where=where)
    own = document.text("mediaType") if document.has("mediaType") else ""
    outer = stated.partition(";")[0].strip()
    known = _INDEX_TYPES | _MANIFEST_TYPES
    if own and outer in known and own != outer:
        raise Corrupt("a manifest of two types", where=where, detail=[f"says      {own}", f"served as {outer}"])
    media_type = own or (outer if outer in known else _guess(document))
    if document.has("manifests") == document.has("layers") or document.has("manifests") != (media_type in _INDEX_TYPES):
        raise Corrupt(f"neither an image's manifest nor an index of images: {media_type or 'no type'}", where=where)
    if media_type in _INDEX_TYPES:
        return media_type, _index(document)
    config = document.descriptor("config")
    if media_type not in _MANIFEST_TYPES or config.media_type not in _CONFIG_TYPES:
        raise Corrupt("an artifact that is no image", where=where, detail=[f"its type  {config.media_type}"])
    return media_type, Manifest(config=config, layers=document.descriptors("layers"))


def parse_config(data: bytes, *, where: str) -> Config:
    """Read an image's config; raises Corrupt when it is none."""
    document = _Table(_load(data, where), where)
    rootfs = document.table("rootfs")
    return Config(platform=_platform(document), diff_ids=tuple(rootfs.digests("diff_ids")))


class _Twice(ValueError):
    """A key stands twice in an object."""


def _load(data: bytes, where: str) -> object:
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_distinct)
    except _Twice as error:
        raise Corrupt("cannot be read as JSON: a key stands twice", where=where) from error
    except (ValueError, RecursionError) as error:
        raise Corrupt("cannot be read as JSON", where=where) from error


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # Two readers of a document with a key twice see two images.
    if len(dict(pairs)) != len(pairs):
        raise _Twice
    return dict(pairs)


def _guess(document: _Table) -> str:
    """OCI lets a document leave out its own type."""
    if document.has("manifests"):
        return INDEX_TYPE
    return MANIFEST_TYPE if document.has("layers") else ""


def _index(document: _Table) -> Index:
    found: dict[str, Descriptor] = {}
    for entry in document.tables("manifests"):
        descriptor = entry.as_descriptor()
        if descriptor.media_type in _INDEX_TYPES:
            raise Corrupt("an index of indices, which is not read", where=entry.where)
        if descriptor.media_type not in _MANIFEST_TYPES or not entry.has("platform"):
            continue
        platform = _platform(entry.table("platform"))
        if not platform.startswith("unknown/"):
            found.setdefault(platform, descriptor)
    return Index(manifests=tuple(found.items()))


def _platform(table: _Table) -> str:
    os, architecture = table.text("os"), table.text("architecture")
    variant = table.text("variant") if table.has("variant") else ""
    if not variant or (architecture, variant) in _IMPLIED_VARIANTS:
        return f"{os}/{architecture}"
    return f"{os}/{architecture}/{variant}"


class _Table:
    """A JSON object being read; what is absent or of another type is Corrupt, by its place."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, Mapping):
            raise Corrupt("not a JSON object", where=where)
        self._value = value
        self.where = where

    def has(self, key: str) -> bool:
        return self._value.get(key) not in (None, "")

    def table(self, key: str) -> _Table:
        return _Table(self._value.get(key), f"{self.where}: {key}")

    def tables(self, key: str) -> tuple[_Table, ...]:
        return tuple(
            _Table(item, f"{self.where}: {key}[{index}]") for index, item in enumerate(self._list(key, "objects"))
        )

    def text(self, key: str) -> str:
        value = self._value.get(key)
        if not isinstance(value, str):
            raise Corrupt(f"{key}: not text", where=self.where)
        return value

    def integer(self, key: str) -> int:
        value = self._value.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LARGEST:
            raise Corrupt(f"{key}: not a size or number", where=self.where)
        return value

    def digests(self, key: str) -> list[Digest]:
        return [_digest(item, self.where) for item in self._list(key, "digests")]

    def descriptor(self, key: str) -> Descriptor:
        return self.table(key).as_descriptor()

    def descriptors(self, key: str) -> tuple[Descriptor, ...]:
        return tuple(item.as_descriptor() for item in self.tables(key))

    def as_descriptor(self) -> Descriptor:
        return Descriptor(
            media_type=self.text("mediaType"),
            digest=_digest(self._value.get("digest"), self.where),
            size=self.integer("size"),
        )

    def _list(self, key: str, what: str) -> Sequence[object]:
        value = self._value.get(key)
        if not isinstance(value, list):
            raise Corrupt(f"{key}: not a list of {what}", where=self.where)
        return value


def _digest(value: object, where: str) -> Digest:
    try:
        return Digest.parse(value if isinstance(value, str) else repr(value))
    except ValueError as error:
        raise Corrupt(f"{error}; only SHA-256 is used", where=where) from error
