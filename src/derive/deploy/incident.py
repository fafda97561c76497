# SPDX-License-Identifier: Apache-2.0
"""Which rank died first, and of what: from what the engines, the memory guards and the nodes' clocks say.

Core: no IO. Standard library only.

A collective fails on every rank when one is gone, so that all ranks end within seconds of each other; the first one is
the one to ask. Engines write when a container ended by their own machine's clock: what a clock is ahead of the
operator's is taken off before they are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from derive.canonical import Json
from derive.deploy.guard_records import GuardKill, guard_ended, guard_text
from derive.deploy.kernel_log import KernelKill, kernel_text
from derive.deploy.model import Container, GuardSeen, Served

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_NONE_YEAR: Final = "0001-"
_SIGNALS: Final = {2: "SIGINT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}
_TOLD_TO_STOP: Final = 143
_KILLED: Final = 137
_ENGINE_ENDED: Final = 255
"""What an engine gives a container that it finds ended, and did not see end."""
_SECOND: Final = 1_000_000_000
_GUARD_SLACK_S: Final = 120
"""A guard's record is of this end when it was written at most so long before or after."""
_START_SLACK_S: Final = 1
"""An engine writes when a container started a moment after that, and a guard's clock counts whole seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSeen:
    """One rank as it is now. ``container`` is None where there is none.

    ``trouble`` says why the node could not be asked; all else is what was last known then. ``ahead_ns`` is what its
    clock is ahead of the operator's, ``answered_ns`` when it last answered, by the operator's clock. ``kernel`` is what
    the machine's kernel says that it killed in the container.
    """

    node: str
    rank: int
    container: Container | None
    guards: tuple[GuardSeen, ...] = ()
    kills: tuple[GuardKill, ...] = ()
    kernel: KernelKill | None = None
    ahead_ns: int = 0
    answered_ns: int = 0
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """How one rank ended. ``at_ns`` is when, by the operator's clock; None where nothing says it.

    ``kind`` is ``oom`` (the kernel's killer), ``guard`` (a memory guard), ``unguarded`` (it runs without one),
    ``killed``, ``exit``, ``stopped`` (it was told to), ``gone`` (no container), ``lost`` (the node does not answer).
    """

    node: str
    rank: int
    kind: str
    why: str
    at_ns: int | None
    container: Container | None
    guard: GuardKill | None = None
    kernel: KernelKill | None = None

    def document(self) -> dict[str, Json]:
        """Return it as part of a record."""
        found = self.container
        return {
            "node": self.node,
            "rank": self.rank,
            "kind": self.kind,
            "why": self.why,
            "at_us": None if self.at_ns is None else self.at_ns // 1000,
            "container": None if found is None else found.id,
            "exit_code": None if found is None else found.exit_code,
            "oom_killed": None if found is None else found.oom_killed,
            "error": None if found is None else found.error or None,
            "finished": None if found is None else found.finished,
            "guard": None if self.guard is None else self.guard.document(),
            "kernel": None if self.kernel is None else self.kernel.document(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """The end of a service: its ranks' deaths, the first one first, and what was done about it.

    ``decided`` is ``restart``, ``budget-spent`` or ``cannot-restart``; ``restarts`` how many there were within the time
    that counts. ``stopped`` says of each node how its stop went, None where it went well.
    """

    service: str
    served: Served | None
    deaths: tuple[Death, ...]
    at_s: int
    decided: str
    why: str
    restarts: int
    budget: Budget
    stopped: Mapping[str, str | None]
    logs: str | None

    def body(self) -> dict[str, Json]:
        """Return it as a record's body."""
        return {
            "event": "death",
            "service": self.service,
            "served": None if self.served is None else self.served.document(),
            "first": self.deaths[0].node,
            "deaths": [one.document() for one in self.deaths],
            "at_s": self.at_s,
            "decided": self.decided,
            "why": self.why,
            "restarts": self.restarts,
            "budget": {"restarts": self.budget.restarts, "within_s": self.budget.within_s},
            "stopped": dict(self.stopped),
            "logs": self.logs,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many restarts there may be within so many seconds. None is a budget, too: the first death is the last."""

    restarts: int
    within_s: int

    def spent(self, bodies: Iterable[Mapping[str, Json]], service: str, now_s: int) -> int:
        """Return how many restarts of a service the records of incidents tell of, within the time that counts.

        It is read from records, so that a supervisor that was started again goes on counting where it was.
        """
        return sum(
            body.get("service") == service
            and body.get("decided") == "restart"
            and isinstance(at_s := body.get("at_s"), int)
            and now_s - self.within_s < at_s <= now_s
            for body in bodies
        )


def deaths(ranks: Sequence[RankSeen]) -> tuple[Death, ...]:
    """Return the ranks that have ended, the first one first; those of which no time is known come last, by rank."""
    return in_order(one for one in map(_death, ranks) if one is not None)


def in_order(found: Iterable[Death]) -> tuple[Death, ...]:
    """Return deaths, the first one first; those of which no time is known come last, by rank."""
    return tuple(sorted(found, key=lambda one: (one.at_ns is None, one.at_ns or 0, one.rank)))


def engine_ns(text: str | None) -> int | None:
    """Return an engine's time in nanoseconds since 1970; None for none, which engines write as the year 1."""
    match = _TIME.fullmatch(text or "")
    if match is None or (text or "").startswith(_NONE_YEAR):
        return None
    zone = "+00:00" if match[3] == "Z" else match[3]
    try:
        whole = datetime.fromisoformat(match[1] + zone).astimezone(UTC)
    except ValueError:
        return None
    return int(whole.timestamp()) * _SECOND + int((match[2] or "").ljust(9, "0"))


def exit_text(container: Container) -> str:
    """Say how a container ended, as its engine knows it."""
    code = container.exit_code
    if container.oom_killed and code == _KILLED:
        return f"killed by the kernel for want of memory (OOM), exit code {code}"
    if container.oom_killed:
        # The engine says so of any process in it: the rank itself may have ended for want of a child.
        return f"a process of it was killed by the kernel for want of memory (OOM), and it ended with exit code {code}"
    if code is None:
        return f"it is {container.state}"
    if code == _TOLD_TO_STOP:
        return f"told to stop, exit code {code}"
    if code > 128 and code - 128 in _SIGNALS:
        return f"ended by {_SIGNALS[code - 128]}, exit code {code}"
    if code == _ENGINE_ENDED:
        return f"ended by itself, or with its engine or its machine, exit code {code}"
    said = f": {container.error}" if container.error else ""
    return f"ended by itself, exit code {code}{said}"


def _death(rank: RankSeen) -> Death | None:
    """Return how a rank ended; None while it lives, guarded if it was to be."""
    if rank.trouble is not None:
        why = f"the node does not answer: {rank.trouble}"
        return _of(rank, "lost", why, rank.answered_ns or None)
    found = rank.container
    if found is None:
        return _of(rank, "gone", "its container is not there", None)
    if found.state == "running":
        if rank.guards and not any(guard.alive for guard in rank.guards):
            return _of(rank, "unguarded", guard_ended(rank.guards) or "no memory guard is at work any more", None)
        return None
    ended = engine_ns(found.finished)
    kill = _kill_of(rank.kills, engine_ns(found.started), ended)
    at_ns = None if ended is None else ended - rank.ahead_ns
    if rank.kernel is not None:
        return _of(rank, "oom", f"{kernel_text(rank.kernel)}, exit code {found.exit_code}", at_ns, kill)
    if kill is not None and not found.oom_killed:
        return _of(rank, "guard", guard_text(kill), at_ns, kill)
    if not found.oom_killed and found.exit_code in (_KILLED, _TOLD_TO_STOP):
        said = guard_ended(rank.guards)
        if said is not None:
            return _of(rank, "guard", said, at_ns)
    return _of(rank, _kind(found), exit_text(found), at_ns, kill)


def _kind(found: Container) -> str:
    if found.oom_killed:
        return "oom"
    if found.exit_code == _KILLED:
        return "killed"
    return "stopped" if found.exit_code == _TOLD_TO_STOP else "exit"


def _of(rank: RankSeen, kind: str, why: str, at_ns: int | None, kill: GuardKill | None = None) -> Death:
    return Death(
        node=rank.node,
        rank=rank.rank,
        kind=kind,
        why=why,
        at_ns=at_ns,
        container=rank.container,
        guard=kill,
        kernel=rank.kernel,
    )


def _kill_of(kills: Iterable[GuardKill], started_ns: int | None, ended_ns: int | None) -> GuardKill | None:
    """Return the guard's record of this end: the newest that was written about then, by the node's one clock.

    A record from before the container started is of the one before it.
    """
    if ended_ns is None:
        return None
    first = ended_ns // _SECOND - _GUARD_SLACK_S
    if started_ns is not None:
        first = max(first, started_ns // _SECOND - _START_SLACK_S)
    near = [one for one in kills if first <= one.at_s <= ended_ns // _SECOND + _GUARD_SLACK_S]
    return max(near, key=lambda one: one.at_s, default=None)
