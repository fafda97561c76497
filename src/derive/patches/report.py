# SPDX-License-Identifier: Apache-2.0
"""Verdicts over the patches of a series, in words and as part of a record.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from derive.canonical import Digest, Json, escape
from derive.patches.absorbed import Place
from derive.patches.apply import Refused
from derive.patches.proof import Landed
from derive.patches.status import Absorbed, Applies, Conflicts, Judged, Partly, Shadowed, Verdict, Waits
from derive.words import count_text

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Dead:
    """Without the patch every output is the same."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Without the patch these outputs are others: each the name of a derivation and of its output."""

    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Needed:
    """Without the patch nothing comes out: a later patch does not apply, or a build fails. The reason, for people."""

    reason: str


Without: TypeAlias = Dead | Counts | Needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A series judged against one source; ``without`` is what becomes of outputs without a patch, where that is known.

    ``digest`` is that of the source's tree.
    """

    upstream: str
    source: str
    digest: Digest
    judged: tuple[Judged, ...]
    without: Mapping[str, Without] = field(default_factory=dict)

    def knowing(self, without: Mapping[str, Without]) -> Report:
        """Return the report with what becomes of outputs without each patch."""
        return replace(self, without=without)

    @property
    def findings(self) -> int:
        """How many patches do not simply apply, or change no output."""
        odd = {one.name for one in self.judged if not isinstance(one.verdict, Applies)}
        return len(odd | {name for name, what in self.without.items() if isinstance(what, Dead)})

    def title(self) -> str:
        """Say what was judged against what."""
        count = count_text(len(self.judged), "patch", "patches")
        return f"patches/{self.upstream} on {self.source} (tree {self.digest.short}): {count}"

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of each patch: name, state, what there is to say of it, and what happens without it."""
        rows: list[tuple[str, ...]] = []
        for one in self.judged:
            cells = (one.name, state_of(one.verdict), _detail(one.verdict))
            without = self.without.get(one.name)
            rows.append((*cells, "" if without is None else _without(without)) if self.without else cells)
        return rows

    def conflicts(self) -> Iterator[str]:
        """Yield the lines that tell of each hunk in conflict what was expected and what is there."""
        for one in self.judged:
            if isinstance(one.verdict, Conflicts | Waits):
                for refused in one.verdict.refused:
                    problem = refused.problem(one.name)
                    yield f"{problem.where}: {problem.message}"
                    yield from (f"  {line}" for line in problem.detail)

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {
            "upstream": self.upstream,
            "source": self.source,
            "source_tree": str(self.digest),
            "patches": [
                {
                    "patch": one.name,
                    "state": state_of(one.verdict),
                    "hunks": list(_facts(one.verdict)),
                    "by": list(_by(one.verdict)),
                    "without": None if (without := self.without.get(one.name)) is None else _without(without),
                }
                for one in self.judged
            ],
        }


def state_of(verdict: Verdict) -> str:
    """Name a verdict."""
    match verdict:
        case Applies():
            return "applies"
        case Shadowed():
            return "shadowed"
        case Absorbed(in_source=in_source):
            return "already upstream" if in_source else "already in the series"
        case Partly():
            return "partly upstream"
        case Conflicts():
            return "conflicts"
        case Waits():
            return "waits"
        case _:
            assert_never(verdict)


def _detail(verdict: Verdict) -> str:
    match verdict:
        case Applies(moved=moved):
            shown = (f"{escape(one.path)} line {one.before} ({one.offset:+d})" for one in moved)
            return f"{count_text(len(moved), 'hunk')} moved: {_some(shown, len(moved))}" if moved else ""
        case Shadowed(by=by, undone=undone):
            return f"{'undone' if undone else 'overwritten'} by {_some(by, len(by))}"
        case Absorbed(in_source=in_source):
            return "delete it" if in_source else "earlier patches do all that it does: delete it"
        case Partly(absorbed=absorbed, open=left):
            there = _some(map(_place, absorbed), len(absorbed))
            return f"there already: {there}; left: {_some(map(_place, left), len(left))}"
        case Conflicts(refused=refused):
            return _some((_where(one) for one in refused), len(refused))
        case Waits(on=on):
            return f"for {_some(on, len(on))}, in the same files"
        case _:
            assert_never(verdict)


def _some(shown: Iterable[str], count: int) -> str:
    first = [text for text, _ in zip(shown, range(_SHOWN), strict=False)]
    return ", ".join(first) + (f" and {count - _SHOWN} more" if count > _SHOWN else "")


def _place(place: Place) -> str:
    hunk = "" if place.hunk is None else f" hunk {place.hunk}"
    return f"{escape(place.path)}{hunk}" + ("" if place.line is None else f" (line {place.line})")


def _where(refused: Refused) -> str:
    return escape(refused.path) + ("" if refused.hunk is None else f" hunk {refused.hunk}")


def _without(without: Without) -> str:
    match without:
        case Dead():
            return "dead: every output is the same"
        case Counts(outputs=outputs):
            return f"changes {_some(outputs, len(outputs))}"
        case Needed(reason=reason):
            return f"needed: {reason}"
        case _:
            assert_never(without)


def _by(verdict: Verdict) -> Sequence[str]:
    match verdict:
        case Shadowed(by=names) | Waits(on=names):
            return names
        case Applies() | Absorbed() | Partly() | Conflicts():
            return ()
        case _:
            assert_never(verdict)


def _facts(verdict: Verdict) -> Iterator[Mapping[str, Json]]:
    """Yield what is known of single hunks."""
    match verdict:
        case Applies(landed=landed):
            yield from (_landed(one) for one in landed)
        case Partly(absorbed=absorbed, open=left):
            for places, state in ((absorbed, "absorbed"), (left, "applies")):
                yield from (
                    {"path": escape(one.path), "hunk": one.hunk, "state": state, "line": one.line} for one in places
                )
        case Conflicts(refused=refused) | Waits(refused=refused):
            for one in refused:
                told: Json = [one.reason.message, *one.reason.detail]
                yield {"path": escape(one.path), "hunk": one.hunk, "state": "conflicts", "reason": told}
        case Shadowed() | Absorbed():
            return
        case _:
            assert_never(verdict)


def _landed(one: Landed) -> dict[str, Json]:
    return {
        "path": escape(one.path),
        "hunk": one.hunk,
        "state": "applies",
        "line": one.line,
        "moved_lines": one.offset,
    }
