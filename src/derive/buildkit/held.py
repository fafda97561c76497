# SPDX-License-Identifier: Apache-2.0
"""A process beside each client of BuildKit that outlives the engine by a moment, to end what the engine started.

Edge: starts a program, watches it, sends signals. Run as a program by client.py, never imported by it; it imports
nothing of this package and little else, because it is started for every step.

A client that is ended has its build ended by the worker. The engine's death, or its wish to stop, shows as the end of
a pipe that only the engine writes to.

Arguments: the pipe's path, a variable for the client's environment or nothing, then the client's command.
"""

from __future__ import annotations

import os
import select
import signal
import sys

PATIENCE_S = 3.0
"""How long a client is given to tell its worker before it is killed."""

STOPPED = 130

_NOT_OURS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""What a terminal, or whoever stops all of a session, sends to this process too: it must outlive the engine."""


def main(lifeline: str, variable: str, command: list[str]) -> int:
    """Run a command in a session of its own until it ends, or the pipe does; return its status."""
    for number in _NOT_OURS:
        signal.signal(number, signal.SIG_IGN)
    try:
        # Without waiting for a writer: an engine that let go before now never comes back.
        watched = os.open(lifeline, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return STOPPED
    if not _is_held(watched):
        return STOPPED
    name, _, value = variable.partition("=")
    environment = {**os.environ, name: value} if name else os.environ
    nothing = ((os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),)
    # A Ctrl-C at the terminal reaches the engine alone, which then ends the clients in order.
    try:
        pid = os.posix_spawnp(command[0], command, environment, file_actions=nothing, setsid=True, setsigdef=_NOT_OURS)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126
    ended = os.pidfd_open(pid)
    ready, _, _ = select.select([watched, ended], [], [])
    if ended not in ready:
        os.killpg(pid, signal.SIGTERM)
        select.select([ended], [], [], PATIENCE_S)
        _kill(pid)
        os.waitpid(pid, 0)
        return STOPPED
    _, status = os.waitpid(pid, 0)
    _kill(pid)  # a client that was killed leaves its plugin behind
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _is_held(pipe: int) -> bool:
    """Say whether anybody could write to a pipe; nobody ever does."""
    try:
        return os.read(pipe, 1) != b""
    except BlockingIOError:
        return True


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
