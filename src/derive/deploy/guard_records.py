# SPDX-License-Identifier: Apache-2.0
"""What a memory guard left behind: the record of its kill, and how it ended, in words.

Core: no IO. Standard library only. The record is specified on docs/memory-guard.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from derive.canonical import Json
from derive.deploy.model import GuardSeen

_REASONS: Final = {
    "below-floor": "less memory was available than its floor",
    "pressure": "all tasks waited for memory for too long",
    "memory-unreadable": "it could no longer read how much memory is available",
    "pressure-unreadable": "it could no longer read the pressure on memory",
    "cgroup-unreadable": "it could no longer read the container's control group",
}

_GUARD_CODES: Final = {
    1: "could not guard any more, and killed it",
    3: "killed it for want of memory",
    4: "killed it for want of memory, and processes of it are still there",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardKill:
    """A record that a memory guard left: why it killed, when (seconds since 1970), and what was available.

    ``available_bytes`` is that of the last sample, None where it could not be read; ``file`` its path on the node.
    """

    file: str
    phase: str
    reason: str
    at_s: int
    floor_bytes: int
    available_bytes: int | None
    largest: tuple[tuple[str, int], ...]

    def document(self) -> dict[str, Json]:
        """Return it as part of a record."""
        return {
            "file": self.file,
            "phase": self.phase,
            "reason": self.reason,
            "at_s": self.at_s,
            "floor_bytes": self.floor_bytes,
            "available_bytes": self.available_bytes,
            "largest": [{"name": name, "resident_bytes": size} for name, size in self.largest],
        }


def guard_kill(file: str, document: Json) -> GuardKill | None:
    """Read a record that a guard left; None for what is no such record."""
    body = document.get("body") if isinstance(document, Mapping) and document.get("kind") == "memory-guard" else None
    if not isinstance(body, Mapping):
        return None
    phase, reason, at_s, floor = (body.get(key) for key in ("phase", "reason", "realtime_s", "floor_bytes"))
    if not (isinstance(phase, str) and isinstance(reason, str) and isinstance(at_s, int) and isinstance(floor, int)):
        return None
    return GuardKill(
        file=file,
        phase=phase,
        reason=reason,
        at_s=at_s,
        floor_bytes=floor,
        available_bytes=_last_available(body.get("samples")),
        largest=tuple(_largest(body.get("processes"))),
    )


def guard_text(kill: GuardKill) -> str:
    """Say why a guard killed, with its figures."""
    reason = _REASONS.get(kill.reason, kill.reason)
    if kill.available_bytes is None:
        return f"killed by the memory guard ({kill.phase}): {reason}"
    figures = f"{_gib(kill.available_bytes)} available, floor {_gib(kill.floor_bytes)}"
    return f"killed by the memory guard ({kill.phase}): {reason}: {figures}"


def guard_ended(guards: Iterable[GuardSeen]) -> str | None:
    """Say how a guard ended that should not have; None where each lives, or was told to end."""
    for one in sorted(guards, key=lambda one: one.phase != "steady"):
        if one.alive:
            continue
        if one.pid is not None and one.code is None:
            halted = f"its memory guard ({one.phase}) is halted by a signal, and guards nothing"
            return f"{halted}: on the node: sudo kill -CONT {one.pid}"
        if not one.code:
            continue
        how = _GUARD_CODES.get(one.code, f"ended with {one.code}")
        if one.code < 0:
            where = "" if one.unit is None else f": on the node: sudo journalctl --unit {one.unit}"
            how = f"was killed by signal {-one.code}{where}"
        return f"its memory guard ({one.phase}) {how}"
    return None


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.2f} GiB"


def _last_available(samples: Json) -> int | None:
    if not isinstance(samples, Sequence) or isinstance(samples, str) or not samples:
        return None
    last = samples[-1]
    available = last.get("available_bytes") if isinstance(last, Mapping) else None
    return available if isinstance(available, int) else None


def _largest(processes: Json) -> Iterable[tuple[str, int]]:
    largest = processes.get("largest") if isinstance(processes, Mapping) else None
    for one in largest[:8] if isinstance(largest, Sequence) and not isinstance(largest, str) else ():
        name, size = (one.get("name"), one.get("resident_bytes")) if isinstance(one, Mapping) else (None, None)
        if isinstance(name, str) and isinstance(size, int):
            yield name, size
