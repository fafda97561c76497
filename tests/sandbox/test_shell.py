# SPDX-License-Identifier: Apache-2.0
"""A person in a derivation's sandbox, with and without a terminal."""

from __future__ import annotations

import os
import pty
import select
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import command, environment
from support.small import Small, small_project

pytestmark = pytest.mark.sandbox


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as found:
        yield found


def test_a_command_runs_with_the_inputs_script_and_variables_of_the_build(small: Small) -> None:
    ran = small.derive(
        "shell", "hello", "--", "sh", "-c", "cat /in/source/greeting /in/.derive-script; echo $DERIVE_HOST"
    )
    assert ran.code == 0
    assert "hello, world\n" in ran.out
    assert 'mkdir -p "$DERIVE_OUT/usr/share/hello"' in ran.out
    assert ran.out.endswith("linux/amd64\n")


def test_running_its_script_by_hand_gives_what_the_build_gives(small: Small) -> None:
    ran = small.derive(
        "shell", "hello", "--", "sh", "-c", "sh -eu /in/.derive-script && cat /out/usr/share/hello/greeting"
    )
    assert ran.code == 0
    assert "hello, world" in ran.out


def test_the_exit_status_is_that_of_what_ran(small: Small) -> None:
    assert small.derive("shell", "hello", "--", "sh", "-c", "exit 7").code == 7
    assert small.derive("shell", "hello", "--", "sh", "-c", "kill -9 $$").code == 137


def test_nothing_of_the_caller_s_environment_is_there_and_no_network(small: Small) -> None:
    ran = small.derive(
        "shell", "hello", "--", "sh", "-c", "env; wget -q -O - http://127.0.0.1:1/ || true", env={"SECRET": "s3cr3t"}
    )
    assert "s3cr3t" not in ran.out


def test_a_failed_build_is_kept_on_request_and_entered_where_it_left_off(small: Small) -> None:
    small.edit("derivations/small/build.sh", 'echo "hello is built"', "echo half > half; exit 3")
    failed = small.derive("build", "hello")
    assert failed.code == 3
    assert "derive shell hello --failed" in failed.err
    assert small.derive("shell", "hello", "--failed", "--", "true").code == 2
    assert small.derive("build", "hello", "--keep-failed").code == 3
    ran = small.derive(
        "shell", "hello", "--failed", "--", "sh", "-c", "cat half; ls /out/usr/share/hello; echo more >> half"
    )
    assert ran.out == "half\ngreeting\nrun\n"
    assert small.derive("shell", "hello", "--failed", "--", "cat", "half").out == "half\nmore\n"


def test_a_derivation_without_a_sandbox_needs_a_root_to_enter(small: Small) -> None:
    refused = small.derive("shell", "hello-patched", "--", "true")
    assert refused.code == 2
    assert "--root" in refused.err
    ran = small.derive("shell", "hello-patched", "--root", "tools", "--", "cat", "/in/source/greeting")
    assert "hello\n" in ran.out


def test_on_a_terminal_the_shell_has_one_of_its_own_and_ctrl_c_reaches_what_runs_in_it(small: Small) -> None:
    assert small.derive("build", "hello").code == 0
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(small.root)
        words = command("shell", "hello")
        os.execve(words[0], words, environment(small.environment))
    seen = _until(terminal, b"$ ")
    assert b"[derive hello]" in seen
    os.write(terminal, b"sleep 100\n")
    time.sleep(0.3)
    os.write(terminal, b"\x03")
    _until(terminal, b"$ ")
    os.write(terminal, b"tty; exit 5\n")
    assert b"/dev/console" in _until(terminal, b"status 5")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    os.close(terminal)


def _until(terminal: int, text: bytes) -> bytes:
    seen = b""
    end = time.monotonic() + 60
    while text not in seen and time.monotonic() < end:
        ready, _, _ = select.select([terminal], [], [], 0.5)
        if ready:
            try:
                seen += os.read(terminal, 4096)
            except OSError:
                break
    assert text in seen, seen
    return seen
