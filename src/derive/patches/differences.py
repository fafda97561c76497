# SPDX-License-Identifier: Apache-2.0
"""Which lines two texts have in common, in order: the same answer everywhere, for the same two texts.

Core: no IO.

Lines that stand once in each text anchor the comparison; between anchors it is the shortest edit script, and where that
would take too long, the gap counts as all different. Any answer makes a true patch: this one makes patches that people
can read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Block: TypeAlias = tuple[int, int, int]
"""``(i, j, n)``: lines ``i .. i+n`` of the old text are lines ``j .. j+n`` of the new one."""

_WORK = 250_000
"""Steps of the shortest edit script of one gap, beyond which it is not looked for: a fraction of a second."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Old lines ``i1 .. i2`` stand where new lines ``j1 .. j2`` do; one of the two ranges may be empty."""

    i1: int
    i2: int
    j1: int
    j2: int


def common_blocks(old: Sequence[bytes], new: Sequence[bytes]) -> list[Block]:
    """Return the runs of equal lines, in order, none next to another, without an empty one."""
    numbers: dict[bytes, int] = {}
    left = [numbers.setdefault(line, len(numbers)) for line in old]
    right = [numbers.setdefault(line, len(numbers)) for line in new]
    return _joined(_pairs(left, right))


def gaps(old: Sequence[bytes], new: Sequence[bytes]) -> list[Gap]:
    """Return what differs: every range between two runs of equal lines."""
    found: list[Gap] = []
    i = j = 0
    for at, to, count in [*common_blocks(old, new), (len(old), len(new), 0)]:
        if i < at or j < to:
            found.append(Gap(i, at, j, to))
        i, j = at + count, to + count
    return found


def _joined(pairs: Iterator[Block]) -> list[Block]:
    blocks: list[Block] = []
    for i, j, count in pairs:
        if blocks and blocks[-1][0] + blocks[-1][2] == i and blocks[-1][1] + blocks[-1][2] == j:
            blocks[-1] = (blocks[-1][0], blocks[-1][1], blocks[-1][2] + count)
        elif count:
            blocks.append((i, j, count))
    return blocks


def _pairs(left: Sequence[int], right: Sequence[int]) -> Iterator[Block]:
    """Yield equal runs in order. Ranges wait on a stack: no depth of nesting is too much."""
    waiting: list[Gap | Block] = [Gap(0, len(left), 0, len(right))]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            yield item
            continue
        head = _prefix(left, right, item)
        inner = Gap(item.i1 + head, item.i2, item.j1 + head, item.j2)
        tail = _suffix(left, right, inner)
        inner = Gap(inner.i1, inner.i2 - tail, inner.j1, inner.j2 - tail)
        yield item.i1, item.j1, head
        if tail:
            waiting.append((inner.i2, inner.j2, tail))
        if inner.i1 < inner.i2 and inner.j1 < inner.j2:
            waiting.extend(reversed(_inside(left, right, inner)))


def _inside(left: Sequence[int], right: Sequence[int], gap: Gap) -> Sequence[Gap | Block]:
    """Cut a range, whose ends differ, at its anchors, or solve it."""
    anchors = _anchors(left, right, gap)
    if not anchors:
        return list(_shortest(left, right, gap))
    parts: list[Gap | Block] = []
    i, j = gap.i1, gap.j1
    for at, to in anchors:
        parts += [Gap(i, at, j, to), (at, to, 1)]
        i, j = at + 1, to + 1
    return [*parts, Gap(i, gap.i2, j, gap.j2)]


def _prefix(left: Sequence[int], right: Sequence[int], gap: Gap) -> int:
    most = min(gap.i2 - gap.i1, gap.j2 - gap.j1)
    count = 0
    while count < most and left[gap.i1 + count] == right[gap.j1 + count]:
        count += 1
    return count


def _suffix(left: Sequence[int], right: Sequence[int], gap: Gap) -> int:
    most = min(gap.i2 - gap.i1, gap.j2 - gap.j1)
    count = 0
    while count < most and left[gap.i2 - 1 - count] == right[gap.j2 - 1 - count]:
        count += 1
    return count


def _anchors(left: Sequence[int], right: Sequence[int], gap: Gap) -> list[tuple[int, int]]:
    """Return the longest ascending run of lines that stand once on each side of the range."""
    ours, theirs = _once(left, gap.i1, gap.i2), _once(right, gap.j1, gap.j2)
    pairs = [(at, theirs[line]) for line, at in ours.items() if line in theirs]
    pairs.sort()
    tops: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, to) in enumerate(pairs):
        place = bisect_left(tops, to)
        before.append(ends[place - 1] if place else -1)
        tops[place : place + 1] = [to]
        ends[place : place + 1] = [index]
    found: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]


def _once(lines: Sequence[int], start: int, end: int) -> dict[int, int]:
    seen: dict[int, int] = {}
    for at in range(start, end):
        seen[lines[at]] = -1 if lines[at] in seen else at
    return {line: at for line, at in seen.items() if at >= 0}


def _shortest(left: Sequence[int], right: Sequence[int], gap: Gap) -> Iterator[Block]:
    """Yield the single lines that a shortest edit script keeps (E. Myers, 1986); none when it would take too long."""
    ours, theirs = left[gap.i1 : gap.i2], right[gap.j1 : gap.j2]
    n, m = len(ours), len(theirs)
    reached = {1: 0}
    trail: list[dict[int, int]] = []
    work = 0
    for steps in range(n + m + 1):
        work += steps + 1
        if work > _WORK:
            return
        trail.append(dict(reached))
        for k in range(-steps, steps + 1, 2):
            down = k == -steps or (k != steps and reached[k - 1] < reached[k + 1])
            x = reached[k + 1] if down else reached[k - 1] + 1
            while x < n and x - k < m and ours[x] == theirs[x - k]:
                x += 1
            reached[k] = x
            if x >= n and x - k >= m:
                yield from _kept(trail, n, m, gap)
                return


def _kept(trail: Sequence[dict[int, int]], n: int, m: int, gap: Gap) -> Iterator[Block]:
    """Walk the steps back from the end, and yield the lines kept, first to last."""
    kept: list[Block] = []
    x, y = n, m
    for steps in range(len(trail) - 1, -1, -1):
        reached, k = trail[steps], x - y
        down = k == -steps or (k != steps and reached[k - 1] < reached[k + 1])
        from_x = reached[k + 1] if down else reached[k - 1]
        from_y = from_x - (k + 1 if down else k - 1)
        while x > from_x and y > from_y:
            x, y = x - 1, y - 1
            kept.append((gap.i1 + x, gap.j1 + y, 1))
        x, y = from_x, from_y
    yield from reversed(kept)
