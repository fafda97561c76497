# SPDX-License-Identifier: Apache-2.0
"""A command that runs while a test does something to it, and what is left of it afterwards.

Edge: processes, /proc, the clock.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.cli import Ran, command, environment
from support.small import Small

BEGUN = "it has begun"
"""What a script that sleeps says first; see :func:`sleeper`."""


def sleeper(seconds: object) -> str:
    """Return a build script that says that it has begun, and sleeps."""
    return f'echo "{BEGUN}"\nsleep {seconds}\nmkdir -p "$DERIVE_OUT/x"\n'


def marker() -> str:
    """Return a length of sleep that nobody else sleeps: processes are found by it."""
    return f"9{time.monotonic_ns()}"


class Run:
    """A running command."""

    def __init__(self, small: Small, *arguments: str) -> None:
        self._small = small
        self.process = subprocess.Popen(
            command(*arguments),
            env=environment(small.environment),
            cwd=small.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, what: Callable[[], object]) -> None:
        """Wait until a function says yes."""
        deadline = time.monotonic() + 60
        while not what():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, "it did not come so far"
            time.sleep(0.01)

    def script_has_begun(self) -> bool:
        """Say whether a sleeper of this store sleeps."""
        logs = (self._small.store / "logs").glob("*.log")
        return any(BEGUN.encode() in log.read_bytes() for log in logs)

    def end(self, number: int, within_s: float) -> Ran:
        """Send a signal, and return how the command ended; it must end in time."""
        self.process.send_signal(number)
        return self.result(within_s)

    def result(self, within_s: float = 60) -> Ran:
        """Wait for the end."""
        out, err = self.process.communicate(timeout=within_s)
        return Ran(self.process.returncode, out, err)


@contextmanager
def running(small: Small, *arguments: str) -> Iterator[Run]:
    """Start a command in the small project; it does not outlive the test."""
    run = Run(small, *arguments)
    try:
        yield run
    finally:
        run.process.kill()
        run.process.communicate()


def with_argument(text: str) -> list[Path]:
    """Return the processes of this machine that have an argument."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(process)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def gone_within(seconds: float, text: str) -> bool:
    """Wait until no process with that argument is left."""
    deadline = time.monotonic() + seconds
    while with_argument(text):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
