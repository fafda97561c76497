# SPDX-License-Identifier: Apache-2.0
"""What a promotion asks by way of evidence: that the shape was measured, or a waiver that says why not and until when.

Core: no IO. Entries of evidence are as records have them: docs/formats/release.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

from derive.canonical import Json
from derive.errors import InputErrors, Problem
from derive.promotion.part import Part
from derive.recipes.resolved import Resolved
from derive.records.kinds import is_line
from derive.releases.policy import date_text
from derive.releases.state import Waiver

_MEASURED = ("benchmark", "release-test")
"""Kinds of evidence that a shape answered: a kernel by itself says nothing of what is served with it."""

_OWN_KERNELS = "tilelang"
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Entry = Mapping[str, Json]


def for_shape(entries: Sequence[Entry], shape: str) -> tuple[Entry, ...]:
    """Return what is evidence for a shape: what names it, and reports of kernels that name none. Waivers are none."""
    return tuple(
        one
        for one in entries
        if one.get("kind") != "waiver"
        and (one.get("shape") == shape or (one.get("shape") is None and one.get("kind") == "kernel"))
    )


def evidence_part(resolved: Resolved, entries: Sequence[Entry], waiver: Waiver | None) -> Part:
    """Ask for evidence of a shape: ``entries`` are those given and those that came with the release."""
    own = for_shape(entries, resolved.shape)
    checked = tuple(f"{one['kind']}: {one['file']}" for one in own)
    if resolved.model is None:
        unchecked = () if own else ("evidence: the recipe serves no model, so there is nothing to measure",)
        return Part(checked=checked, unchecked=unchecked)
    absent = dict(_absent(resolved, own))
    if not absent:
        return Part(checked=checked)
    if waiver is not None:
        told = tuple(f"{what}: waived until {date_text(waiver.expires_s)}: {waiver.reason}" for what in absent)
        return Part(checked=checked, unchecked=told)
    strange = sorted({str(one.get("shape")) for one in entries if one.get("shape") not in (None, resolved.shape)})
    detail = (f"given     for {', '.join(strange)}",) if strange else ()
    return Part(
        problems=tuple(
            Problem(
                where=f"recipes/{resolved.recipe}.toml: shapes.{resolved.shape}",
                message=f"no {what}",
                detail=detail,
                hint=f"{hint}; or say why not, and until when: --waive REASON --expires YYYY-MM-DD",
            )
            for what, hint in absent.items()
        )
    )


def needs_waiver(resolved: Resolved, entries: Sequence[Entry]) -> bool:
    """Say whether something is absent that a waiver could stand for."""
    return resolved.model is not None and any(_absent(resolved, for_shape(entries, resolved.shape)))


def _absent(resolved: Resolved, own: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    kinds = {one.get("kind") for one in own}
    if not kinds.intersection(_MEASURED):
        yield "benchmark or release test of this shape", "measure it, and name the report: --evidence records/FILE"
    if resolved.kernel_backend == _OWN_KERNELS and "kernel" not in kinds:
        hint = "the shape runs the project's own kernels: derive kernels bench, and --evidence records/kernels/FILE"
        yield "kernel report", hint


def read_waiver(shape: str, reason: str | None, expires: str | None, now_s: int) -> Waiver | None:
    """Read what a person said of a waiver, None where nothing; until the end of that day, UTC.

    Raises:
        InputErrors: when one of the two is not said, or the day is none, or past: both at once.
    """
    if reason is None and expires is None:
        return None
    problems = []
    if not (reason or "").strip():
        hint = "say why there is no evidence: --waive REASON"
        problems.append(Problem(where="--waive", message="a waiver has a reason", hint=hint))
    elif not is_line((reason or "").strip()):
        message = f"not text in one line that can be printed: {reason!r}"
        problems.append(Problem(where="--waive", message=message, hint="write it as one line"))
    until = _until(expires)
    if until is None:
        message = "a waiver ends on a day" if expires is None else f"not a day: {expires!r}"
        problems.append(Problem(where="--expires", message=message, hint="as in --expires 2027-01-31"))
    elif until <= now_s:
        problems.append(Problem(where="--expires", message=f"{expires} is over", hint="name a day to come"))
    if problems or until is None:
        raise InputErrors(problems)
    return Waiver(shape=shape, reason=(reason or "").strip(), expires_s=until)


def waiver_entry(waiver: Waiver) -> dict[str, Json]:
    """Return a waiver as a record has it."""
    return {
        "kind": "waiver",
        "digest": None,
        "file": None,
        "shape": waiver.shape,
        "reason": waiver.reason,
        "expires_s": waiver.expires_s,
    }


def _until(expires: str | None) -> int | None:
    """Return the last second of a day, UTC."""
    if expires is None or not _DAY.fullmatch(expires):
        return None
    try:
        after = date.fromisoformat(expires) + timedelta(days=1)
    except (ValueError, OverflowError):
        return None
    return int(datetime(after.year, after.month, after.day, tzinfo=UTC).timestamp()) - 1
