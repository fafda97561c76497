# SPDX-License-Identifier: Apache-2.0
"""What a check says: that it holds, that something is wrong, or that nobody can tell; the last is no pass.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from derive.canonical import Json

Severity: TypeAlias = Literal["error", "warn"]
Verdict: TypeAlias = Literal["pass", "finding", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One answer of one check.

    ``id`` and ``severity`` are the check's; ``where`` is ``file`` or ``file: key.path``; ``message`` a lower-case
    fragment; ``detail`` aligned lines such as expected and got; ``fix`` one next step. A pass has what holds as its
    message, what was looked at as its place, and no fix.
    """

    id: str
    severity: Severity
    verdict: Verdict
    where: str
    message: str
    detail: tuple[str, ...] = ()
    fix: str | None = None

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {
            "verdict": self.verdict,
            "where": self.where,
            "message": self.message,
            "detail": list(self.detail),
            "fix": self.fix,
        }
