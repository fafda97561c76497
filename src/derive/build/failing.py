# SPDX-License-Identifier: Apache-2.0
"""The words for a step that failed: where it was, what its log ends with, what to do next.

Core: no IO.
"""

from __future__ import annotations

from dataclasses import replace

from derive.derivations.model import Derivation
from derive.errors import DeriveError, InputErrors


def named(error: DeriveError) -> tuple[str, str]:
    """Return what a failure is known and sorted by: the name of the step, in which its problems are, and the first."""
    problem = error.problems()[0]
    return problem.where, problem.message


def can_be_entered(derivation: Derivation) -> bool:
    """Say whether a step runs a program in a sandbox whose folders are kept when it fails."""
    return derivation.builder in ("script", "kernel") and "root" in derivation.inputs


def entering(name: str, *, kept: bool, elsewhere: bool = False) -> str:
    """Return the next step after a script failed: to look at where it stopped."""
    if elsewhere:
        return f"run it here with --keep-failed, and enter it where it stopped: derive shell {name} --failed"
    if kept:
        return f"enter it where it stopped: derive shell {name} --failed"
    return f"run it with --keep-failed, and enter it where it stopped: derive shell {name} --failed"


def placed(error: DeriveError, name: str) -> DeriveError:
    """Say in which step an error came up."""
    if not isinstance(error, InputErrors):
        error.where = error.where or name
        return error
    return InputErrors([replace(problem, where=_place(problem.where, name)) for problem in error.problems()])


def _place(where: str, name: str) -> str:
    if where == name or where.startswith(f"{name}: "):
        return where
    return f"{name}: {where}" if where else name


def lines_of(error: DeriveError) -> str:
    """Write an error as the last lines of a log."""
    rows: list[str] = []
    for problem in error.problems():
        place = "" if problem.where == error.where else f"{problem.where}: "
        rows += [f"failed: {place}{problem.message}", *(f"  {line}" for line in problem.detail)]
    return "".join(f"{row}\n" for row in rows)
