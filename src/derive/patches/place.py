# SPDX-License-Identifier: Apache-2.0
"""Where a hunk belongs: at its stated line, or at the one other place that its whole old side fits; never by guess.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from derive.patches.model import Hunk

CONTEXT = 3
"""Lines of context that a hunk needs on a side, unless the file ends there, before it is looked for elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The hunk fits at ``index`` (0-based); ``offset`` lines from where it says."""

    index: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaced:
    """The hunk has no one place. ``fits`` are the indexes where its lines stand; ``usable`` those it could take."""

    fits: tuple[int, ...]
    usable: tuple[int, ...]


def ends_file(hunk: Hunk) -> bool:
    """Whether the hunk shows that its file ends with it: less context after the change than before it."""
    return hunk.trailing < CONTEXT and (hunk.trailing == 0 or hunk.trailing < hunk.leading)


def can_move(hunk: Hunk) -> bool:
    """Whether the hunk has enough context to be looked for at another line than the stated one."""
    return hunk.leading >= CONTEXT and (hunk.trailing >= CONTEXT or ends_file(hunk))


def occurrences(lines: Sequence[bytes], wanted: Sequence[bytes]) -> Iterator[int]:
    """Yield every index at which the wanted lines stand, one after the other."""
    if not wanted:
        return
    width, first = len(wanted), wanted[0]
    index, end = 0, len(lines) - width + 1
    while True:
        try:
            index = lines.index(first, index, max(end, 0))
        except ValueError:
            return
        if all(lines[index + step] == wanted[step] for step in range(1, width)):
            yield index
        index += 1


def place(hunk: Hunk, lines: list[bytes], *, floor: int, drift: int) -> Placed | Unplaced:
    """Find the hunk's place among a file's lines.

    ``floor`` is the index where the hunk above it ended, ``drift`` by how many lines that one had moved: after a move
    the stated line proves nothing, so the place must be the only one.
    """
    old = hunk.old
    if not old:
        return Unplaced(fits=(), usable=()) if lines else Placed(index=0, offset=0)
    stated = hunk.start - 1
    last = len(lines) - len(old)
    to_end = ends_file(hunk)
    trusted = drift == 0 and floor <= stated <= last and (stated == last or not to_end)
    if trusted and lines[stated : stated + len(old)] == old:
        return Placed(index=stated, offset=0)
    fits = tuple(occurrences(lines, old))
    usable = tuple(index for index in fits if index >= floor and (index == last or not to_end))
    if len(usable) == 1 and can_move(hunk):
        return Placed(index=usable[0], offset=usable[0] - stated)
    return Unplaced(fits=fits, usable=usable)
