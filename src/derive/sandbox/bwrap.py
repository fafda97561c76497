# SPDX-License-Identifier: Apache-2.0
"""Runs a sandbox specification under bubblewrap, and sees to it that nothing of it survives.

Edge: starts processes, reads pipes and the monotonic clock, sends signals. Decides nothing about what is mounted.

The first process of the sandbox is held at a gate until the engine has a descriptor of it. That descriptor becomes
readable when the kernel has ended every process of the namespace: only then does :meth:`Bubblewrap.run` return.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass, field

from derive.errors import HostRefuses
from derive.sandbox.filter import syscall_filter
from derive.sandbox.outcome import Cancelled, Exited, Flag, LogLine, Lost, Outcome, TimedOut, start_failure
from derive.sandbox.spec import SandboxSpec, bwrap_arguments

_READ = 1 << 16
_LONGEST_LINE = 1 << 16
_POLL_S = 0.1  # how often a caller's flag is looked at
_DEATH_S = 60.0  # killed processes are gone at once, unless the kernel waits for a device
_FIRST_LINES = 20

_SOFT_LIMITS = (
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_NOFILE, 1024),
    (resource.RLIMIT_STACK, 8 << 20),
)
"""Limits that programs can see, and that would otherwise be whatever the person's session has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubblewrap:
    """The bubblewrap of this machine: its absolute path, and the machine as ``uname -m`` names it."""

    program: str
    machine: str

    def run(
        self, spec: SandboxSpec, *, log: LogLine, timeout_s: float | None = None, cancel: Flag | None = None
    ) -> Outcome:
        """Run a specification to its end; on return, and on any exception, no process of it is left.

        Standard output and error come merged, line by line, to ``log``. ``timeout_s`` counts from the program's start.
        Call it from a thread that lives as long as the run: the kernel kills the sandbox with its parent thread.

        Raises:
            HostRefuses: when this machine cannot make the sandbox, or cannot run the root's programs.
            BuildFailed: when the root does not hold the program.
        """
        with contextlib.ExitStack() as stack:
            lines = _Lines(log)
            sandbox = _start(self, spec, _Descriptors(stack))
            try:
                stopped = _watch(sandbox, lines, timeout_s, cancel)
            finally:
                _end(sandbox)
            lines.drain(sandbox.output)
        if stopped is not None:
            return stopped
        if sandbox.exit_code is not None:
            return Exited(sandbox.exit_code)
        if sandbox.process.returncode < 0 or not any(line.startswith("bwrap: ") for line in lines.first):
            return Lost()
        raise start_failure(lines.first, spec.argv[0])


@dataclass(slots=True, kw_only=True)
class _Sandbox:
    """One run: bubblewrap, the ends of its pipes, and what it has told so far."""

    process: subprocess.Popen[bytes]
    ended: int
    output: int
    status: int
    gate: int
    owner: _Descriptors
    init: int | None = None
    told: bytes = b""
    exit_code: int | None = None

    def listen(self) -> bool:
        """Read what bubblewrap tells about itself, one JSON document a line; returns False at the end of it."""
        data = os.read(self.status, _READ)
        *documents, self.told = (self.told + data).split(b"\n")
        for document in map(json.loads, documents):
            self.exit_code = document.get("exit-code", self.exit_code)
            if "child-pid" in document and self.init is None:
                self.init = _hold(document["child-pid"], self.owner)
        return bool(data)


class _Descriptors:
    """Owns descriptors: each is closed once, at the latest with the stack."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._open: set[int] = set()
        stack.callback(lambda: self.close(*self._open))

    def keep(self, descriptor: int) -> int:
        self._open.add(descriptor)
        return descriptor

    def close(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            self._open.discard(descriptor)
            os.close(descriptor)

    def pipe(self) -> tuple[int, int]:
        read_end, write_end = os.pipe()
        return self.keep(read_end), self.keep(write_end)

    def memory_file(self, contents: bytes) -> int:
        descriptor = self.keep(os.memfd_create("derive"))
        with open(descriptor, "wb", closefd=False) as file:
            file.write(contents)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor


@dataclass(slots=True)
class _Lines:
    """Cuts output into lines. Keeps the first ones, in which bubblewrap says why it could not start."""

    log: LogLine
    first: list[str] = field(default_factory=list)
    pending: bytes = b""

    def feed(self, data: bytes) -> None:
        *whole, self.pending = (self.pending + data).split(b"\n")
        for line in whole:
            self._emit(line)
        if len(self.pending) >= _LONGEST_LINE:
            self._emit(self.pending)
            self.pending = b""

    def take(self, descriptor: int) -> bool:
        """Read once; returns False at the end."""
        data = os.read(descriptor, _READ)
        self.feed(data)
        return bool(data)

    def drain(self, descriptor: int) -> None:
        """Take what is left in a pipe that nobody writes to any more."""
        while self.take(descriptor):
            pass
        if self.pending:
            self._emit(self.pending)

    def _emit(self, line: bytes) -> None:
        if len(self.first) < _FIRST_LINES:
            self.first.append(line.decode(errors="replace"))
        for start in range(0, len(line) or 1, _LONGEST_LINE):
            self.log(line[start : start + _LONGEST_LINE])


def _start(bubblewrap: Bubblewrap, spec: SandboxSpec, owner: _Descriptors) -> _Sandbox:
    """Start bubblewrap, which stops at the gate before it runs the program."""
    output, output_end = owner.pipe()
    status, status_end = owner.pipe()
    gate_end, gate = owner.pipe()
    files = [owner.memory_file(file.contents) for file in spec.files]
    rules = owner.memory_file(syscall_filter(bubblewrap.machine))
    options = (
        *(b"--json-status-fd", b"%d" % status_end, b"--block-fd", b"%d" % gate_end, b"--seccomp", b"%d" % rules),
        *bwrap_arguments(spec, files),
    )
    # Options by descriptor: on the command line, a script could read the host's paths in /proc/1/cmdline.
    listed = owner.memory_file(b"".join(option + b"\0" for option in options))
    standard_input = owner.keep(os.open(spec.standard_input, os.O_RDONLY | os.O_CLOEXEC))
    passed = (status_end, gate_end, rules, listed, *files)
    process = subprocess.Popen(
        [b"bwrap", b"--args", b"%d" % listed, b"--", *(word.encode() for word in spec.argv)],
        executable=bubblewrap.program,
        stdin=standard_input,
        stdout=output_end,
        stderr=output_end,
        pass_fds=passed,
        cwd="/",
        env={},  # likewise /proc/1/environ
        umask=0o022,
        start_new_session=True,  # a Ctrl-C reaches the engine alone, which then ends the sandbox in order
        extra_groups=() if os.geteuid() == 0 and os.getgroups() else None,
    )
    try:
        owner.close(output_end, standard_input, *passed)
        ended = owner.keep(os.pidfd_open(process.pid))
    except BaseException:
        process.kill()
        process.wait()
        raise
    return _Sandbox(process=process, ended=ended, output=output, status=status, gate=gate, owner=owner)


def _watch(
    sandbox: _Sandbox, lines: _Lines, timeout_s: float | None, cancel: Flag | None
) -> TimedOut | Cancelled | None:
    """Pass output on until bubblewrap ends (None), time is up or the caller gives up."""
    started_at: float | None = None
    with selectors.DefaultSelector() as selector:
        for descriptor in (sandbox.output, sandbox.status, sandbox.ended):
            selector.register(descriptor, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select(_patience(started_at, timeout_s, cancel))}
            if sandbox.output in ready and not lines.take(sandbox.output):
                selector.unregister(sandbox.output)
            if sandbox.status in ready and not sandbox.listen():
                selector.unregister(sandbox.status)
            if started_at is None and sandbox.init is not None:
                started_at = time.monotonic()
                os.write(sandbox.gate, b"\n")
            if sandbox.ended in ready:
                return None
            if cancel is not None and cancel.is_set():
                return Cancelled()
            if timeout_s is not None and _patience(started_at, timeout_s, None) == 0:
                return TimedOut(timeout_s)


def _patience(started_at: float | None, timeout_s: float | None, cancel: Flag | None) -> float | None:
    """Return the seconds until something must be looked at; None for as long as it takes."""
    left = None
    if started_at is not None and timeout_s is not None:
        left = max(0.0, started_at + timeout_s - time.monotonic())
    if cancel is None:
        return left
    return _POLL_S if left is None else min(_POLL_S, left)


def _hold(pid: int, owner: _Descriptors) -> int | None:
    """Return a descriptor of the sandbox's first process, with the fixed limits set; None if it died already."""
    try:
        descriptor = owner.keep(os.pidfd_open(pid))
        for kind, soft in _SOFT_LIMITS:
            hard = resource.prlimit(pid, kind)[1]
            resource.prlimit(pid, kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
    except ProcessLookupError:
        return None
    return descriptor


def _end(sandbox: _Sandbox) -> None:
    """Kill whatever is left, and wait until the kernel has ended every process of the namespace.

    Bubblewrap's first process dies with bubblewrap only once the program runs. Before that it must be known and be
    killed itself, with the gate still closed.

    Raises:
        HostRefuses: when killed processes do not die.
    """
    while sandbox.init is None and _readable(sandbox.status, _DEATH_S) and sandbox.listen():
        pass
    if sandbox.init is not None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(sandbox.init, signal.SIGKILL)
    if not _readable(sandbox.ended, 1.0):  # it reports its child's end and follows by itself
        sandbox.process.kill()
    sandbox.process.wait()
    if sandbox.init is not None and not _readable(sandbox.init, _DEATH_S):
        raise HostRefuses(
            "processes of the sandbox do not die",
            detail=(f"killed and waited for  {_DEATH_S:g} s",),
            hint="look for processes in state D: the kernel waits for a device or a file server",
        )
    while sandbox.listen():
        pass


def _readable(descriptor: int, within_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(within_s * 1000))
