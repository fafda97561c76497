# SPDX-License-Identifier: Apache-2.0
"""What a bisection says: each run in a line, and at its end the edits that flip the verdict.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from derive.bisect.edits import Edit
from derive.bisect.search import Verdict
from derive.canonical import Json
from derive.words import count_text, duration_text

UNJUDGED = 125
"""The exit code by which a command says that it cannot judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One judgement. ``exit_code`` is the command's; None where there is none, and ``why`` says so."""

    edits: int
    exit_code: int | None
    why: str = ""
    duration_ns: int = 0
    remembered: bool = False

    @property
    def verdict(self) -> Verdict:
        """What it says: 0 is like A."""
        if self.exit_code in (None, UNJUDGED):
            return Verdict.UNKNOWN
        return Verdict.OLD if self.exit_code == 0 else Verdict.NEW


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Edits that are made together, and what it is expected to cost to derive A with them: None where unknown."""

    edits: tuple[Edit, ...]
    price_ns: int | None
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known at the end, or where it was stopped. ``found`` are the edits of the smallest set known to flip.

    There are none before A and B were judged. ``whole``: nothing can be left out of it; else the search was stopped
    before that was known.
    """

    before: str
    after: str
    image: str
    command: tuple[str, ...]
    edits: tuple[Edit, ...]
    found: tuple[Edit, ...]
    whole: bool
    runs: int
    remembered: int


def run_line(number: int, ran: Ran, total: int, remaining: int) -> str:
    """Say one judgement in a line, and how many edits may still be in the answer."""
    which = "A" if ran.edits == 0 else "B" if ran.edits == total else f"{ran.edits} of {count_text(total, 'edit')}"
    code = "" if ran.exit_code is None else f" (exit {ran.exit_code})"
    took = ", known from before" if ran.remembered else f", {duration_text(ran.duration_ns)}"
    why = f": {ran.why}" if ran.why else ""
    left = f"{count_text(remaining, 'edit')} {'remains' if remaining == 1 else 'remain'}"
    return f"run {number}: A with {which}: {ran.verdict.value}{code}{why}{took}; {left}".replace(
        "A with A:", "A:"
    ).replace("A with B:", "B:")


def unit_lines(units: Sequence[Unit]) -> Iterator[str]:
    """Say what would be tried, cheapest first."""
    for unit in units:
        price = "nothing to build" if not unit.steps else count_text(unit.steps, "step")
        if unit.steps and unit.price_ns is not None:
            price += f", {duration_text(unit.price_ns)}"
        first, *others = unit.edits
        yield f"{first}  ({price})"
        yield from (f"  together with {other}" for other in others)


def answer_lines(answer: Answer) -> Iterator[str]:
    """Say the edits that flip the verdict."""
    edits = count_text(len(answer.edits), "edit")
    if not answer.found:
        what = "B was not judged" if answer.runs + answer.remembered else "nothing was judged"
        yield f"stopped: {what}, and nothing is known of the {edits} between A and B"
        return
    many = f"{len(answer.found)} of {edits}"
    judged = count_text(answer.runs, "run") + (f", {answer.remembered} known from before" if answer.remembered else "")
    if answer.whole:
        yield f"{many} flip the verdict, and none of them can be left out ({judged}):"
    else:
        yield f"stopped: {many} flip the verdict, as far as is known ({judged}):"
    yield from (f"  {edit}" for edit in answer.found)


def answer_body(answer: Answer) -> dict[str, Json]:
    """Return the answer as the body of a record."""
    return {
        "before": answer.before,
        "after": answer.after,
        "image": answer.image,
        "command": list(answer.command),
        "edits": [edit_document(edit) for edit in answer.edits],
        "found": [edit_document(edit) for edit in answer.found],
        "whole": answer.whole,
        "runs": answer.runs,
        "remembered": answer.remembered,
    }


def units_body(before: str, after: str, units: Sequence[Unit]) -> dict[str, Json]:
    """Return what would be tried as the body of a record."""
    return {
        "before": before,
        "after": after,
        "units": [
            {
                "edits": [edit_document(edit) for edit in unit.edits],
                "expected_ns": unit.price_ns,
                "steps": unit.steps,
            }
            for unit in units
        ],
    }


def edit_document(edit: Edit) -> dict[str, Json]:
    """Return an edit as a part of a record."""
    return {"file": edit.file, "key": list(edit.key), "place": edit.place, "what": edit.words}
