# SPDX-License-Identifier: Apache-2.0
"""What is seen while a service starts, and how that stands.

Core: no IO. Standard library only. Times are a monotonic clock's, in nanoseconds, and come with the events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a node's container's log."""

    node: str
    text: str
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerIs:
    """A node's container as it is now. Not running, with an exit code: it has ended. Without one: it is not there yet.

    One that ran and is not there any more has ended, too.
    """

    node: str
    running: bool
    at_ns: int
    exit_code: int | None = None
    oom_killed: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardIs:
    """A node's memory guard of a phase as it is now; ``says`` is what its ready file says.

    That of the start must be alive all along. The steady one is started later, and must stay alive from then on.
    """

    node: str
    alive: bool
    at_ns: int
    says: str | None = None
    phase: str = "startup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the service on the head answered to a real request: a completion, or of a plain one its page."""

    good: bool
    detail: str
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A node could not be asked."""

    node: str
    why: str
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time goes by, and nothing was heard."""

    at_ns: int


Event: TypeAlias = "Line | ContainerIs | GuardIs | Answer | Lost | Tick"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """It is starting: the stage that it is in, and what is known of it."""

    stage: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """It answered, and every container is alive."""

    took_ns: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """It will not start: why, on which node (None: no single one), and the last lines of that node's log."""

    why: str
    node: str | None
    lines: tuple[str, ...]


Verdict: TypeAlias = "Waiting | Ready | Failed"
