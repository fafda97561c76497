# SPDX-License-Identifier: Apache-2.0
"""Edits that are made together, since one without the other is no project that evaluates.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from derive.bisect.search import Search, Things, Verdict


def units(order: Sequence[int], evaluates: Callable[[Things], bool]) -> tuple[Things, ...]:
    """Return for each edit the fewest edits that evaluate with it, in the order given; equal ones once.

    ``evaluates`` says whether A with some edits is a project that evaluates; A and B are. To know it costs no run.
    Units may overlap: one edit may be needed by several others, and stand alone as well.
    """
    found: dict[Things, None] = {}
    for place, edit in enumerate(order):
        if any(unit == frozenset({edit}) for unit in found):
            continue
        found.setdefault(_unit(edit, _nearest(order, place), evaluates))
    return tuple(found)


def _unit(edit: int, others: Sequence[int], evaluates: Callable[[Things], bool]) -> Things:
    alone = frozenset({edit})

    def test(more: Things) -> Verdict:
        return Verdict.NEW if evaluates(alone | more) else Verdict.OLD

    if test(frozenset()) is Verdict.NEW:
        return alone
    return alone | Search(others, test).run()


def _nearest(order: Sequence[int], place: int) -> list[int]:
    """Return the other edits, those that stand beside this one first: what belongs together stands together."""
    others = [(abs(at - place), at) for at in range(len(order)) if at != place]
    return [order[at] for _, at in sorted(others)]
