# SPDX-License-Identifier: Apache-2.0
"""How quick executors are beside this machine, from what the same steps took here and there.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from derive.schedule.model import USUAL_SPEED

_LEAST_NS = 1_000_000_000
"""A shorter step tells how quickly things are begun, and not how quick the machine is."""
_MOST = 100 * USUAL_SPEED


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A step that was built: by name and host platform, at which executor (None: this machine), in what time."""

    name: str
    host: str
    builder: str
    executor: str | None
    duration_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Thousandths of this machine's speed, and how many steps, built at both places, say so."""

    speed: int
    steps: int


def speeds(timed: Iterable[Timed]) -> Mapping[str, Speed]:
    """Return the speed of each executor that built steps which were built here, too: the median over those steps."""
    by_step: dict[tuple[str, str, str], dict[str | None, list[int]]] = {}
    for one in timed:
        by_step.setdefault((one.name, one.host, one.builder), {}).setdefault(one.executor, []).append(one.duration_ns)
    ratios: dict[str, list[int]] = {}
    for times in by_step.values():
        here = times.get(None)
        if here is None or median(here) < _LEAST_NS:
            continue
        for executor, there in times.items():
            if executor is not None:
                ratios.setdefault(executor, []).append(round(USUAL_SPEED * median(here) / max(1, median(there))))
    return {
        executor: Speed(speed=min(_MOST, max(1, round(median(found)))), steps=len(found))
        for executor, found in ratios.items()
    }
