# SPDX-License-Identifier: Apache-2.0
"""A process that runs derive's command line in forked children, kills them when told, and sees what survives them.

As a program it is a server: it reads one JSON list of jobs a line, runs each job's command line in a child of its own,
all at once, and answers with one JSON list of outcomes. Everything is imported before, so that a job takes as long as
its work, and the children's orphans become this process's own, so that none is overlooked.

Edge: everything.
"""

from __future__ import annotations

import builtins
import ctypes
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from derive.derivations.model import Derivation
from support.killed_driver import Counter, install

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_ORPHANS_S = 20.0

_IMPORTED_LATE = (
    "derive.build.builders.table",
    "derive.build.check",
    "derive.build.images",
    "derive.cli.image",
    "derive.cli.progress",
    "derive.derivations.checks",
    "derive.derivations.evaluate",
    "derive.images.layout",
    "derive.trees.materialise",
    "requests",
)


class Driver:
    """This file as a program, seen from a test. Use it as a context manager."""

    def __init__(self) -> None:
        here = Path(__file__).resolve()
        path = os.pathsep.join([str(here.parents[1]), str(here.parents[2] / "src")])
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(here)],  # a module beside it must not hide one of Python's
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def run(self, *jobs: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run command lines at once, and return how each ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(jobs) + "\n")
        self._process.stdin.flush()
        outcomes: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return outcomes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


def count_changes(counter: Counter) -> None:
    """Wrap every change to the disk; descriptors that are opened as files stay as they are."""
    real = io.open
    install(counter)
    counted: Callable[..., Any] = io.open

    def opened(file: Any, *args: Any, **kwargs: Any) -> Any:
        return (real if isinstance(file, int) else counted)(file, *args, **kwargs)

    builtins.open = io.open = opened


def count_builds(path: str) -> None:
    """Write a line into a file whenever a builder runs, whoever else writes there."""
    from derive.build.execute import Executor

    real = Executor.build

    def build(self: Executor, derivation: Derivation, *args: Any) -> Any:
        with Path(path).open("ab", buffering=0) as file:
            file.write(f"{derivation.id.hex} {derivation.name}\n".encode())
        return real(self, derivation, *args)

    setattr(Executor, "build", build)  # noqa: B010 - mypy holds methods to be constant


def run_job(job: dict[str, Any]) -> int:
    """Run one command line in this process."""
    from derive.cli.main import main

    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    if "builds" in job:
        count_builds(job["builds"])
    counter, write = Counter(job.get("fatal", 0)), os.write
    if counter.fatal or "steps" in job:
        count_changes(counter)
    code = main(job["argv"])
    if "steps" in job:
        write(job["steps"], str(counter.steps).encode())
    return code


class Child:
    """A running job. Its streams go to files without names."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._streams = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115 - closed with the outcome
        job["steps" if job.get("count") else "no-steps"] = self._streams[2].fileno()
        self.pid = os.fork()
        if not self.pid:
            self._become(job)
        self._timer = threading.Timer(job.get("after_s", 0), os.kill, (self.pid, job.get("signal", signal.SIGKILL)))
        if "after_s" in job:
            self._timer.start()

    def _become(self, job: dict[str, Any]) -> None:
        code = 70
        try:
            os.setpgid(0, 0)
            for number in (1, 2):
                os.dup2(self._streams[number - 1].fileno(), number)
            sys.stdout, sys.stderr = (
                io.TextIOWrapper(io.FileIO(number, "wb"), write_through=True) for number in (1, 2)
            )
            code = run_job(job)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        finally:
            os._exit(code)

    def outcome(self, status: int) -> dict[str, Any]:
        self._timer.cancel()
        texts = []
        for stream in self._streams:
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "replace"))
            stream.close()
        return {
            "killed": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "code": os.waitstatus_to_exitcode(status),
            "out": texts[0],
            "err": texts[1],
            "steps": int(texts[2] or 0),
        }


def reap_orphans() -> int:
    """Wait for what the jobs left running, and return how many processes do not end."""
    deadline = time.monotonic() + _ORPHANS_S
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.005)
        except ChildProcessError:
            return 0
    return len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def serve() -> None:
    """Answer lines of jobs until standard input ends."""
    for name in _IMPORTED_LATE:
        import_module(name)
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    for line in sys.stdin:
        children = [Child(job) for job in json.loads(line)]
        outcomes = [child.outcome(os.waitpid(child.pid, 0)[1]) for child in children]
        left = reap_orphans()
        sys.stdout.write(json.dumps([{**outcome, "left": left} for outcome in outcomes]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
