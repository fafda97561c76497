# SPDX-License-Identifier: Apache-2.0
"""Runs the command of a bisection, and leaves nothing of it behind: not on Ctrl-C, not when derive is killed.

Edge: starts processes.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from derive.errors import HostRefuses, InputErrors

_KEEPER = Path(__file__).with_name("keeper.py")


def call(command: Sequence[str], told: Mapping[str, str], timeout_s: int | None) -> int | None:
    """Run a command where the person is, its output on standard error; return its exit code, None when time was up.

    Raises:
        InputErrors: when it cannot be started.
        HostRefuses: when a signal ended it.
    """
    reading, lifeline = os.pipe()
    try:
        keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER), str(reading), *command],
            env={**os.environ, **told},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            pass_fds=(reading,),
            start_new_session=True,
        )
    except BaseException:
        os.close(lifeline)
        raise
    finally:
        os.close(reading)
    with keeper:
        try:
            report = _report(keeper, timeout_s)
        finally:
            os.close(lifeline)  # whatever of the command still runs is ended now
            keeper.wait()
    return None if report is None else _exit_code(command, report)


def _report(keeper: subprocess.Popen[bytes], timeout_s: int | None) -> bytes | None:
    """Return how the command ended; None when it did not in time."""
    assert keeper.stdout is not None
    poll = select.poll()
    poll.register(keeper.stdout, select.POLLIN)
    if not poll.poll(None if timeout_s is None else timeout_s * 1000):
        return None
    return keeper.stdout.read()


def _exit_code(command: Sequence[str], report: bytes) -> int:
    word, _, number = report.decode().strip().partition(" ")
    match word:
        case "exit":
            return int(number)
        case "error":
            detail = [f"command   {command[0]}"]
            raise InputErrors.one(f"cannot be run: {os.strerror(int(number)).lower()}", detail=detail)
        case _:
            hint = "run the same again to go on: what was judged before is known"
            how = f"by signal {number}" if number else "from outside"
            raise HostRefuses(f"the command was ended {how}", hint=hint)
