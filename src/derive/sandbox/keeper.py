# SPDX-License-Identifier: Apache-2.0
"""A process beside each sandbox that outlives the engine by a moment, to end what the engine started.

Edge: starts bubblewrap, watches it, sends signals. Run as a program by bwrap.py, never imported by it; it imports
nothing of this package and little else, because it is started for every sandbox.

Bubblewrap ties the sandbox to its parent only when the sandbox is set up. An engine that is killed in those first
milliseconds would leave a script that runs on with nobody to stop it. So bubblewrap is held at a gate, and it is this
process that opens the gate, knowing the sandbox's first process; the engine's death or its wish to stop shows as the
end of a pipe that only the engine holds.

Arguments: lifeline, report, descriptors to pass on (with commas), bubblewrap's path, its further arguments.
Report, one word a line: ``started``, then ``exit N``, ``failed`` (the program never ran), ``lost`` or ``stuck``.
"""

from __future__ import annotations

import os
import resource
import select
import sys

DEATH_S = 60.0  # killed processes are gone at once, unless the kernel waits for a device
_READ = 1 << 16

_SOFT_LIMITS = (
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_NOFILE, 1024),
    (resource.RLIMIT_STACK, 8 << 20),
)
"""Limits that programs can see, and that would otherwise be whatever the person's session has."""

_SIGNALS = frozenset(range(1, 32)) - {9, 19}  # all ordinary ones but KILL and STOP, which have no settings


class Keeper:
    """One sandbox: bubblewrap, its first process inside once that is known, and what bubblewrap has told."""

    def __init__(self, program: bytes, arguments: list[bytes]) -> None:
        self.status, status_end = os.pipe()
        gate_end, self.gate = os.pipe()
        for descriptor in (status_end, gate_end):
            os.set_inheritable(descriptor, True)
        told = [b"--json-status-fd", b"%d" % status_end, b"--block-fd", b"%d" % gate_end]
        # No environment: a script could read it in /proc/1/environ. No inherited signal settings: Python ignores
        # SIGPIPE, nohup ignores SIGHUP, and a script would ignore them too.
        self.pid = os.posix_spawn(program, [b"bwrap", *told, *arguments], {}, setsigmask=(), setsigdef=_SIGNALS)
        os.close(status_end)
        os.close(gate_end)
        self.ended = os.pidfd_open(self.pid)
        self.init: int | None = None
        self.exit_code: int | None = None
        self._told = b""

    def listen(self) -> bool:
        """Read what bubblewrap tells about itself, one JSON object a line; returns False at the end of it."""
        data = os.read(self.status, _READ)
        *documents, self._told = (self._told + data).split(b"\n")
        for document in documents:
            code = _number(document, b'"exit-code":')
            self.exit_code = self.exit_code if code is None else code
            pid = _number(document, b'"child-pid":')
            if pid is not None and self.init is None:
                self.init = _hold(pid)
        return bool(data)

    def open_gate(self) -> None:
        """Let the program run."""
        try:
            os.write(self.gate, b"\n")
        except BrokenPipeError:
            return  # it could not be set up, and has died already

    def kill(self) -> None:
        """Kill the sandbox at whatever point it is: with a closed gate, its first process must be known for that."""
        import signal  # slow to import, and rarely needed

        while self.init is None and readable(self.status, DEATH_S) and self.listen():
            pass
        for descriptor in (self.init, self.ended):
            if descriptor is not None:
                try:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                except ProcessLookupError:
                    continue

    def finish(self) -> bytes:
        """Wait for the end of bubblewrap and of every process inside, and return the last word of the report."""
        _, status = os.waitpid(self.pid, 0)
        if self.init is not None and not readable(self.init, 1.0):
            self.kill()
            if not readable(self.init, DEATH_S):
                return b"stuck"
        while self.listen():
            pass
        if self.exit_code is not None:
            return b"exit %d" % self.exit_code
        return b"failed" if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1 else b"lost"


def readable(descriptor: int, within_s: float) -> bool:
    """Say whether a descriptor becomes readable in time; one of a process does when that has ended."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


def watch(keeper: Keeper, lifeline: int, report: int) -> None:
    """Report the start and the end of a sandbox, and end it when the lifeline does."""
    poll = select.poll()
    for descriptor in (lifeline, keeper.status, keeper.ended):
        poll.register(descriptor, select.POLLIN)
    started = False
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if lifeline in ready:
            keeper.kill()
            break
        if keeper.status in ready and not keeper.listen():
            poll.unregister(keeper.status)
        if keeper.init is not None and not started:
            started = True
            keeper.open_gate()
            _say(report, b"started")
        if keeper.ended in ready:
            break
    _say(report, keeper.finish())


def main(arguments: list[bytes]) -> None:
    """Keep one sandbox."""
    lifeline, report = int(arguments[0]), int(arguments[1])
    for descriptor in (lifeline, report):
        os.set_inheritable(descriptor, False)
    try:
        keeper = Keeper(arguments[3], arguments[4:])
    except OSError as error:
        os.write(2, b"bwrap: %s: %s\n" % (arguments[3], os.fsencode(os.strerror(error.errno or 0))))
        _say(report, b"failed")
        return
    for passed in map(int, arguments[2].split(b",")):
        os.close(passed)
    watch(keeper, lifeline, report)


def _hold(pid: int) -> int | None:
    """Return a descriptor of the sandbox's first process, with the fixed limits set; None if it died already."""
    try:
        descriptor = os.pidfd_open(pid)
        for kind, soft in _SOFT_LIMITS:
            hard = resource.prlimit(pid, kind)[1]
            resource.prlimit(pid, kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
    except ProcessLookupError:
        return None
    return descriptor


def _say(report: int, word: bytes) -> None:
    try:
        os.write(report, word + b"\n")
    except BrokenPipeError:
        return  # the engine is gone; there is nobody to tell


def _number(document: bytes, key: bytes) -> int | None:
    """Return the integer after a key of one of bubblewrap's flat JSON objects (importing json takes too long)."""
    _, found, rest = document.partition(key)
    return int(rest.strip(b" }").split(b",")[0]) if found else None


if __name__ == "__main__":
    main([os.fsencode(argument) for argument in sys.argv[1:]])
