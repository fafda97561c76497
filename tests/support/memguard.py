# SPDX-License-Identifier: Apache-2.0
"""The built memory guard, and a way to run it beside a group of processes.

Edge: processes, the file system.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from support.cgroups import wait_until
from support.cli import Ran, derive
from support.derived import AMD64

NEVER_AVAILABLE = f"{int(Path('/proc/meminfo').read_text().split()[1]) - 1}KiB"
"""A floor under which this machine always is: all of its memory but for a kilobyte. All of it would be refused."""

MEMINFO = "MemTotal: 1000 kB\nMemFree: 400 kB\nMemAvailable: 500 kB\nSwapFree: 0 kB\n"
PRESSURE = "some avg10=60.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=50.00 avg60=0.00 avg300=0.00 total=1\n"

NAMES = ("memguard", "kraken", "steady")


def built(store: Path, platform: str = AMD64) -> Path:
    """Return the program for a platform."""
    ran = derive("build", "memguard", "--platform", platform, "--path", "--store", str(store))
    return Path(ran.answer) / "usr/libexec/derive/memguard"


@dataclass(slots=True)
class Guard:
    """The guard with the options that all tests have in common."""

    program: Path
    place: Path
    cgroup: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def ready(self) -> Path:
        return self.place / "ready"

    @property
    def evidence(self) -> Path:
        return self.place / "evidence"

    def argv(self, *flags: str, **options: str) -> list[str]:
        """Return the command line; in names of options `_` stands for `-`, and an empty value leaves one out."""
        self.evidence.mkdir(exist_ok=True)
        every = {
            "container": NAMES[1],
            "cgroup": str(self.cgroup),
            "phase": NAMES[2],
            "floor": "1KiB",
            "interval": "0.01",
            "ready_file": str(self.ready),
            "evidence": str(self.evidence),
            **options,
        }
        named = [(f"--{key.replace('_', '-')}", value) for key, value in every.items() if value]
        return [str(self.program), *(word for pair in named for word in pair), *flags]

    def run(self, *flags: str, **options: str) -> Ran:
        """Run it to its end."""
        return self.run_after((), *flags, **options)

    def run_after(self, before: tuple[str, ...], *flags: str, **options: str) -> Ran:
        """Run it to its end, with a program and its options in front of it."""
        argv = [*before, *self.argv(*flags, **options)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        return Ran(done.returncode, done.stdout, done.stderr)

    def start(self, *flags: str, **options: str) -> subprocess.Popen[str]:
        """Start it, and leave it running."""
        argv = self.argv(*flags, **options)
        self.running.append(subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return self.running[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # No guard outlives its test, however that ended.
        for process in self.running:
            process.kill()
            process.communicate()

    def says(self, state: str) -> bool:
        """Say whether the ready file is there with a state."""
        return self.ready.exists() and self.ready.read_text() == f"{state}\n"

    def wait_for(self, state: str) -> None:
        wait_until(lambda: self.says(state))

    def record(self) -> tuple[bytes, dict[str, Any]]:
        """Return the one record that lies in the evidence folder, as bytes and read."""
        (file,) = self.evidence.iterdir()
        data = file.read_bytes()
        return data, json.loads(data)


def false_proc(place: Path, meminfo: str = MEMINFO) -> str:
    """Write what the guard reads of a machine, as the option --proc takes it."""
    (place / "proc/pressure").mkdir(parents=True)
    (place / "proc/meminfo").write_text(meminfo)
    (place / "proc/pressure/memory").write_text(PRESSURE)
    return str(place / "proc")


def set_available(place: Path, kilobytes: int) -> None:
    """Change what is available there, in one write of as many bytes: no look finds it half done."""
    with (place / "proc/meminfo").open("r+b") as stream:
        os.pwrite(stream.fileno(), MEMINFO.replace("500 kB", f"{kilobytes:3} kB").encode(), 0)


def ended(process: subprocess.Popen[str]) -> Ran:
    """Wait for a guard's end."""
    out, err = process.communicate(timeout=60)
    return Ran(process.returncode, out, err)
