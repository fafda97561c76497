# SPDX-License-Identifier: Apache-2.0
"""Takes the findings that are known out of those that were found; what is declared and was not found is a finding too.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from derive.canonical import Json
from derive.derivations.model import Platform
from derive.verify.findings import Finding, Owner, Rule

if TYPE_CHECKING:
    from derive.verify.declarations import ExceptionDecl


@dataclass(frozen=True, slots=True, kw_only=True)
class Excepted:
    """A declared exception and what it is an exception of, which is never nothing."""

    declared: ExceptionDecl
    findings: tuple[Finding, ...]

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        one = self.declared
        named: dict[str, Json] = {"path": one.path, "owner": one.owner, "about": one.about, "licence": one.licence}
        return {
            "rule": one.rule,
            **{key: value for key, value in named.items() if value is not None},
            "reason": one.reason,
            "findings": len(self.findings),
        }


def apply_exceptions(
    findings: Sequence[Finding], declared: Sequence[ExceptionDecl], platform: Platform, *, file: str
) -> tuple[tuple[Finding, ...], tuple[Excepted, ...]]:
    """Return the findings that stand, one for each exception that nothing needs among them, and the exceptions used.

    The first exception that fits a finding takes it. ``file`` is where they stand.
    """
    taken: dict[int, list[Finding]] = {}
    left: list[Finding] = []
    for finding in findings:
        found = next((index for index, one in enumerate(declared) if _fits(one, finding, platform)), None)
        if found is None:
            left.append(finding)
        else:
            taken.setdefault(found, []).append(finding)
    stale = [
        _stale(one, index, file)
        for index, one in enumerate(declared)
        if index not in taken and (not one.platforms or platform in one.platforms)
    ]
    used = tuple(Excepted(declared=declared[index], findings=tuple(taken[index])) for index in sorted(taken))
    return tuple(sorted([*left, *stale], key=lambda one: one.key)), used


def _fits(declared: ExceptionDecl, finding: Finding, platform: Platform) -> bool:
    if declared.rule != finding.rule.value or (declared.platforms and platform not in declared.platforms):
        return False
    wanted = (
        (declared.path, finding.path),
        (declared.owner, finding.owner.name),
        (declared.about, finding.about),
    )
    return all(pattern is None or fnmatchcase(text, pattern) for pattern, text in wanted)


def _stale(declared: ExceptionDecl, index: int, file: str) -> Finding:
    named = ", ".join(text for text in (declared.path, declared.owner, declared.about) if text is not None)
    return Finding(
        rule=Rule.STALE,
        path="",
        owner=Owner(kind="file", name=file),
        what=f"an exception of {declared.rule} that nothing needs: {named}",
        about=f"exceptions[{index}]",
        hint="remove it, or name the platform on which it is needed",
    )
