# SPDX-License-Identifier: Apache-2.0
"""What verifying an image finds: a rule, a path, whose it is, what is wrong, and one next step.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from derive.canonical import Json


class Rule(Enum):
    """What a finding is about; the value is its name in files and tables."""

    PLATFORM = "platform"
    LIBRARY = "library"
    SYMBOL = "symbol-version"
    GPU = "gpu"
    DRIVER = "driver"
    REQUIREMENT = "requirement"
    RECORD = "record"
    OWNERS = "two-owners"
    INTERPRETER = "interpreter"
    LINK = "link"
    CONFIG = "config"
    PRIVILEGE = "privilege"
    LICENCE = "licence"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose a path is: a wheel, a Debian package, or the derivation that made it."""

    kind: str
    name: str
    version: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, self.name, self.version) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found. ``path`` is escaped, with a slash before it, and empty for what lies at none.

    ``about`` is what an exception can name besides: a library, a requirement, an architecture.
    """

    rule: Rule
    path: str
    owner: Owner
    what: str
    about: str = ""
    expected: str = ""
    got: str = ""
    hint: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """What findings are sorted by, and are the same by: not the version of whose file it is."""
        return (self.rule.value, self.owner.kind, self.owner.name, self.path, self.about, self.what)

    def document(self) -> dict[str, Json]:
        """Return the finding as it stands in a record."""
        found: Mapping[str, Json] = {
            "rule": self.rule.value,
            "path": self.path,
            "owner": str(self.owner),
            "what": self.what,
            "about": self.about,
            "expected": self.expected,
            "got": self.got,
            "hint": self.hint,
        }
        return {key: value for key, value in found.items() if value}
