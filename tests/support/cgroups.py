# SPDX-License-Identifier: Apache-2.0
"""Control groups for tests: real ones, in hierarchies that are mounted for the test alone.

Version 2 is one hierarchy on every machine, so its groups have names of their own. Of version 1 there is one without
controllers, and the freezer where this kernel keeps it in version 1.

Edge: mounts, the file system, processes; needs root.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from support.require import skip_or_fail

KINDS = ("v2", "v1", "v1-freezer")
_MOUNTS = {
    "v2": ("cgroup2", "rw"),
    "v1": ("cgroup", f"none,name=derive-test-{os.getpid()}"),
    "v1-freezer": ("cgroup", "freezer"),
}


@dataclass(slots=True)
class Group:
    """One group, which may not be there yet, and the programs that were started in it."""

    path: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def pids(self) -> list[int]:
        """Processes in this group and in those below it."""
        if not self.path.exists():
            return []
        return [int(pid) for file in self.path.rglob("cgroup.procs") for pid in file.read_text().split()]

    def start(self, *argv: str, below: str = "", log: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        """Start a program in it, or in a group below it, from its first instruction on."""
        folder = self.path / below
        folder.mkdir(parents=True, exist_ok=True)
        join = ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(folder / "cgroup.procs"))
        process = subprocess.Popen([*join, *argv], stdout=log, stderr=log, start_new_session=True)
        self.processes.append(process)
        wait_until(lambda: str(process.pid) in (folder / "cgroup.procs").read_text().split())
        return process

    def remove(self) -> None:
        """Kill what is left in it, and remove it."""
        for _ in range(200):
            for pid in self.pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                for folder in sorted(self.path.rglob("*/"), reverse=True):
                    folder.rmdir()
                self.path.rmdir()
            if not self.path.exists():
                for process in self.processes:
                    process.wait()
                return
            time.sleep(0.01)
        raise AssertionError(f"{self.path} cannot be removed")


@contextlib.contextmanager
def cgroup(kind: str) -> Iterator[Group]:
    """Mount a hierarchy at a folder of its own, and give a group in it that is not made yet."""
    if os.geteuid() != 0:
        skip_or_fail("control groups need root, and this is an ordinary user")
    # Not below pytest's own folder: what a killed test leaves mounted must not be emptied with it.
    place = Path(tempfile.mkdtemp(prefix="derive-cgroups-"))
    system, options = _MOUNTS[kind]
    command = ["mount", "-n", "-t", system, "-o", options, "none", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        place.rmdir()
        if kind == "v1-freezer":
            pytest.skip("this kernel keeps the freezer in version 2")
        skip_or_fail(f"this machine mounts no {system}: {done.stderr.strip()}")
    group = Group(place / f"derive-test-{os.getpid()}-{time.monotonic_ns()}")
    try:
        yield group
    finally:
        try:
            group.remove()
        finally:
            subprocess.run(["umount", "-n", "--lazy", place], check=True)
            place.rmdir()


def wait_until(holds: Callable[[], object], seconds: float = 30) -> None:
    """Wait until a function says yes."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come so far"
        time.sleep(0.02)
