# SPDX-License-Identifier: Apache-2.0
"""Where two changes of one text get in each other's way: the lines of all three, each with its numbers.

Core: no IO.

``base`` is the file that a patch was made for, ``theirs`` the file after it, ``ours`` the file that it shall be
carried over to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from derive.canonical import escape
from derive.patches.differences import Gap, gaps
from derive.patches.model import split_lines
from derive.patches.reader import show_row

_SHOWN = 30


@dataclass(frozen=True, slots=True)
class Side:
    """The lines of one text in a conflict; ``start`` is the index of the first (0-based), or where they would be."""

    start: int
    lines: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """A place that both sides changed, and not to the same."""

    base: Side
    ours: Side
    theirs: Side


def conflicts_between(base: bytes, ours: bytes, theirs: bytes) -> tuple[Conflict, ...]:
    """Return every conflict of two changed texts, in order."""
    old, left, right = split_lines(base), split_lines(ours), split_lines(theirs)
    found: list[Conflict] = []
    for mine, others in _regions(gaps(old, left), gaps(old, right)):
        if not mine or not others:
            continue
        start = min(mine[0].i1, others[0].i1)
        end = max(mine[-1].i2, others[-1].i2)
        ours_side, theirs_side = _side(mine, left, start, end), _side(others, right, start, end)
        if ours_side.lines != theirs_side.lines:
            found.append(Conflict(Side(start, tuple(old[start:end])), ours_side, theirs_side))
    return tuple(found)


def conflict_text(path: bytes, number: int, conflict: Conflict) -> tuple[str, ...]:
    """Return a conflict for people: a line that names it, then each side with the numbers of its lines."""
    rows = [f"{escape(path)}: conflict {number}"]
    for name, side in (("base", conflict.base), ("ours", conflict.ours), ("theirs", conflict.theirs)):
        if not side.lines:
            rows.append(f"  {name:<6} {side.start:>6}  (nothing after this line)")
        shown = side.lines if len(side.lines) <= _SHOWN else side.lines[: _SHOWN - 1]
        rows += [f"  {name:<6} {side.start + at:>6}  {show_row(line)}" for at, line in enumerate(shown, 1)]
        if len(shown) < len(side.lines):
            rows.append(f"  {name:<6} {'':>6}  and {len(side.lines) - len(shown)} more lines")
    return tuple(rows)


def _regions(mine: Sequence[Gap], others: Sequence[Gap]) -> Iterator[tuple[list[Gap], list[Gap]]]:
    """Yield groups of gaps of either side that touch each other in the base."""
    tagged = sorted(
        [*((gap.i1, gap.i2, 0, gap) for gap in mine), *((gap.i1, gap.i2, 1, gap) for gap in others)],
        key=lambda item: item[:3],
    )
    group: tuple[list[Gap], list[Gap]] = ([], [])
    end = -1
    for start, stop, side, gap in tagged:
        if 0 <= end < start:
            yield group
            group = ([], [])
        group[side].append(gap)
        end = max(end, stop)
    if end >= 0:
        yield group


def _side(found: Sequence[Gap], lines: Sequence[bytes], start: int, end: int) -> Side:
    """Return what one side has for a range of the base that its gaps lie in."""
    first = found[0].j1 - (found[0].i1 - start)
    last = found[-1].j2 + (end - found[-1].i2)
    return Side(first, tuple(lines[first:last]))
