# SPDX-License-Identifier: Apache-2.0
"""What a check is: a statement that must hold, why, how it is judged, what to do where it does not hold.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from derive.doctor.finding import Severity
from derive.errors import InputErrors, Problem

if TYPE_CHECKING:
    from derive.doctor.case import Case
    from derive.recipes.resolved import Resolved

Over: TypeAlias = Literal["project", "shapes", "site"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Something that a check needs and nobody can tell: where it would be, why there is no telling, one next step."""

    where: str
    reason: str
    fix: str | None = None


Answer: TypeAlias = Problem | Unknown
Judge: TypeAlias = Callable[["Case"], Iterable[Answer]]
ShapeJudge: TypeAlias = Callable[["Case", "Resolved"], Iterable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check.

    ``id`` is ``area.name``. ``what`` is the statement that holds where it passes; ``why`` what goes wrong without it;
    ``how`` what is looked at, and what is not; ``fix`` what to do where the finding has no fix of its own; ``place``
    the files that it is about. ``judge`` gives all that is wrong, and nothing where all is well.
    """

    id: str
    severity: Severity
    what: str
    why: str
    how: str
    fix: str
    place: str
    judge: Judge
    over: Over = "project"

    @property
    def area(self) -> str:
        """What checks are grouped by."""
        return self.id.partition(".")[0]


def each_shape(judge: ShapeJudge) -> Judge:
    """Return the judge that asks about every shape that is looked at, and says what several have in common once."""

    def judged(case: Case) -> Iterator[Answer]:
        yield from case.recipes.silent
        found: dict[Problem, list[Resolved]] = {}
        for resolved in case.shapes:
            for answer in answers(partial(judge, case, resolved), f"recipes/{resolved.recipe}.toml"):
                if isinstance(answer, Problem):
                    found.setdefault(answer, []).append(resolved)
                else:
                    yield answer
        yield from (replace(one, detail=(*one.detail, *_shapes_line(one, shapes))) for one, shapes in found.items())

    return judged


def _shapes_line(problem: Problem, shapes: list[Resolved]) -> tuple[str, ...]:
    """Return the line that names the shapes of a problem, where its place does not."""
    if len(shapes) == 1 and f"shapes.{shapes[0].shape}" in problem.where:
        return ()
    return ("in        " + ", ".join(f"{one.recipe} {one.shape}" for one in shapes),)


def answers(judge: Callable[[], Iterable[Answer]], where: str) -> list[Answer]:
    """Return what a judge says; where it meets input that it cannot read, that is unknown."""
    try:
        return list(judge())
    except InputErrors as error:
        return [Unknown(where=one.where or where, reason=one.message, fix=one.hint) for one in error.problems()]


def key_place(resolved: Resolved, key: str) -> str:
    """Return where a value of a shape stands: file and key, or the shape where it is said nowhere."""
    origin = resolved.origins.get(key)
    if origin is None:
        return f"recipes/{resolved.recipe}.toml: shapes.{resolved.shape}"
    return f"{origin.file}: {origin.key}"
