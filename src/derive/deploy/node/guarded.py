# SPDX-License-Identifier: Apache-2.0
"""A node's memory guards and control groups as processes see them, and the process that ends a container at the last.

Edge: processes, control groups, files below ``/run/derive``; needs root. Runs on the node: Python 3.8, standard library
only.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from derive.deploy.node.common import service_name

RUN = Path("/run/derive")
TICK_S = 0.05
KILL_LIMIT_S = 60.0
WORDS_KEPT = 8
BYE = b"bye"


def place_of(service: str) -> Path:
    """Return the folder for what lasts as long as the machine is up."""
    return RUN / service_name(service)


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.replace(path)


def read_text(path: Path) -> str:
    """Return a file's text; empty where there is none."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def supervised(place: Path) -> dict[str, Any] | None:
    """Return what a supervisor last wrote down; None where there is none, or it is not what a supervisor writes."""
    try:
        known = json.loads(read_text(place / "supervised.json"))
        guards = {str(phase): dict(one) for phase, one in known["guards"].items()}
        numbers = {key: int(known[key]) for key in ("pid", "started", "since_ns")}
        texts = {key: str(known[key]) for key in ("state", "launch")}
        return {**known, **numbers, **texts, "guards": guards, "why": known["why"]}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def pids_below(group: Path) -> Iterator[int]:
    """Yield the processes of a control group and of those below it, but for this one and the machine's first."""
    for folder, _, _ in os.walk(str(group)):
        for word in read_text(Path(folder, "cgroup.procs")).split():
            if int(word) not in (0, 1, os.getpid()):
                yield int(word)


def kill_group(group: Path) -> bool:
    """Kill what is in a control group, and say whether anything was there."""
    there = False
    for pid in pids_below(group):
        there = True
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return there


def guards_of(service: str) -> dict[str, int]:
    """Return the guards of a service that run, whoever started them: phase to process."""
    found = {}
    for entry in Path("/proc").iterdir():
        words = read_text(entry / "cmdline").split("\0") if entry.name.isdigit() else []
        if words and words[0].endswith("/memguard") and following(words, "--container") == service:
            found[following(words, "--phase")] = int(entry.name)
    return found


def started_at(pid: int) -> int | None:
    """Return when a process began, in the kernel's ticks since boot; None where there is none."""
    words = read_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return int(words[19]) if len(words) > 19 and words[0] not in ("Z", "X") else None


def is_halted(pid: int) -> bool:
    """Say whether a process was halted by a signal, and does nothing until it is told to go on."""
    return read_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1] == ["T"]


def following(words: list[str], option: str) -> str:
    """Return the word behind an option; empty where there is none."""
    place = words.index(option) + 1 if option in words else len(words)
    return words[place] if place < len(words) else ""


def spared() -> None:
    """Let the OOM killer take everything else first, and hold all memory: done by a new process for itself."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("-1000")
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def hold_memory() -> None:
    """Lock this process's memory; where that cannot be, it goes on without."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).mlockall(3)


def ordinary() -> None:
    """Take back what a child has of the supervisor's privileges."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("0")


class Guard:
    """A guard that was started: its process, and its exit code once it has ended."""

    def __init__(self, phase: str, job: dict[str, Any], place: Path) -> None:
        self.phase = phase
        self.ready = Path(job["ready"])
        self.log = place / f"guard-{phase}.log"
        self.told = False
        self.code: int | None = None
        # One that was killed left its last word, which would be taken for this one's until this one removes it.
        with contextlib.suppress(FileNotFoundError):
            self.ready.unlink()
        with self.log.open("wb") as log:
            # A session of its own: no signal to the supervisor's group reaches it.
            self.process = subprocess.Popen(
                job["words"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                preexec_fn=spared,  # noqa: PLW1509 - there is one thread
            )

    def says(self) -> str:
        """Return what its ready file says."""
        return read_text(self.ready).strip()

    def stop(self) -> None:
        """Tell it to guard no more."""
        self.told = True
        if self.code is None:
            self.process.terminate()

    def words(self) -> str:
        """Return how it ended, with the last that it said."""
        said = read_text(self.log).strip().splitlines()[-WORDS_KEPT:]
        return "; ".join([f"the {self.phase} guard ended with {self.code}", *said])


def witness(service: str, group: Path, hears: int) -> NoReturn:
    """Wait until the supervisor says that all has ended; if it goes without a word, end the container."""
    spared()
    hold_memory()
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    said = b""
    while True:
        piece = os.read(hears, 16)
        if not piece:
            break
        said += piece
    signal.set_wakeup_fd(-1)
    until = time.monotonic() + KILL_LIMIT_S
    while said != BYE and time.monotonic() < until:
        there = kill_group(group)
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(["docker", "kill", service], capture_output=True, timeout=10, check=False)
            if done.returncode != 0 and not there:
                break
        time.sleep(TICK_S)
    os._exit(0)
