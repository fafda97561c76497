# SPDX-License-Identifier: Apache-2.0
"""What a check of a store finds: a thing, what is wrong with it, and what is lost by that.

Core: no IO.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from derive.canonical import Digest, Json


class Kind(Enum):
    """What a finding is about; the value is its word for people."""

    BLOB = "blob"
    LISTING = "listing"
    FOLDER = "unpacked tree"
    DERIVATION = "derivation row"
    REALISATION = "realisation row"
    TREE_ROWS = "tree rows"
    DATABASE = "database"
    INDEX = "image index"
    ROOT = "root"
    REFERRER = "referrer"
    PROOF = "git proof"
    ORPHAN = "orphan"
    STRAY = "stray file"


_LITTER = frozenset({Kind.ORPHAN, Kind.STRAY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found. ``name`` is a digest's hex, a root's name, or a path below the store."""

    kind: Kind
    name: str
    what: str
    lost: str = "nothing"

    @property
    def is_damage(self) -> bool:
        """Whether something is wrong; what a killed process left behind, and nothing names, is not."""
        return self.kind not in _LITTER

    @property
    def digest(self) -> Digest:
        """The digest that the name is; raises ValueError for a name that is none."""
        return Digest(self.name)

    def document(self) -> dict[str, Json]:
        """Return the finding as it stands in a record."""
        return {"kind": self.kind.value, "name": self.name, "what": self.what, "lost": self.lost}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was looked at and what was found; sizes in bytes. ``proved`` counts trees that are their git commits'."""

    findings: tuple[Finding, ...]
    blobs: int
    hashed: int
    trees: int
    folders: int
    derivations: int
    proved: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        return not any(finding.is_damage for finding in self.findings)

    def document(self) -> dict[str, Json]:
        """Return it as a record's body."""
        return {
            "sound": self.is_sound,
            "findings": [finding.document() for finding in self.findings],
            "blobs": self.blobs,
            "hashed_bytes": self.hashed,
            "trees": self.trees,
            "unpacked_trees": self.folders,
            "derivations": self.derivations,
            "proved_git_trees": self.proved,
        }
