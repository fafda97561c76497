# SPDX-License-Identifier: Apache-2.0
"""What a deploy says when it was refused, or failed: everything at once, with what each node was left with.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from derive.deploy.former import changes_machines
from derive.errors import CheckFailed, DeriveError, Interrupted, Problem

if TYPE_CHECKING:
    from pathlib import PurePath

    from derive.deploy.model import Served, Step
    from derive.deploy.undo import Back


class Refused(CheckFailed):
    """What stands against a deploy, before anything was changed."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("nothing was changed")
        self._problems = tuple(problems)

    def problems(self) -> tuple[Problem, ...]:
        """Return everything that stands against it."""
        return self._problems


class DeployFailed(CheckFailed):
    """A deploy that failed after it had begun to move things: the step, why, and what the nodes were left with."""

    def __init__(self, problems: Sequence[Problem], *, exit_code: int) -> None:
        super().__init__("the deploy failed")
        self._problems = tuple(problems)
        self.exit_code = exit_code

    def problems(self) -> tuple[Problem, ...]:
        """Return what failed, and what could not be undone."""
        return self._problems


def failure_of(
    error: DeriveError, step: Step, back: Back | None, evidence: PurePath | None, *, went: bool, following: str = ""
) -> DeriveError:
    """Return the error of a deploy: as it is where nothing had been moved (``went``), else with how going back went.

    ``following`` is what to do next where not all is as it was.
    """
    if not went:
        return error
    logs = () if evidence is None else (f"logs      {evidence}",)
    problems = [
        Problem(where=one.where, message=f"{step.value}: {one.message}", detail=(*one.detail, *logs), hint=one.hint)
        for one in error.problems()
    ]
    if back is None and changes_machines(step):
        problems.append(Problem(where="", message="another deploy has the nodes now: nothing was undone"))
    for node, trouble in () if back is None else back.errors.items():
        problems += [
            Problem(where=node or one.where, message=f"going back: {one.message}", detail=one.detail)
            for one in trouble.problems()
        ]
    is_whole = back is not None and back.is_whole
    problems.append(_left(step, back, following))
    return DeployFailed(problems, exit_code=130 if is_whole and isinstance(error, Interrupted) else 1)


def _left(step: Step, back: Back | None, following: str) -> Problem:
    """Return what the nodes were left with, and what to do next where that is not what ran before."""
    ended = f"the deploy ended at {step.value}"
    if not changes_machines(step):
        return Problem(where="", message=f"{ended}: what ran was not touched")
    if back is None or not back.is_whole:
        left = {} if back is None else back.left
        width = max((len(node) for node in left), default=0) + 2
        detail = tuple(f"{node.ljust(width)}{text}" for node, text in left.items())
        message = f"{ended}, and not all is as it was before"
        return Problem(where="", message=message, detail=detail, hint=following or None)
    text = running_text(back.to, back.others)
    if back.to is None and not back.others:
        return Problem(where="", message=f"{ended}: all is as it was before, with {text}")
    count = len({name for _, name in back.others}) + (back.to is not None)
    return Problem(where="", message=f"{ended}: {text} {'runs' if count == 1 else 'run'} again")


def running_text(served: Served | None, others: Iterable[tuple[str, str]] = ()) -> str:
    """Name a release with its launch digest, and what runs beside it, given by node and name."""
    nodes: dict[str, list[str]] = {}
    for node, name in others:
        nodes.setdefault(name, []).append(node)
    release = [] if served is None else [f"{served.release} ({served.launch_bundle.short})"]
    found = [*release, *(f"{name} on {', '.join(there)}" for name, there in nodes.items())]
    return " and ".join(found) or "nothing running"
