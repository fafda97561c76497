# SPDX-License-Identifier: Apache-2.0
"""Asks every check, and says how each came out: as findings, and as one verdict.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.doctor.check import Answer, Check, answers
from derive.doctor.finding import Finding, Verdict
from derive.errors import Problem
from derive.words import count_text

if TYPE_CHECKING:
    from derive.doctor.case import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How one check came out. ``findings`` is never empty: a pass is one too, and the worst come first."""

    check: Check
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of its findings: wrong, then not known, then well."""
        return self.findings[0].verdict

    @property
    def blocks(self) -> bool:
        """Whether this makes the answer no: what is not known is not well."""
        return self.check.severity == "error" and self.verdict != "pass"


def judge(case: Case, checks: Iterable[Check]) -> tuple[Judged, ...]:
    """Ask each check in turn."""
    return tuple(_judged(case, check) for check in checks)


def _judged(case: Case, check: Check) -> Judged:
    found = dict.fromkeys(_finding(check, answer) for answer in answers(lambda: check.judge(case), check.place))
    ordered = sorted(found, key=lambda one: one.verdict != "finding")
    return Judged(check=check, findings=tuple(ordered) or (_pass(case, check),))


def _finding(check: Check, answer: Answer) -> Finding:
    if isinstance(answer, Problem):
        return Finding(
            id=check.id,
            severity=check.severity,
            verdict="finding",
            where=answer.where,
            message=answer.message,
            detail=answer.detail,
            fix=answer.hint or check.fix,
        )
    return Finding(
        id=check.id,
        severity=check.severity,
        verdict="unknown",
        where=answer.where,
        message=answer.reason,
        fix=answer.fix,
    )


def _pass(case: Case, check: Check) -> Finding:
    looked_at = {
        "project": check.place,
        "shapes": count_text(len(case.shapes), "shape") if case.shapes else "there is no shape",
        "site": case.site_name,
    }
    return Finding(
        id=check.id, severity=check.severity, verdict="pass", where=looked_at[check.over], message=check.what
    )
