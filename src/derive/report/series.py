# SPDX-License-Identifier: Apache-2.0
"""Where things lie in a picture: days on an axis, labels that do not overlap, round ticks.

Core: no IO. Numbers are floats between here and the picture, which writes them with one decimal: the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

_EPOCH = date(1970, 1, 1).toordinal()
_STEPS = (1, 2, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A straight line from values to places; one value alone lies in the middle."""

    least: float
    most: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        if self.most <= self.least:
            return (self.start + self.end) / 2
        return self.start + (self.end - self.start) * (value - self.least) / (self.most - self.least)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """Days of which long stretches without anything are cut short: ``knots`` are (day, place on the axis) in order.

    ``cuts`` are the stretches, from day to day.
    """

    knots: tuple[tuple[float, float], ...]
    cuts: tuple[tuple[float, float], ...]

    def __call__(self, day: float) -> float:
        """Return the place of a day that lies between the first and the last."""
        for (first, start), (last, end) in pairwise(self.knots):
            if first <= day <= last:
                return start + (end - start) * (day - first) / (last - first)
        return self.knots[0][1]

    def is_cut(self, day: float) -> bool:
        """Say whether a day lies in a stretch that is cut short."""
        return any(first < day < last for first, last in self.cuts)


def folded(days: Sequence[float], longest: float) -> Folded:
    """Return an axis for days, of which one at least, where no stretch without any takes more than ``longest``."""
    order = sorted(set(days))
    knots, cuts, place = [(order[0], 0.0)], [], 0.0
    for first, last in pairwise(order):
        place += min(longest, last - first)
        knots.append((last, place))
        if last - first > longest:
            cuts.append((first, last))
    return Folded(knots=tuple(knots), cuts=tuple(cuts))


def placed_days(days: Sequence[int | None]) -> tuple[float, ...]:
    """Return a day for each release of a line in order: those without a date lie evenly between their neighbours.

    Those of one day lie evenly in it.
    """
    known = [(index, day) for index, day in enumerate(days) if day is not None]
    if not known:
        return tuple(float(index) for index in range(len(days)))
    found = []
    for index, day in enumerate(days):
        if day is not None:
            found.append(day + days[:index].count(day) / days.count(day))
            continue
        before = next(((i, d) for i, d in reversed(known) if i < index), None)
        after = next(((i, d) for i, d in known if i > index), None)
        if before is None or after is None:
            found.append(float((before or after or known[0])[1]))
        else:
            share = (index - before[0]) / (after[0] - before[0])
            found.append(before[1] + share * (after[1] - before[1]))
    return tuple(found)


def apart(wanted: Sequence[float], least: float) -> tuple[float, ...]:
    """Return places in the order of those wanted, ``least`` apart, and all together as near to them as can be.

    ``wanted`` must not fall. Neighbours that are too near become a block, which lies around its middle.
    """
    blocks: list[tuple[float, int]] = []  # sum of what each would want as the block's first place, and how many
    for index, place in enumerate(wanted):
        total, count = place - index * least, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            total, count = total + blocks[-1][0], count + blocks[-1][1]
            blocks.pop()
        blocks.append((total, count))
    found: list[float] = []
    for total, count in blocks:
        found += [total / count + (len(found) + step) * least for step in range(count)]
    return tuple(found)


def day_ticks(first: int, last: int, most: int) -> tuple[tuple[int, str], ...]:
    """Return up to ``most`` round days from ``first`` to ``last``: each week's, month's, quarter's or year's first."""
    span = last - first
    if span <= 7 * most:
        step = 7 if span > most else 1
        return tuple((day, _text(day)) for day in range(first, last + 1, max(1, step)))[:most]
    for months in (1, 3, 12, 60):
        found = [day for day in _months(first, last, months) if first <= day <= last]
        if len(found) <= most:
            return tuple((day, _text(day)) for day in found)
    return ((first, _text(first)), (last, _text(last)))


def round_ticks(most: float, count: int) -> tuple[float, ...]:
    """Return up to ``count`` + 1 round values from 0 to at least ``most``, which is below 10^15."""
    if most <= 0:
        return (0.0, 1.0)
    powers = (10.0**exponent for exponent in range(-4, 16))
    step = next(one * power for power in powers for one in _STEPS if most / (one * power) <= count)
    ticks = [0.0]
    while ticks[-1] < most:
        ticks.append(len(ticks) * step)
    return tuple(ticks)


def _months(first: int, last: int, months: int) -> list[int]:
    start, end = date.fromordinal(first + _EPOCH), date.fromordinal(last + _EPOCH)
    number, until = start.year * 12 + start.month - 1, end.year * 12 + end.month - 1
    number -= number % months
    return [
        date(one // 12, one % 12 + 1, 1).toordinal() - _EPOCH for one in range(number, until + 1, months) if one >= 12
    ]


def _text(day: int) -> str:
    return date.fromordinal(day + _EPOCH).isoformat()
