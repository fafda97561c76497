# SPDX-License-Identifier: Apache-2.0
"""What a lab stands on: namespaces that end with whoever made them, a control group, a folder, and one lock.

An outer set of namespaces (mounts, processes, network) holds all nodes. Its first process ends when a pipe closes; the
kernel then ends every process in it and takes its mounts and networks along. What the kernel does not take, the folder
and the control groups, the next lab removes, should this one be killed.

Edge: starts processes, mounts, control groups; needs root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.places import FOLDER, GROUP, LOCK

WAIT_S = 900
PROGRAMS = (
    "ip",
    "lldpd",
    "lldpcli",
    "mkfs.ext4",
    "nsenter",
    "setpriv",
    "sshd",
    "ssh-keygen",
    "sudo",
    "tini",
    "unshare",
)
SYSTEMD = (Path("/usr/lib/systemd/systemd"), Path("/lib/systemd/systemd"))

# Names of network namespaces are mounts below /run: private, as everything here.
_FIRST = """
set -eu
mount -n -t tmpfs -o mode=755 tmpfs /run
mkdir /run/netns
ip link set lo up
echo ready
"""
_WHILE_ASKED = "while read -r _; do :; done"
_UNTIL_KILLED = "exec >/dev/null; exec sleep infinity"


class LabError(Exception):
    """The lab was expected to do something and did not."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The outer namespaces: the process that makes them, and the first one in them, as this machine counts."""

    process: subprocess.Popen[bytes] | None
    first: int

    def inside(self, *argv: str, network: str | None = None) -> list[str]:
        """Return the argv that runs a command there; ``network`` is the name of a node's network."""
        enter = ["nsenter", f"--target={self.first}", "--mount", "--pid"]
        enter.append("--net" if network is None else f"--net=/proc/{self.first}/root/run/netns/{network}")
        return [*enter, "--", *argv]

    def do(self, *argv: str, network: str | None = None, stdin: str = "") -> str:
        """Run a command there and return what it printed; raises LabError where it fails."""
        return do(self.inside(*argv, network=network), stdin)


def do(argv: Sequence[str], stdin: str = "") -> str:
    """Run a command and return what it printed; raises LabError where it fails."""
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def why_unavailable() -> str | None:
    """Return the reason why this machine cannot hold a lab, or None where it can."""
    if os.geteuid() != 0:
        return "a lab needs root, and this is an ordinary user"
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        return f"a lab needs programs that are missing: {', '.join(missing)} (tools/bootstrap --tests installs them)"
    if not any(path.exists() for path in SYSTEMD):
        return "a lab needs systemd (tools/bootstrap --tests installs it)"
    if cgroups() is None:
        return "a lab needs control groups of version 2, and none are mounted below /sys/fs/cgroup"
    if not Path("/dev/loop-control").exists():
        return "a lab needs loop devices, and this kernel has none"
    trial = subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "true"], capture_output=True, check=False)
    if trial.returncode != 0:
        return f"this machine makes no namespaces: {trial.stderr.decode(errors='replace').strip()}"
    return None


def cgroups() -> Path | None:
    """Return where control groups of version 2 are mounted, or None."""
    places = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
    return next((place for place in places if (place / "cgroup.controllers").exists()), None)


def group(*below: str) -> Path:
    """Return the folder of the lab's control group, or of one below it."""
    root = cgroups()
    if root is None:
        raise LabError("no control groups of version 2")
    return Path(root, GROUP, *below)


@contextlib.contextmanager
def locked() -> Iterator[int]:
    """Hold the lock of which there is one on a machine; wait where another lab has it.

    It is an abstract socket's name: it ends with the last process that has the socket, and leaves no file.
    """
    with socket.socket(socket.AF_UNIX) as lock:
        _take(lock)
        yield lock.fileno()


def _take(lock: socket.socket) -> None:
    deadline, told = time.monotonic() + WAIT_S, False
    while True:
        with contextlib.suppress(OSError):
            lock.bind(LOCK)
            return
        if not told:
            sys.stderr.write("lab: another lab is up on this machine; waiting for it\n")
            told = True
        if time.monotonic() > deadline:
            raise LabError(f"another lab has been up for {WAIT_S} s; end it: tests/lab/run.py down")
        time.sleep(0.2)


def made(lock: int, *, stays: bool) -> Ground:
    """Make the namespaces; with ``stays`` they outlive this process, until they are killed.

    The first process holds the lock too, so that it is free when the lab is gone and no sooner.
    """
    sweep()
    FOLDER.mkdir(mode=0o711)
    group().mkdir()
    _share_controllers()
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child=KILL", "--mount-proc",
         "sh", "-c", _FIRST + (_UNTIL_KILLED if stays else _WHILE_ASKED)],
        stdin=subprocess.DEVNULL if stays else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=[lock],
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout as said:
        if said.readline() != b"ready\n":
            process.kill()
            raise LabError("the lab's namespaces were not made")
    return Ground(process, only_child(process.pid))


def _share_controllers() -> None:
    # What a machine under one hierarchy gives: containers then have limits of their own. Here there may be none.
    for place in (group().parent, group()):
        for name in (place / "cgroup.controllers").read_text().split():
            with contextlib.suppress(OSError):
                (place / "cgroup.subtree_control").write_text(f"+{name}")


def only_child(pid: int) -> int:
    """Return the process that another one started, and waits for."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = stat.read_text()
            if int(text[text.rindex(")") + 2 :].split()[1]) == pid:
                return int(stat.parent.name)
    raise LabError(f"the process {pid} has started none")


def sweep() -> None:
    """Remove whatever an earlier lab left: its processes, control groups and folder."""
    if (top := group()).is_dir():
        kill_group(top)
        remove_group(top)
    if FOLDER.exists():
        shutil.rmtree(FOLDER)


def pids(place: Path) -> list[int]:
    """Return the processes in a control group and below it."""
    found: list[int] = []
    for folder, _, _ in os.walk(place):
        with contextlib.suppress(OSError):
            found += map(int, Path(folder, "cgroup.procs").read_text().split())
    return found


def kill_group(place: Path) -> None:
    """Kill every process in a control group and below it, and wait until none is left."""
    for _ in range(600):
        if not (left := pids(place)):
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    raise LabError(f"processes do not end: {pids(place)}")


def remove_group(place: Path) -> None:
    """Remove a control group and all below it, which are busy for a moment after their last process."""
    for _ in range(600):
        for folder, _, _ in os.walk(place, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
        if not place.exists():
            return
        time.sleep(0.01)
    raise LabError(f"{place} cannot be removed")


def end(ground: Ground) -> None:
    """End the namespaces, and remove what they leave."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(ground.first, signal.SIGKILL)
    if ground.process is not None:
        if ground.process.stdin is not None:
            ground.process.stdin.close()
        ground.process.wait(timeout=60)
        sweep()
        return
    # Whoever made it is gone, and the lock with it: where another lab has that already, it removes all first.
    with socket.socket(socket.AF_UNIX) as lock:
        for _ in range(300):
            try:
                lock.bind(LOCK)
            except OSError:
                time.sleep(0.01)
            else:
                sweep()
                return
