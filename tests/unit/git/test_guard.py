# SPDX-License-Identifier: Apache-2.0
"""What uses the network ends with its helpers when the engine lets go or dies, and passes its exit status on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from derive.git import guard

PROGRAM = str(Path(guard.__file__))
SHELL = shutil.which("sh") or "/bin/sh"


def start(script: str) -> tuple[subprocess.Popen[bytes], int]:
    end, lifeline = os.pipe()
    command = [sys.executable, "-I", "-S", PROGRAM, str(end), SHELL, "-c", script]
    process = subprocess.Popen(command, pass_fds=(end,), stdout=subprocess.PIPE)
    os.close(end)
    return process, lifeline


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 128 + 15)])
def test_the_exit_status_is_the_programs(script: str, status: int) -> None:
    process, lifeline = start(script)
    process.communicate()
    os.close(lifeline)
    assert process.returncode == status


def test_everything_ends_when_the_lifeline_does() -> None:
    process, lifeline = start("sleep 60 & echo $!; sleep 60")
    assert process.stdout is not None
    child = int(process.stdout.readline())
    os.close(lifeline)
    process.communicate(timeout=5)
    for _ in range(100):
        if not _runs(child):
            return
        time.sleep(0.02)
    pytest.fail("a helper outlived the engine")


def test_a_dead_pipe_ends_the_program_as_it_should() -> None:
    process, lifeline = start("head -c 1000000 /dev/zero | head -c 1 >/dev/null; echo ${PIPESTATUS:-done}")
    out, _ = process.communicate(timeout=10)
    os.close(lifeline)
    assert out.strip()


def _runs(pid: int) -> bool:
    """Say whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
