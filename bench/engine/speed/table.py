# SPDX-License-Identifier: Apache-2.0
"""What a measurement found, as rows: an amount, what it stands beside, their ratio, and what it is meant to be.

Core: no IO. A row judges nothing but its own target, and a missed one fails nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from derive.canonical import Json


@dataclass(frozen=True, slots=True)
class Time:
    """A duration in nanoseconds."""

    ns: int


@dataclass(frozen=True, slots=True)
class Size:
    """An amount of memory or data in bytes."""

    bytes: int


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes in each second."""

    bytes_per_s: int


@dataclass(frozen=True, slots=True)
class Factor:
    """A number without a unit."""

    value: float


@dataclass(frozen=True, slots=True)
class Count:
    """How many there are."""

    value: int


Amount: TypeAlias = Time | Size | Rate | Factor | Count


@dataclass(frozen=True, slots=True)
class AtMost:
    """A target that larger amounts miss."""

    limit: Amount


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A target that smaller amounts miss."""

    limit: Amount


Target: TypeAlias = AtMost | AtLeast


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    ``beside`` names what ``other`` is the amount of; ``target`` is for the amount, ``ratio_target`` for the ratio of
    both. ``samples`` are what ``amount`` is the median of, in the order in which they were taken.
    """

    group: str
    what: str
    amount: Amount
    beside: str = ""
    other: Amount | None = None
    target: Target | None = None
    ratio_target: Target | None = None
    samples: tuple[int, ...] = ()

    @property
    def ratio(self) -> Factor | None:
        """The amount over what it stands beside."""
        return None if self.other is None else Factor(number(self.amount) / number(self.other))

    @property
    def missed(self) -> bool:
        """Whether a target is missed."""
        ratio = self.ratio
        missed = self.target is not None and misses(self.target, self.amount)
        return missed or (self.ratio_target is not None and ratio is not None and misses(self.ratio_target, ratio))


def number(amount: Amount) -> float:
    """Return an amount in its own unit."""
    match amount:
        case Time(ns):
            return ns
        case Size(size):
            return size
        case Rate(rate):
            return rate
        case Factor(value) | Count(value):
            return value
        case _:
            assert_never(amount)


def misses(target: Target, amount: Amount) -> bool:
    """Say whether an amount misses a target; both are of one kind."""
    match target:
        case AtMost(limit):
            return number(amount) > number(limit)
        case AtLeast(limit):
            return number(amount) < number(limit)
        case _:
            assert_never(target)


def median_time(samples: Sequence[int]) -> Time:
    """Return the median of durations in nanoseconds."""
    return Time(round(statistics.median(samples)))


def show(amount: Amount) -> str:
    """Write an amount for people: three digits or so, and its unit."""
    match amount:
        case Time(ns):
            return f"{ns / 1e9:.{_places(ns / 1e9)}f} s"
        case Size(size):
            return f"{size / 1e6:.{_places(size / 1e6)}f} MB"
        case Rate(rate):
            return f"{rate / 1e6:.{_places(rate / 1e6)}f} MB/s"
        case Factor(value):
            return f"{value:.{_places(value)}f}"
        case Count(value):
            return str(value)
        case _:
            assert_never(amount)


def _places(value: float) -> int:
    """Return how many decimals leave three digits; never more than three."""
    return 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0


def show_target(row: Row) -> str:
    """Write a row's target, and whether it is missed."""
    shown = []
    for target, mark in ((row.target, ""), (row.ratio_target, "x")):
        match target:
            case AtMost(limit):
                shown.append(f"<= {show(limit)}{mark}")
            case AtLeast(limit):
                shown.append(f">= {show(limit)}{mark}")
            case None:
                pass
            case _:
                assert_never(target)
    return ", ".join(shown) + ("  MISSED" if row.missed else "")


def render(rows: Sequence[Row]) -> str:
    """Return the table as text, one block for each group."""
    cells = [("", "median", "beside", "", "ratio", "target")]
    groups = [""]
    for row in rows:
        other = "" if row.other is None else show(row.other)
        ratio = "" if row.ratio is None else show(row.ratio)
        cells.append((row.what, show(row.amount), row.beside, other, ratio, show_target(row)))
        groups.append(row.group)
    widths = [max(len(cell[column]) for cell in cells) for column in range(6)]
    lines: list[str] = []
    for index, (group, cell) in enumerate(zip(groups, cells, strict=True)):
        if index and group != groups[index - 1]:
            lines += ["", group]
        texts = [
            c.rjust(w) if i in (1, 3, 4) else c.ljust(w) for i, (c, w) in enumerate(zip(cell, widths, strict=True))
        ]
        lines.append("  ".join(texts).rstrip())
    return "\n".join(lines)


def document(rows: Sequence[Row]) -> list[Json]:
    """Return the rows as part of a record: integers with their unit in the key, and ratios as decimals."""
    return [_row_document(row) for row in rows]


def _row_document(row: Row) -> Mapping[str, Json]:
    found: dict[str, Json] = {"group": row.group, "what": row.what, **_keyed("", row.amount)}
    if row.samples:
        found["samples_ns"] = list(row.samples)
    if row.other is not None:
        found |= {"beside": row.beside, **_keyed("beside_", row.other)}
    if row.ratio is not None:
        found["ratio"] = {"decimal": f"{row.ratio.value:.3f}"}
    if row.target is not None or row.ratio_target is not None:
        found |= {"target": show_target(row).removesuffix("  MISSED"), "missed": row.missed}
    return found


def _keyed(prefix: str, amount: Amount) -> dict[str, Json]:
    match amount:
        case Time(ns):
            return {f"{prefix}median_ns": ns}
        case Size(size):
            return {f"{prefix}median_bytes": size}
        case Rate(rate):
            return {f"{prefix}median_bytes_per_s": rate}
        case Factor(value):
            return {f"{prefix}median": {"decimal": f"{value:.3f}"}}
        case Count(value):
            return {f"{prefix}count": value}
        case _:
            assert_never(amount)
