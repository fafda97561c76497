# SPDX-License-Identifier: Apache-2.0
"""What a capsule says of itself: of which release it is, and what each of its blobs is for.

Core: no IO. The document is specified on docs/formats/capsule.md.

It is a function of the release and the platforms alone: no time, machine, store or user stands in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

from derive.canonical import CanonicalError, Digest, Json, decode, encode
from derive.derivations.model import PLATFORMS, Platform
from derive.errors import Corrupt
from derive.images.documents import DocumentError, exact, fields, integer, items, mapping, text, texts

TAG = "capsule/1"

RELEASE, FACTS, RECORD, CONTENT, PROOF, ROOT = "release", "facts", "record", "content", "proof", "engine-root"
"""Kinds of uses; every other kind is the builder of a fetch, such as ``fetch-deb``."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Use:
    """What a blob is for: a kind, and the name that people know it by (a path, an artifact, a platform)."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A blob and all its uses, sorted, at least one; ``size`` in bytes."""

    digest: Digest
    size: int
    uses: tuple[Use, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsuleDocument:
    """The capsule of one release. ``parts`` are sorted by digest, nothing twice.

    ``platforms`` are those of the images that derive from it, ``engine`` those of the engine that derives them.
    ``trees``: the digest of each blob that is a NAR, with that of the proof of its commit; None for one without.
    """

    name: str
    release: Digest
    platforms: tuple[Platform, ...]
    engine: tuple[Platform, ...]
    parts: tuple[Part, ...]
    trees: Mapping[Digest, Digest | None]

    def __post_init__(self) -> None:
        object.__setattr__(self, "trees", MappingProxyType(dict(self.trees)))

    @property
    def size(self) -> int:
        """Bytes of all blobs."""
        return sum(part.size for part in self.parts)

    @property
    def blobs(self) -> int:
        """How many blobs a layout has for it: what it is made of, this document, and the manifest that names all."""
        return len(self.parts) + 2

    def of(self, kind: str) -> dict[str, Digest]:
        """Return what is there of a kind, by name."""
        return {use.name: part.digest for part in self.parts for use in part.uses if use.kind == kind}

    def encoded(self) -> bytes:
        """Return the canonical bytes."""
        return encode(
            {
                "derive": TAG,
                "name": self.name,
                "release": str(self.release),
                "platforms": list(self.platforms),
                "engine": list(self.engine),
                "blobs": [
                    {
                        "sha256": part.digest.hex,
                        "size_bytes": part.size,
                        "for": [{"kind": use.kind, "name": use.name} for use in part.uses],
                    }
                    for part in self.parts
                ],
                "trees": {nar.hex: None if proof is None else proof.hex for nar, proof in self.trees.items()},
            }
        )


def parts_of(found: Iterable[tuple[Use, Digest, int]]) -> tuple[Part, ...]:
    """Put uses together by blob, whatever order they come in; raises ValueError when a blob has two sizes."""
    sizes: dict[Digest, int] = {}
    uses: dict[Digest, set[Use]] = {}
    for use, digest, size in found:
        if sizes.setdefault(digest, size) != size:
            raise ValueError(f"two sizes of {digest}")
        uses.setdefault(digest, set()).add(use)
    return tuple(Part(digest=key, size=sizes[key], uses=tuple(sorted(uses[key]))) for key in sorted(sizes))


def read_document(data: bytes, where: str) -> CapsuleDocument:
    """Read what :meth:`CapsuleDocument.encoded` wrote; raises Corrupt on anything else."""
    try:
        found = _document(decode(data))
    except (CanonicalError, DocumentError, ValueError, KeyError) as error:
        raise Corrupt(f"no document of a capsule: {error}", where=where) from error
    if found.encoded() != data:
        raise Corrupt("the document of a capsule is not written as one is", where=where)
    return found


def _document(value: Json) -> CapsuleDocument:
    found = fields(value, tag=TAG, keys=("name", "release", "platforms", "engine", "blobs", "trees"))
    parts = []
    for item in items(found, "blobs"):
        blob = exact(item, keys={"sha256", "size_bytes", "for"}, what="blobs")
        uses = [_use(use) for use in items(blob, "for")]
        if not uses:
            raise DocumentError("blobs: one that is for nothing")
        parts += [(use, Digest(text(blob, "sha256")), integer(blob, "size_bytes")) for use in uses]
    if any(size < 0 for _, _, size in parts):
        raise DocumentError("size_bytes: below 0")
    trees = mapping(found["trees"], "trees")
    return CapsuleDocument(
        name=text(found, "name"),
        release=Digest.parse(text(found, "release")),
        platforms=tuple(_platform(one) for one in texts(found, "platforms")),
        engine=tuple(_platform(one) for one in texts(found, "engine")),
        parts=parts_of(parts),
        trees={Digest(nar): None if proof is None else Digest(text(trees, nar)) for nar, proof in trees.items()},
    )


def _use(item: Json) -> Use:
    found = exact(item, keys={"kind", "name"}, what="for")
    return Use(kind=text(found, "kind"), name=text(found, "name"))


def _platform(name: str) -> Platform:
    for platform in PLATFORMS:
        if platform == name:
            return platform
    raise DocumentError(f"platforms, engine: none of {', '.join(get_args(Platform))}: {name!r}")
