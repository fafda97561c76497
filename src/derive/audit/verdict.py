# SPDX-License-Identifier: Apache-2.0
"""What an audit found, for machines and for people.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from derive.audit.compare import Compared, First, Moved
from derive.canonical import Digest, Json
from derive.derivations.model import Output, Platform
from derive.errors import Problem
from derive.why.render import Line, Span, line, render
from derive.words import count_text

Outcome: TypeAlias = Literal["same", "differs", "altered", "whole"]
"""``whole``: hashes and chain hold, and nothing was built; ``altered``: they do not."""

_ROWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What building the first step that differs once more gave: its outputs, or why it was not built.

    ``differs`` names the outputs that are others than the first time.
    """

    outputs: Mapping[str, Output] | None
    differs: tuple[str, ...] = ()
    why_not: str | None = None

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        outputs: Json = None if self.outputs is None else {key: str(one) for key, one in sorted(self.outputs.items())}
        return {"outputs": outputs, "differs": list(self.differs), "why_not": self.why_not}


@dataclass(frozen=True, slots=True, kw_only=True)
class Today:
    """What the engine at hand gives of the same content. ``moved`` are steps of equal ids and other outputs.

    ``unlike`` counts derivations whose ids are others: their builders have new versions.
    """

    engine: Digest
    moved: tuple[Moved, ...]
    unlike: int
    why_not: str | None = None

    @property
    def builders(self) -> tuple[str, ...]:
        """The builders whose outputs changed while their version did not."""
        return tuple(sorted({one.builder for one in self.moved}))

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {
            "engine": str(self.engine),
            "moved": [one.document() for one in self.moved],
            "builders": list(self.builders),
            "other_ids": self.unlike,
            "why_not": self.why_not,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer. ``shown`` is the bounded difference of the first divergence; ``checked`` what was looked at."""

    name: str
    release: Digest
    outcome: Outcome
    platforms: tuple[Platform, ...] = ()
    images: Mapping[Platform, Digest] | None = None
    problems: tuple[Problem, ...] = ()
    checked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    compared: Compared | None = None
    first: First | None = None
    shown: Sequence[Line] = ()
    shown_of: str = ""
    again: Again | None = None
    today: Today | None = None
    engine: Mapping[str, Json] | None = None

    @property
    def exit_code(self) -> int:
        """0 where everything is as recorded, else 1: a builder that changed unseen is a finding too."""
        return int(self.outcome not in ("same", "whole") or bool(self.today and self.today.moved))

    def body(self) -> dict[str, Json]:
        """Return the body of the record: a function of what was found, without times and machines."""
        compared = self.compared
        return {
            "release": str(self.release),
            "outcome": self.outcome,
            "platforms": list(self.platforms),
            "images": {} if self.images is None else {key: str(one) for key, one in sorted(self.images.items())},
            "checked": list(self.checked),
            "problems": [_problem(one) for one in self.problems],
            "engine": self.engine,
            "notes": list(self.notes),
            "derivations": None if compared is None else compared.derivations,
            "outputs": None if compared is None else compared.outputs,
            "moved": [] if compared is None else [one.document() for one in compared.moved],
            "absent": [] if compared is None else list(compared.absent),
            "added": [] if compared is None else list(compared.added),
            "rows": [] if compared is None else [one.document() for one in compared.rows],
            "first": None if self.first is None else self._first(self.first),
            "today": None if self.today is None else self.today.document(),
        }

    def _first(self, first: First) -> dict[str, Json]:
        return {
            "derivation": first.moved.derivation.hex,
            "name": first.moved.name,
            "builder": first.moved.builder,
            "platform": first.moved.platform,
            "others": [one.derivation.hex for one in first.others],
            "again": None if self.again is None else self.again.document(),
            "shown_of": self.shown_of,
            "shown": render(self.shown, colour=False).splitlines(),
        }

    def lines(self) -> Iterator[Line]:
        """Return the answer for people."""
        for problem in self.problems:
            yield line(f"{problem.where}: {problem.message}" if problem.where else problem.message, "strong")
            yield from (line(f"  {one}") for one in (*problem.detail, *([problem.hint] if problem.hint else [])))
        match self.outcome:
            case "same":
                yield line(self._same(), "strong")
            case "whole":
                yield line(f"{self.name} is as it was recorded; nothing was built", "strong")
                yield from (line(f"  checked  {one}") for one in self.checked)
            case "altered":
                yield line(f"{self.name} is not as it was recorded: nothing was built", "strong")
            case "differs":
                yield from self._differs()
        if self.today is not None:
            yield from _today(self.today)

    def _same(self) -> str:
        assert self.compared is not None
        what = f"{count_text(self.compared.derivations, 'derivation')}, {count_text(self.compared.outputs, 'output')}"
        images = ", ".join(f"{platform} {digest}" for platform, digest in sorted((self.images or {}).items()))
        return f"the same: {what}, image {images}"

    def _differs(self) -> Iterator[Line]:
        compared, first = self.compared, self.first
        assert compared is not None
        if first is None:
            yield line(f"{self.name} came out otherwise than recorded, and no step that both have differs", "strong")
            yield from _rows(compared)
            return
        for row in compared.rows:
            if row.place.startswith("images.") and row.place.endswith(".digest"):
                yield line(f"image {row.place.split('.')[1]}: recorded {row.recorded}, got {row.got}")
        moved = first.moved
        what = f"{moved.name}, {moved.builder}, {moved.platform}"
        yield line(f"differs first: {what}: all its inputs agree", "strong")
        yield line(f"  derivation  {moved.derivation.hex}")
        for output in sorted(moved.recorded.keys() | moved.got.keys()):
            old, new = moved.recorded.get(output), moved.got.get(output)
            if old != new:
                yield line(f"  output {output}")
                yield (Span(f"    recorded  {old or 'nothing'}", "removed"),)
                yield (Span(f"    got       {new or 'nothing'}", "added"),)
        if self.shown:
            yield line(f"  {self.shown_of}:")
            yield from ((Span("    "), *one) for one in self.shown)
        elif self.shown_of:
            yield line(f"  {self.shown_of}")
        yield line(f"  {_cause(self.again, self.today, moved)}")
        if first.others:
            names = ", ".join(one.name for one in first.others[:_ROWS])
            yield line(f"  differ likewise, though their inputs agree: {names}")
        later = len({one.derivation for one in compared.moved}) - 1 - len(first.others)
        if later > 0:
            yield line(f"  differ because of it: {count_text(later, 'derivation')}", "dim")


def _cause(again: Again | None, today: Today | None, moved: Moved) -> str:
    """Say what a second build of a step tells of why it differs."""
    if today is not None and any(one.derivation == moved.derivation for one in today.moved):
        return f"builder {moved.builder} changed without a new version"
    if again is None:
        return "it was not built a second time"
    if again.outputs is None:
        return f"it was not built a second time: {again.why_not}"
    if again.differs:
        return "built a second time it differs from itself: the step gives other bytes each time (random, or the time)"
    return (
        "built a second time it is the same here, and other than recorded: "
        "the machine, its kernel, or a builder that changed without a new version"
    )


def _today(today: Today) -> Iterator[Line]:
    if today.why_not is not None:
        yield line(f"today's engine does not derive it: {today.why_not}")
        return
    for builder in today.builders:
        names = sorted({one.name for one in today.moved if one.builder == builder})
        shown = ", ".join(names[:_ROWS]) + (f" and {len(names) - _ROWS} more" if len(names) > _ROWS else "")
        yield line(f"builder {builder} changed without a new version: equal ids, other outputs: {shown}", "strong")
    if today.unlike:
        yield line(
            f"today's engine gives {count_text(today.unlike, 'derivation')} another id: new versions of builders"
        )
    if not today.moved and not today.unlike:
        yield line("today's engine gives the same")


def _rows(compared: Compared) -> Iterator[Line]:
    rows = [f"{one.place}: {one.recorded} -> {one.got}" for one in compared.rows]
    rows += [f"recorded, and not derived: {name}" for name in compared.absent]
    rows += [f"derived, and not recorded: {name}" for name in compared.added]
    yield from (line(f"  {row}") for row in rows[:_ROWS])
    if len(rows) > _ROWS:
        yield line(f"  ... and {len(rows) - _ROWS} more", "dim")


def _problem(problem: Problem) -> dict[str, Json]:
    return {
        "where": problem.where,
        "message": problem.message,
        "detail": list(problem.detail),
        "hint": problem.hint,
    }
