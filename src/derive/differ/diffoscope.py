# SPDX-License-Identifier: Apache-2.0
"""Diffoscope, where a machine has it: what differs is written out, and it is told to compare.

Edge: the PATH, files, another program.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from derive.errors import HostRefuses, Unavailable

_SECONDS = 1800
_MOST = 1 << 20


def is_there() -> bool:
    """Say whether the program is on the PATH."""
    return shutil.which("diffoscope") is not None


def next_step(first: Path, second: Path) -> str | None:
    """Return the command that shows more, where this machine has it."""
    return f"diffoscope {first} {second}" if is_there() else None


def run_diffoscope(first: Path, second: Path) -> str:
    """Return what diffoscope says of two files or folders, up to 1 MiB of it.

    Raises:
        HostRefuses: when this machine does not have it.
        Unavailable: when it fails, or takes more than half an hour.
    """
    program = shutil.which("diffoscope")
    if program is None:
        hint = "install it, or do without --diffoscope: a bounded difference is shown anyway"
        raise HostRefuses("diffoscope is not on the PATH", hint=hint)
    try:
        done = subprocess.run(
            [program, "--text", "-", "--", str(first), str(second)], capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"diffoscope did not end within {_SECONDS // 60} minutes") from error
    if done.returncode not in (0, 1):
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise Unavailable(f"diffoscope failed with exit code {done.returncode}", detail=last)
    return done.stdout[:_MOST].decode("utf-8", "replace")
