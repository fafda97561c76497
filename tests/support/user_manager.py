# SPDX-License-Identifier: Apache-2.0
"""A systemd of its own: a user's manager in namespaces of its own, whose units are those of one folder.

Edge: mounts, control groups, processes; needs root.

Units of a machine are read by it as they are; `/run` and `/usr/local/bin` are its own, and everything that it starts
ends with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.cgroups import cgroup, wait_until
from support.require import skip_or_fail

PROGRAM = Path("/lib/systemd/systemd")
_START = """
set -e
mount -t tmpfs none /run
mkdir -p /run/systemd/system
mount -t cgroup2 none /sys/fs/cgroup
mount --bind "$1" /usr/local/bin
export XDG_RUNTIME_DIR=/run SYSTEMD_UNIT_PATH="$2":
cd /
"$3" --user &
wait
"""


@dataclass(frozen=True, slots=True)
class Manager:
    """A running manager; `inside` is the command that enters its namespaces."""

    inside: tuple[str, ...]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command beside it."""
        return subprocess.run([*self.inside, *command], capture_output=True, text=True, timeout=60, check=False)

    def systemctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Ask it for something."""
        return self.run("systemctl", "--user", *arguments)

    def state(self, unit: str) -> str:
        """Return a unit's state: ``active (running)``."""
        shown = self.systemctl("show", "--property=ActiveState,SubState", unit).stdout
        values = dict(line.split("=", 1) for line in shown.splitlines())
        return f"{values['ActiveState']} ({values['SubState']})"

    def settles(self, unit: str, state: str) -> None:
        """Wait until a unit is in a state."""
        wait_until(lambda: self.state(unit) == state, seconds=10)


@contextmanager
def user_manager(units: Path, programs: Path) -> Iterator[Manager]:
    """Run a manager that knows the units of a folder; ``programs`` become ``/usr/local/bin``."""
    if os.geteuid() != 0:
        skip_or_fail("a systemd of its own needs root, and this is an ordinary user")
    if not PROGRAM.exists() or shutil.which("systemctl") is None:
        skip_or_fail("there is no systemd: apt-get install systemd")
    unshare = ("unshare", "--mount", "--pid", "--cgroup", "--fork", "--kill-child", "--mount-proc")
    with cgroup("v2") as group:
        started = group.start(*unshare, "bash", "-c", _START, "bash", str(programs), str(units), str(PROGRAM))
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children")
        wait_until(lambda: started.poll() is not None or children.read_text().strip())
        first = children.read_text().strip()
        manager = Manager(("nsenter", f"--target={first}", "--mount", "--pid", "env", "XDG_RUNTIME_DIR=/run"))
        _await_running(manager, started)
        yield manager


def _await_running(manager: Manager, started: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while "running" not in manager.systemctl("is-system-running").stdout:
        if started.poll() is not None or time.monotonic() > deadline:
            skip_or_fail("a systemd of its own does not start on this machine")
        time.sleep(0.05)
