# SPDX-License-Identifier: Apache-2.0
"""A client is held by a pipe: it ends with its own status, or with whoever holds the other end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.buildkit.client import _HELD, STOPPED, held_for


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.fixture
def lifeline(pipe: Path) -> Iterator[list[int]]:
    held = [os.open(pipe, os.O_RDWR | os.O_CLOEXEC)]
    yield held
    for descriptor in held:
        os.close(descriptor)


def held(pipe: Path, *command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_HELD), str(pipe), "BY=derive", *command], stdout=subprocess.PIPE
    )


@pytest.mark.usefixtures("lifeline")
@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143)])
def test_a_client_ends_with_its_own_status(pipe: Path, script: str, status: int) -> None:
    with held(pipe, "sh", "-c", script) as process:
        assert process.wait() == status


def test_a_client_and_all_that_it_started_end_when_the_pipe_does(pipe: Path, lifeline: list[int]) -> None:
    with held(pipe, "sh", "-c", "sleep 1000 & echo begun; wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        os.close(lifeline.pop())
        # The background process holds the other end of its output until it has ended, too.
        assert process.stdout.read() == b""
        assert process.wait() == STOPPED


def test_a_client_ends_when_whoever_holds_it_is_killed(pipe: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", f"import os, time; os.open({str(pipe)!r}, os.O_RDWR); time.sleep(99)"]
    )
    with held(pipe, "sh", "-c", "echo begun; exec sleep 1000") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        holder.kill()
        holder.wait()
        assert process.wait() == STOPPED


def test_time_that_is_up_ends_a_client() -> None:
    began = time.monotonic()
    with held_for(0.2) as pipe, held(pipe, "sleep", "1000") as process:
        assert process.wait() == STOPPED
    assert time.monotonic() - began < 100


@pytest.mark.parametrize("pipe_is_there", [True, False])
def test_a_client_is_not_started_that_nobody_holds_any_more(tmp_path: Path, pipe_is_there: bool) -> None:
    if pipe_is_there:
        os.mkfifo(tmp_path / "left")
    with held(tmp_path / "left", "touch", str(tmp_path / "started")) as process:
        try:
            assert process.wait(timeout=30) == STOPPED
        finally:
            process.kill()
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_to_all_of_a_session_leaves_the_client_to_whoever_holds_it(
    pipe: Path, lifeline: list[int], number: int
) -> None:
    with held(pipe, "sh", "-c", "echo begun; sleep 1000; echo never") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.3)
        os.close(lifeline.pop())
        assert process.stdout.read() == b""
        assert process.wait() == STOPPED


@pytest.mark.usefixtures("lifeline")
def test_a_client_itself_heeds_signals_and_has_its_variable(pipe: Path) -> None:
    with held(pipe, "sh", "-c", "echo $BY; kill -INT $$; echo lives") as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"derive\n"
        assert process.wait() == 128 + signal.SIGINT


@pytest.mark.usefixtures("lifeline")
@pytest.mark.parametrize(("data", "status"), [(None, 127), (b"", 126)])
def test_what_is_no_program_ends_as_a_shell_has_it(pipe: Path, tmp_path: Path, data: bytes | None, status: int) -> None:
    if data is not None:
        (tmp_path / "program").write_bytes(data)
        (tmp_path / "program").chmod(0o755)
    with held(pipe, str(tmp_path / "program")) as process:
        assert process.wait() == status
