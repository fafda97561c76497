# SPDX-License-Identifier: Apache-2.0
"""Runs a sandbox specification under bubblewrap, and sees to it that nothing of it survives.

Edge: starts processes, reads pipes and the monotonic clock. Decides nothing about what is mounted.

Between the engine and bubblewrap stands a small process, keeper.py: it holds the sandbox's first process by a
descriptor, ends it when the engine lets go of a pipe or dies, and reports only when every process inside has ended.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from derive.errors import HostRefuses
from derive.sandbox.filter import syscall_filter
from derive.sandbox.outcome import Cancelled, Exited, Flag, LogLine, Lost, Outcome, TimedOut, start_failure
from derive.sandbox.spec import SandboxSpec, bwrap_arguments

_READ = 1 << 16
_LONGEST_LINE = 1 << 16
_POLL_S = 0.1  # how often a caller's flag is looked at
_FIRST_LINES = 20
_KEEPER = Path(__file__).with_name("keeper.py")


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

        Raises:
            HostRefuses: when this machine cannot make the sandbox, or cannot run the root's programs.
            BuildFailed: when the root does not hold the program.
        """
        lines = _Lines(log)
        with contextlib.ExitStack() as stack:
            keeper = _start(self, spec, _Descriptors(stack))
            try:
                stopped = _watch(keeper, lines, timeout_s, cancel)
            finally:
                keeper.stop()
            lines.drain(keeper.output)
            while keeper.listen():
                pass
        return _outcome(stopped, keeper.last_word, lines.first, spec.argv[0])


class _Descriptors:
    """Owns descriptors: each is closed once, at the latest with the stack."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._open: set[int] = set()
        stack.callback(lambda: self.close(*self._open))

    def keep(self, descriptor: int) -> int:
        self._open.add(descriptor)
        return descriptor

    def close(self, *descriptors: int) -> None:
        for descriptor in self._open.intersection(descriptors):
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


@dataclass(slots=True, kw_only=True)
class _Keeper:
    """The process beside the sandbox, the engine's ends of its pipes, and its report so far."""

    process: subprocess.Popen[bytes]
    output: int
    report: int
    lifeline: int
    owner: _Descriptors
    started_at: float | None = None
    words: bytes = b""

    def listen(self) -> bool:
        """Read the report; returns False at its end, when nothing of the sandbox is left."""
        data = os.read(self.report, _READ)
        self.words += data
        if self.started_at is None and b"started\n" in self.words:
            self.started_at = time.monotonic()
        return bool(data)

    def stop(self) -> None:
        """Let go of the lifeline, and wait until the keeper has ended everything."""
        self.owner.close(self.lifeline)
        self.process.wait()

    @property
    def last_word(self) -> str:
        return self.words.decode().strip().rpartition("\n")[2]


@dataclass(slots=True)
class _Lines:
    """Cuts output into lines. Keeps the first ones, in which bubblewrap says why it could not start."""

    log: LogLine
    first: list[str] = field(default_factory=list)
    pending: bytes = b""

    def take(self, descriptor: int) -> bool:
        """Read once; returns False at the end."""
        data = os.read(descriptor, _READ)
        *whole, self.pending = (self.pending + data).split(b"\n")
        for line in whole:
            self._emit(line)
        if len(self.pending) >= _LONGEST_LINE:
            self._emit(self.pending)
            self.pending = b""
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


def _start(bubblewrap: Bubblewrap, spec: SandboxSpec, owner: _Descriptors) -> _Keeper:
    """Start the keeper, which starts bubblewrap."""
    output, output_end = owner.pipe()
    report, report_end = owner.pipe()
    lifeline_end, lifeline = owner.pipe()
    standard_input = owner.keep(os.open(spec.standard_input, os.O_RDONLY | os.O_CLOEXEC))
    files = [owner.memory_file(file.contents) for file in spec.files]
    rules = owner.memory_file(syscall_filter(bubblewrap.machine))
    # Options by descriptor: on the command line, a script could read the host's paths in /proc/1/cmdline.
    listed = owner.memory_file(b"".join(word + b"\0" for word in bwrap_arguments(spec, files)))
    for_bwrap = (rules, listed, *files)
    process = subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", str(_KEEPER), str(lifeline_end), str(report_end)),
            *(",".join(map(str, for_bwrap)), bubblewrap.program),
            *("--seccomp", str(rules), "--args", str(listed), "--"),
            *(word.encode() for word in spec.argv),
        ],
        stdin=standard_input,
        stdout=output_end,
        stderr=output_end,
        pass_fds=(lifeline_end, report_end, *for_bwrap),
        cwd="/",
        umask=0o022,
        start_new_session=True,  # a Ctrl-C reaches the engine alone, which then ends the sandbox in order
        extra_groups=() if os.geteuid() == 0 and os.getgroups() else None,
    )
    owner.close(output_end, report_end, lifeline_end, standard_input, *for_bwrap)
    return _Keeper(process=process, output=output, report=report, lifeline=lifeline, owner=owner)


def _watch(keeper: _Keeper, lines: _Lines, timeout_s: float | None, cancel: Flag | None) -> TimedOut | Cancelled | None:
    """Pass output on until the sandbox has ended (None), time is up or the caller gives up."""
    with selectors.DefaultSelector() as selector:
        for descriptor in (keeper.output, keeper.report):
            selector.register(descriptor, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select(_patience(keeper.started_at, timeout_s, cancel))}
            if keeper.output in ready and not lines.take(keeper.output):
                selector.unregister(keeper.output)
            if keeper.report in ready and not keeper.listen():
                return None
            if cancel is not None and cancel.is_set():
                return Cancelled()
            if timeout_s is not None and _patience(keeper.started_at, timeout_s, None) == 0:
                return TimedOut(timeout_s)


def _patience(started_at: float | None, timeout_s: float | None, cancel: Flag | None) -> float | None:
    """Return the seconds until something must be looked at; None for as long as it takes."""
    left = None
    if started_at is not None and timeout_s is not None:
        left = max(0.0, started_at + timeout_s - time.monotonic())
    if cancel is None:
        return left
    return _POLL_S if left is None else min(_POLL_S, left)


def _outcome(stopped: TimedOut | Cancelled | None, last_word: str, said: list[str], program: str) -> Outcome:
    """Return how a run ended, or raise why it never began."""
    if last_word == "stuck":
        raise HostRefuses(
            "processes of the sandbox do not die",
            hint="look for processes in state D: the kernel waits for a device or a file server",
        )
    if stopped is not None:
        return stopped
    word, _, code = last_word.partition(" ")
    if word == "exit":
        return Exited(int(code))
    if word == "failed":
        raise start_failure(said, program)
    return Lost()
