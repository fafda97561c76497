# SPDX-License-Identifier: Apache-2.0
"""A sandbox that a person sits in: the same mounts and rules, and a terminal of its own.

Edge: starts bubblewrap, pseudo terminals, signals.

The person's own terminal is not handed in, where a program could type commands for afterwards: a new pseudo terminal is
made, and bytes are passed between the two.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import tty
from collections.abc import Iterator, Sequence

from derive.sandbox.bwrap import Bubblewrap
from derive.sandbox.filter import syscall_filter
from derive.sandbox.spec import SandboxSpec, bwrap_arguments

_PIECE = 1 << 16
_SESSION = b"--new-session"


def enter(bubblewrap: Bubblewrap, spec: SandboxSpec) -> int:
    """Run a specification with this process's standard streams, and return its exit status (128 + n for signal n)."""
    with contextlib.ExitStack() as stack:
        files = [_memory_file(stack, file.contents) for file in spec.files]
        rules = _memory_file(stack, syscall_filter(bubblewrap.machine))
        options = bwrap_arguments(spec, files)
        passed = (rules, *files)
        if sys.stdin.isatty() and sys.stdout.isatty():
            options = tuple(word for word in options if word != _SESSION)  # its session is that of its own terminal
            return _on_terminal(_command(bubblewrap, spec, rules, options), passed)
        done = subprocess.run(
            _command(bubblewrap, spec, rules, options), pass_fds=passed, env={}, cwd="/", check=False, umask=0o022
        )
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def _command(bubblewrap: Bubblewrap, spec: SandboxSpec, rules: int, options: Sequence[bytes]) -> list[bytes]:
    words = (word.encode() for word in spec.argv)
    return [bubblewrap.program.encode(), b"--seccomp", b"%d" % rules, *options, b"--", *words]


def _memory_file(stack: contextlib.ExitStack, contents: bytes) -> int:
    descriptor = os.memfd_create("derive")
    stack.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(contents)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _on_terminal(command: Sequence[bytes], passed: Sequence[int]) -> int:
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            for descriptor in passed:
                os.set_inheritable(descriptor, True)
            os.umask(0o022)
            os.chdir("/")
            os.execve(command[0], list(command), {})  # noqa: S606 - no shell is wanted
        except OSError as error:
            os.write(2, f"{os.fsdecode(command[0])}: {error.strerror}\n".encode())
        os._exit(127)
    with _raw_terminal(), _sizes_follow(terminal):
        _pass_on(terminal)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _pass_on(terminal: int) -> None:
    """Carry bytes both ways until the other side is gone."""
    ends = [terminal, 0]
    while True:
        ready, _, _ = select.select(ends, [], [])
        if terminal in ready:
            try:
                data = os.read(terminal, _PIECE)
            except OSError:  # the last process that had it open has ended
                return
            if not data:
                return
            _write_all(1, data)
        if 0 in ready:
            data = os.read(0, _PIECE)
            if data:
                _write_all(terminal, data)
            else:
                ends.remove(0)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Pass every key on as it is typed, Ctrl-C too, and put the person's terminal back afterwards."""
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSAFLUSH, before)


@contextlib.contextmanager
def _sizes_follow(terminal: int) -> Iterator[None]:
    """Give the inner terminal the outer one's size, now and whenever that changes."""

    def follow(_signal: int = 0, _frame: object = None) -> None:
        with contextlib.suppress(OSError):
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))

    follow()
    before = signal.signal(signal.SIGWINCH, follow)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
