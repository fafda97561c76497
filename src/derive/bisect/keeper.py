# SPDX-License-Identifier: Apache-2.0
"""A process beside the command of a bisection, to end everything that the command started, however derive ends.

Edge: starts one program, sends signals, reads /proc. Run as a program by command.py, never imported by it.

The command is in a session of its own, so Ctrl-C reaches derive alone. That it stops, or was killed, shows as the end
of a pipe whose other end only derive holds. Whatever the command left running becomes a child of this process.

Arguments: the pipe's descriptor, the command. Report on standard output: ``exit N``, ``signal N`` or ``error N``.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

GRACE_S = 2.0
_DEATH_S = 30.0
_POLL_S = 0.02
_CHILD_SUBREAPER = 36


def main(arguments: list[bytes]) -> None:
    """Run the command, and end what it started."""
    lifeline, command = int(arguments[0]), arguments[1:]
    os.set_inheritable(lifeline, False)
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        pid = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)],
            setsid=True,
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # which Python ignores
        )
    except OSError as error:
        _say(b"error %d" % (error.errno or 0))
        return
    ended = os.pidfd_open(pid)
    poll = select.poll()
    for descriptor in (lifeline, ended):
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
    ready = {descriptor for descriptor, _ in poll.poll()}
    word = b""
    if ended in ready:
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        word = b"exit %d" % code if code >= 0 else b"signal %d" % -code
    end_all(pid)
    if word:
        _say(word)


def end_all(session: int) -> None:
    """Ask the command's group to end, and kill after a moment whatever is left of all that it started."""
    _signal_group(session, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while _reap() and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    deadline = time.monotonic() + _DEATH_S
    while _reap() and time.monotonic() < deadline:
        _signal_group(session, signal.SIGKILL)
        for child in _children():
            _signal(child, signal.SIGKILL)
        time.sleep(_POLL_S)


def _reap() -> bool:
    """Take note of children that ended; say whether one is left."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True


def _children() -> list[int]:
    """Return the children of this process, to which come all whose parents ended."""
    try:
        with open("/proc/thread-self/children", "rb") as file:  # noqa: PTH123 - a program that is started for each run
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _say(word: bytes) -> None:
    try:
        os.write(1, word + b"\n")
    except BrokenPipeError:
        return  # derive is gone; there is nobody to tell


if __name__ == "__main__":
    main([os.fsencode(argument) for argument in sys.argv[1:]])
