# SPDX-License-Identifier: Apache-2.0
"""A process between the engine and a git that uses the network: git and its helpers end when the engine does.

Edge: starts git, watches it, sends signals. Run as a program by program.py, never imported by it.

Git has no time limit of its own, and starts helpers that outlive it. All of them are one process group; it is killed
when the lifeline, a pipe that only the engine holds, ends.

Arguments: lifeline, git's path, its arguments. The exit status is git's.
"""

from __future__ import annotations

import os
import select
import sys

_KILL = 9
_SIGNALS = frozenset(range(1, 32)) - {9, 19}  # all ordinary ones but KILL and STOP, which have no settings


def main(arguments: list[bytes]) -> int:
    """Run one git; returns its exit status, 128 and the signal's number where a signal ended it."""
    lifeline = int(arguments[0])
    os.set_inheritable(lifeline, False)
    # Python ignores SIGPIPE, and git would: a helper that writes to a dead pipe must end.
    pid = os.posix_spawn(arguments[1], arguments[1:], os.environb, setpgroup=0, setsigmask=(), setsigdef=_SIGNALS)
    ended = os.pidfd_open(pid)
    poll = select.poll()
    for descriptor in (lifeline, ended):
        poll.register(descriptor, select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll()}
    if lifeline in ready:
        os.killpg(pid, _KILL)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main([os.fsencode(argument) for argument in sys.argv[1:]]))
