# SPDX-License-Identifier: Apache-2.0
"""How a run of a sandbox ended, and what error that is.

Core: no IO.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, assert_never

from derive.errors import BuildFailed, DeriveError, HostRefuses, Interrupted
from derive.sandbox.spec import SandboxSpec


@dataclass(frozen=True, slots=True)
class Exited:
    """The program ended with this status: 0 is success, 128 + n stands for signal n, as a shell says it."""

    status: int


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The program still ran after this many seconds, and everything in the sandbox was killed."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The caller's event was set, and everything in the sandbox was killed."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Something outside killed the sandbox: the kernel for want of memory, or a person."""


Outcome: TypeAlias = Exited | TimedOut | Cancelled | Lost

LogLine: TypeAlias = Callable[[bytes], None]
"""Takes one line of output, without its newline; a line longer than 64 KiB comes in pieces."""


class Flag(Protocol):
    """Whatever can be asked whether it is set: ``threading.Event`` for one."""

    def is_set(self) -> bool:
        """Say whether the run is to be given up."""


class Runner(Protocol):
    """Runs specifications: bubblewrap on this machine, or something of the same shape elsewhere."""

    def run(
        self, spec: SandboxSpec, *, log: LogLine, timeout_s: float | None = None, cancel: Flag | None = None
    ) -> Outcome:
        """Run to the end, with no process left behind on return.

        Raises:
            HostRefuses: when this machine cannot start the sandbox.
            BuildFailed: when the root does not hold the program.
        """


def failure_of(outcome: Outcome, *, name: str, log: str | None, doer: str = "script") -> DeriveError | None:
    """Return the error that an outcome is, or None for success. ``log`` is where the output was kept."""
    match outcome:
        case Exited(0):
            return None
        case Exited(status):
            return BuildFailed(f"the {doer} of {name} failed", detail=(f"exit status  {describe(status)}",), log=log)
        case TimedOut(after_s):
            return BuildFailed(
                f"the {doer} of {name} hangs",
                detail=(f"stopped after  {after_s:g} s, everything that it had started is killed",),
                hint="read the end of its log; a longer timeout is no part of its identity",
                log=log,
            )
        case Cancelled():
            return Interrupted(f"{name} was given up")
        case Lost():
            return BuildFailed(
                f"the sandbox of {name} was killed from outside",
                hint="look for the kernel's out-of-memory killer in its log, and try fewer jobs",
                log=log,
            )
        case _:
            assert_never(outcome)


def start_failure(lines: Sequence[str], program: str) -> DeriveError:
    """Return the error for a sandbox that never ran its program; ``lines`` are bubblewrap's own words."""
    said = tuple(line for line in lines if line.startswith("bwrap: "))
    reason = next((line for line in reversed(said) if line.startswith(f"bwrap: execvp {program}: ")), "")
    if reason.endswith("No such file or directory"):
        return BuildFailed(
            f"the root has no {program} that can run",
            detail=said,
            hint="add the package that holds it, and its program interpreter, to the root",
        )
    if reason.endswith("Permission denied"):
        return BuildFailed(f"{program} in the root is not executable", detail=said)
    if reason.endswith("Exec format error"):
        return HostRefuses(
            f"this machine cannot run the root's {program}: it is for another architecture",
            detail=said,
            hint="use a machine of the build platform, or register an emulator (package qemu-user-binfmt)",
        )
    return HostRefuses("bubblewrap could not make the sandbox", detail=said or tuple(lines))


def describe(status: int) -> str:
    """Return an exit status in words: ``2``, or ``137 (signal 9, SIGKILL)``."""
    number = status - 128
    if number not in set(signal.Signals):
        return str(status)
    return f"{status} (signal {number}, {signal.Signals(number).name})"
