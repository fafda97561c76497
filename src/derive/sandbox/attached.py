# SPDX-License-Identifier: Apache-2.0
"""Runs a sandbox specification with this process's own standard output and error, and sees to it that it ends with it.

Edge: starts processes, reads pipes.

As under bwrap.py a keeper stands between, so that the sandbox ends when whoever asked for it does, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

from derive.errors import HostRefuses
from derive.sandbox.bwrap import Bubblewrap
from derive.sandbox.filter import syscall_filter
from derive.sandbox.spec import SandboxSpec, bwrap_arguments

_KEEPER = Path(__file__).with_name("keeper.py")
_LOST = 128 + 9


def run_attached(
    bubblewrap: Bubblewrap,
    spec: SandboxSpec,
    *,
    stdout: int | None = None,
    stderr: int | None = None,
    owner: tuple[int, int] | None = None,
) -> int:
    """Run a specification to its end and return its exit status (128 + n for signal n); nothing of it is left then.

    ``stdout`` and ``stderr`` are descriptors; None stands for this process's own. ``owner`` is the user and the group
    that it runs as, where those are not this process's; only root may say so.

    Raises:
        HostRefuses: when it could not be started; bubblewrap's own words stand on standard error.
    """
    with contextlib.ExitStack() as stack:
        report, report_end = _pipe(stack)
        lifeline_end, lifeline = _pipe(stack)
        ours = (lifeline_end.fileno(), report_end.fileno())
        rules = _memory_file(stack, syscall_filter(bubblewrap.machine))
        files = [_memory_file(stack, file.contents) for file in spec.files]
        listed = _memory_file(stack, b"".join(word + b"\0" for word in bwrap_arguments(spec, files)))
        for_bwrap = (rules, listed, *files)
        keeper = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", str(_KEEPER), *map(str, ours)),
                *(",".join(map(str, for_bwrap)), bubblewrap.program),
                *("--seccomp", str(rules), "--args", str(listed), "--"),
                *(word.encode("utf-8", "surrogateescape") for word in spec.argv),
            ],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(*ours, *for_bwrap),
            cwd="/",
            umask=0o022,
            start_new_session=True,  # a Ctrl-C reaches this process alone, which then ends the sandbox
            user=None if owner is None else owner[0],
            group=None if owner is None else owner[1],
            extra_groups=() if os.geteuid() == 0 else None,
        )
        report_end.close()
        lifeline_end.close()
        try:
            words = report.read()
        finally:
            lifeline.close()
            keeper.wait()
    return _status(words.decode().strip().rpartition("\n")[2])


def _status(last_word: str) -> int:
    word, _, code = last_word.partition(" ")
    match word:
        case "exit":
            return int(code)
        case "lost":
            return _LOST
        case _:
            raise HostRefuses(
                "the sandbox, or the program in it, could not be started",
                detail=("bubblewrap's own words stand above",),
                hint="try whether it can make any: bwrap --unshare-all --ro-bind / / true",
            )


def _pipe(stack: contextlib.ExitStack) -> tuple[BinaryIO, BinaryIO]:
    """Make a pipe; either end may be closed before the stack is."""
    read_end, write_end = os.pipe()
    return stack.enter_context(os.fdopen(read_end, "rb")), stack.enter_context(os.fdopen(write_end, "wb"))


def _memory_file(stack: contextlib.ExitStack, contents: bytes) -> int:
    descriptor = os.memfd_create("derive")
    stack.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(contents)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
