# SPDX-License-Identifier: Apache-2.0
"""The smallest set of things that flips a verdict, in few tests: each boundary by halving, then what can be left out.

Core: no IO. Knows nothing of edits: things are numbers, and a test is a function.

A set is smallest in that no part of those that are tried can be left out of it. Whether another, unlike set flips the
verdict too is not looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

Things: TypeAlias = frozenset[int]


class Verdict(Enum):
    """What a test says of a set of things: as without any, as with all, or nothing."""

    OLD = "like A"
    NEW = "like B"
    UNKNOWN = "cannot be judged"


Test: TypeAlias = Callable[[Things], Verdict]
Cost: TypeAlias = Callable[[Things], int]


def _free(_: Things) -> int:
    return 0


@dataclass(slots=True)
class Search:
    """A search that may be stopped at any test. ``pool`` is in the order in which things are tried together.

    ``best`` is the smallest set known to flip the verdict, ``needed`` what the search holds for needed so far.
    """

    pool: Sequence[int]
    test: Test
    cost: Cost = _free
    best: Things = field(init=False)
    needed: Things = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        """Begin with everything."""
        self.best = frozenset(self.pool)

    def run(self) -> Things:
        """Return the set. That nothing is OLD, and everything NEW, is for the caller to know.

        What flips the verdict only with more beside it, or was never judged alone, stays together.
        """
        left = list(self.pool)
        while left and self._test(self.needed) is not Verdict.NEW:
            low, high = self._boundary(left)
            self.needed |= frozenset(left[low:high])
            left = left[:low]
            self._flips(self.needed | frozenset(left))
        self.needed = self._reduced(self.needed)
        return self.needed

    @property
    def remaining(self) -> int:
        """How many things may still be in the answer."""
        return len(self.best)

    def _test(self, things: Things) -> Verdict:
        verdict = self.test(things)
        if verdict is Verdict.NEW:
            self._flips(things)
        return verdict

    def _flips(self, things: Things) -> None:
        if len(things) < len(self.best):
            self.best = things

    def _boundary(self, left: Sequence[int]) -> tuple[int, int]:
        """Return two lengths of what is left: with the longer part the verdict is NEW, with the shorter it is not.

        Between them are only lengths that cannot be judged.
        """
        low, high = 0, len(left)
        unknown: set[int] = set()
        while True:
            between = [length for length in range(low + 1, high) if length not in unknown]
            if not between:
                return low, high
            middle = self._middle(left, between, low, high)
            match self._test(self.needed | frozenset(left[:middle])):
                case Verdict.NEW:
                    high = middle
                case Verdict.OLD:
                    low = middle
                case Verdict.UNKNOWN:
                    unknown.add(middle)

    def _middle(self, left: Sequence[int], between: Sequence[int], low: int, high: int) -> int:
        """Return which length to test: of those near the middle the cheapest."""
        middle = (low + high) / 2
        nearest = sorted(between, key=lambda length: (abs(length - middle), length))
        third = (high - low) / 6
        near = [length for length in nearest[:_LOOKED_AT] if abs(length - middle) <= third] or nearest[:1]
        return min(near, key=lambda length: (self.cost(self.needed | frozenset(left[:length])), near.index(length)))

    def _reduced(self, things: Things) -> Things:
        """Leave out parts, then smaller parts, as long as the verdict stays NEW."""
        found = [one for one in self.pool if one in things]
        parts = 2
        while len(found) > 1:
            size = -(-len(found) // parts)
            pieces = [found[at : at + size] for at in range(0, len(found), size)]
            fewer = next((rest for piece in pieces if self._still_new(rest := _without(found, piece))), None)
            if fewer is not None:
                found, parts = fewer, max(parts - 1, 2)
            elif size == 1:
                break
            else:
                parts = min(parts * 2, len(found))
        return frozenset(found)

    def _still_new(self, things: Sequence[int]) -> bool:
        return bool(things) and self._test(frozenset(things)) is Verdict.NEW


_LOOKED_AT = 5
"""Lengths whose costs are compared: to know a cost takes an evaluation."""


def _without(things: Sequence[int], piece: Sequence[int]) -> list[int]:
    return [one for one in things if one not in piece]
