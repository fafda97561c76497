# SPDX-License-Identifier: Apache-2.0
"""What the figures were taken on: processor, kernel, versions, load.

Edge: reads the machine.
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import ssl
import subprocess
from importlib.metadata import version
from pathlib import Path

from derive import __version__

_ASKED = {
    "nix": ("nix", "--version"),
    "dpkg": ("dpkg-deb", "--version"),
    "tar": ("tar", "--version"),
    "gzip": ("gzip", "--version"),
    "pigz": ("pigz", "--version"),
}


def facts_of(store: Path) -> dict[str, str]:
    """Return what a reader needs to know to compare figures, as words."""
    return {
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores for this process",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "store on": _file_system(store),
        "python": f"{platform.python_version()}, {ssl.OPENSSL_VERSION}, SQLite {sqlite3.sqlite_version}",
        "derive": f"{__version__}, deflate {version('deflate')}",
        **{name: _first_line(argv) for name, argv in _ASKED.items()},
    }


def load() -> str:
    """Return the load averages: what else the machine was doing."""
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def go_ahead() -> None:
    """Let this process and all that it starts run before everything else on the machine; needs the right to do so."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "CPU part")):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(folder: Path) -> str:
    """Return the type of the file system that a folder lies on: that of the longest mount point above it."""
    found = ("", "unknown")
    for line in Path("/proc/self/mounts").read_text().splitlines():
        point, kind = line.split()[1:3]
        if folder.is_relative_to(point) and len(point) > len(found[0]):
            found = (point, kind)
    return found[1]


def _first_line(argv: tuple[str, ...]) -> str:
    if shutil.which(argv[0]) is None:
        return "not installed"
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).partition("\n")[0].strip()
