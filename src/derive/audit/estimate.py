# SPDX-License-Identifier: Apache-2.0
"""What an audit will take: time by what deriving took when the release was made, disk by what it has to hold.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derive.canonical import Json
from derive.releases.facts import Facts
from derive.words import duration_text, size_text

_FACTOR = 4
"""A store holds what it fetched, what was unpacked of it for sandboxes, and what was built."""

_ROOT_BYTES = 700 << 20
"""The engine's root with what it is built from; it lies in the person's own store, mostly on the same disk."""
_LONG_NS = 600_000_000_000
_LARGE_BYTES = 20 << 30
_SLOWEST_NS = 8_000_000_000
"""A step of the production image takes 2.2 s on average; a machine may be a few times slower than another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Time in nanoseconds, and whether it is recorded or guessed from the number of steps; bytes of disk."""

    duration_ns: int
    is_recorded: bool
    disk_bytes: int

    @property
    def is_long(self) -> bool:
        """Say whether a person may want to be asked first."""
        return self.duration_ns > _LONG_NS or self.disk_bytes > _LARGE_BYTES

    def text(self, free_bytes: int, place: str) -> str:
        """Say it in one line."""
        how = "as it took when it was made" if self.is_recorded else "by the number of its steps, at most"
        space = f"{size_text(self.disk_bytes)} of disk in {place}, where {size_text(free_bytes)} are free"
        time = f"about {duration_text(self.duration_ns)} ({how}), beside the engine of then"
        return f"to derive again: {time}, and {space}"


def estimate(cost: Json, facts: Facts, input_bytes: int) -> Estimate:
    """Return what an audit takes. ``cost`` is that of the record; ``input_bytes`` what is fetched or in the capsule."""
    given = cost if isinstance(cost, Mapping) else {}
    steps = {key for image in facts.images.values() for key, one in image.derivations.items() if not _is_fetch(one)}
    duration = given.get("duration_ns")
    held = given.get("store_bytes")
    disk = (held if isinstance(held, int) else input_bytes * _FACTOR) + _ROOT_BYTES
    return Estimate(
        duration_ns=duration if isinstance(duration, int) else len(steps) * _SLOWEST_NS,
        is_recorded=isinstance(duration, int),
        disk_bytes=disk,
    )


def _is_fetch(one: object) -> bool:
    return str(getattr(one, "builder", "")).startswith("fetch-")
