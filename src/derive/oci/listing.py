# SPDX-License-Identifier: Apache-2.0
"""The index of what refers to an image, as a registry keeps it, or under a tag by those who push.

Core: no IO.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from derive.canonical import Digest, Json
from derive.errors import Corrupt
from derive.images.oci import INDEX_TYPE, MANIFEST_TYPE, Descriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One referrer as an index names it."""

    manifest: Descriptor
    artifact_type: str
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def to_document(self) -> dict[str, Json]:
        """Return it as OCI writes it."""
        entry: dict[str, Json] = {**self.manifest.to_document(), "artifactType": self.artifact_type}
        return entry | ({"annotations": dict(self.annotations)} if self.annotations else {})


def parse_listing(data: bytes, *, where: str) -> tuple[Descriptor, ...]:
    """Return the manifests of artifacts that an index lists, each once; entries of other types are passed over.

    Raises:
        Corrupt: when it is no index.
    """
    found: dict[Digest, Descriptor] = {}
    for entry in _entries(data, where):
        if not isinstance(entry, Mapping) or entry.get("mediaType") != MANIFEST_TYPE:
            continue
        try:
            digest, size = Digest.parse(str(entry.get("digest"))), entry.get("size")
        except ValueError:
            continue
        if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
            found.setdefault(digest, Descriptor(media_type=MANIFEST_TYPE, digest=digest, size=size))
    return tuple(found.values())


def with_listed(data: bytes | None, listed: Iterable[Listed], *, where: str) -> bytes | None:
    """Return an index with more entries, every other one as it was; None where it has them all.

    Raises:
        Corrupt: when what is there is no index: somebody uses the tag for something else.
    """
    entries = [] if data is None else _entries(data, where)
    known = {entry.get("digest") for entry in entries if isinstance(entry, Mapping)}
    new = [one.to_document() for one in listed if str(one.manifest.digest) not in known]
    if not new and data is not None:
        return None
    document = {"schemaVersion": 2, "mediaType": INDEX_TYPE} if data is None else json.loads(data)
    document["manifests"] = [*entries, *sorted(new, key=lambda entry: str(entry["digest"]))]
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _entries(data: bytes, where: str) -> list[object]:
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Corrupt("cannot be read as JSON", where=where) from error
    entries = document.get("manifests") if isinstance(document, Mapping) else None
    if not isinstance(entries, list):
        raise Corrupt("no index of what refers to an image", where=where)
    return entries
