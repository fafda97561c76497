# SPDX-License-Identifier: Apache-2.0
"""Chains of records in memory and in a folder, with releases whose documents are sound.

Edge: writes below a folder that is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from derive.canonical import Json, sha256
from derive.records.chain import FOLDER
from derive.records.folder import next_file, sound
from derive.releases.document import Release
from derive.releases.facts import Facts
from support.reported import release

MADE_S = 1_790_000_000


class Chained:
    """A chain that grows. ``files`` are by their path below ``records/releases/``."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def add(self, kind: str, subject: str, body: Mapping[str, Json], suffix: str | None = None) -> str:
        """Append a record, and return its file's name."""
        name, data = next_file(sound(self.files), kind, subject, body, suffix)
        self.files[name] = data
        return name

    def release(
        self, name: str, *, moved: str = "", evidence: Iterable[Json] = (), previous: str | None = None
    ) -> tuple[Release, Facts]:
        """Append a candidate with its documents; ``moved`` makes of it another release."""
        found, facts = release("demo", moved=moved)
        documents = {"release.json": found.encoded(), "facts.json": facts.encoded()}
        self.files |= {f"{name}/{file}": data for file, data in documents.items()}
        self.add("candidate", name, candidate(found, documents, evidence, previous))
        return found, facts

    def promote(self, name: str, found: Release, shape: str, evidence: Iterable[Json] = ()) -> str:
        """Append the promotion of a shape."""
        return self.add("promoted", name, promoted(found, shape, evidence), shape)

    def retire(self, name: str, shape: str | None = None) -> str:
        """Append that a release, or a shape of it, is retired."""
        body: dict[str, Json] = {
            "release": name,
            "shape": shape,
            "by": "Ada",
            "why": "a node hung",
            "retired_s": MADE_S,
        }
        return self.add("retired", name, body, "retired")

    def write(self, root: Path) -> None:
        """Write every file below a project's folder."""
        for path, data in self.files.items():
            target = root / FOLDER / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def candidate(
    found: Release, documents: Mapping[str, bytes], evidence: Iterable[Json] = (), previous: str | None = None
) -> dict[str, Json]:
    """Return the body of a candidate's record."""
    return {
        "release": str(found.digest),
        "documents": {name: str(sha256(data)) for name, data in documents.items()},
        "images": {platform: str(image.digest) for platform, image in found.images.items()},
        "previous_release": previous,
        "made_by": "Ada",
        "made_s": MADE_S,
        "why": None,
        "commit": None,
        "modified": False,
        "texts": {},
        "evidence": list(evidence),
        "cost": {"duration_ns": None, "store_bytes": None},
    }


def promoted(found: Release, shape: str, evidence: Iterable[Json] = ()) -> dict[str, Json]:
    """Return the body of a promotion's record."""
    return {
        "release": str(found.digest),
        "shape": shape,
        "image": str(next(iter(found.images.values())).digest),
        "shape_bundle": str(found.shapes[shape].bundle),
        "by": "Ada",
        "why": None,
        "promoted_s": MADE_S + 1,
        "checked": ["the image"],
        "unchecked": [],
        "evidence": list(evidence),
        "certificates": [],
        "facts_age_s": None,
    }


def waiver(shape: str, expires_s: int, reason: str = "no machine at hand") -> dict[str, Json]:
    """Return a waiver as evidence has it."""
    return {
        "kind": "waiver",
        "digest": None,
        "file": None,
        "shape": shape,
        "reason": reason,
        "expires_s": expires_s,
    }


def two_releases() -> Chained:
    """Return a chain of two releases, the first of them promoted for a shape, and one retired."""
    chained = Chained()
    first, _ = chained.release("demo-1")
    chained.promote("demo-1", first, "ring")
    chained.release("demo-2", moved="lock", previous="demo-1")
    chained.retire("demo-1", "ring")
    return chained
