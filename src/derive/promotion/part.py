# SPDX-License-Identifier: Apache-2.0
"""What one requirement of a promotion came to: what was checked, what was not, and what is missing.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from derive.errors import CheckFailed, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One requirement. ``checked`` and ``unchecked`` are sentences for the record; ``problems`` stand against it."""

    checked: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def joined(parts: Iterable[Part]) -> Part:
    """Return everything that several requirements came to, in their order."""
    found = tuple(parts)
    return Part(
        checked=tuple(text for part in found for text in part.checked),
        unchecked=tuple(text for part in found for text in part.unchecked),
        problems=tuple(problem for part in found for problem in part.problems),
    )


class NotPromoted(CheckFailed):
    """A promotion, or a deploy, that the answer is no to: everything that is missing, each with its next step."""

    def __init__(self, what: str, problems: Sequence[Problem]) -> None:
        super().__init__(f"{what}: {len(problems)} thing{'s are' if len(problems) > 1 else ' is'} missing")
        self._problems = tuple(problems)

    def problems(self) -> tuple[Problem, ...]:
        """Return everything that is missing, in the order in which it was asked."""
        return self._problems
