# SPDX-License-Identifier: Apache-2.0
"""The shell that starts a step on a builder, by every shell that a root may have: the engine alone hears of it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from derive.buildkit.request import _STARTER, BEGINNING, SOCKET

SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
FIRST = f"{BEGINNING}{os.uname().release}\n".encode()


@pytest.fixture(params=SHELLS, ids=" ".join)
def shell(request: pytest.FixtureRequest) -> list[str]:
    words: list[str] = request.param
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} here")
    return words


def start(shell: list[str], out: Path, script: str, **variables: str) -> tuple[int, bytes]:
    """Run it as a builder does, with another folder for /out."""
    text = _STARTER.replace("#/out/", f"#{out}/").replace("w /out;", f"w {out};")
    assert str(out) in text
    done = subprocess.run(
        [*shell, "-c", text, "sh", "/bin/sh", "-eu", "-c", script],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    return done.returncode, done.stdout


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 9", 9), ("kill -TERM $$", 143), ("no-such", 127)])
def test_the_status_is_the_scripts(shell: list[str], tmp_path: Path, script: str, status: int) -> None:
    assert start(shell, tmp_path, script)[0] == status


def test_both_streams_are_one_and_the_kernel_is_said_before_them(shell: list[str], tmp_path: Path) -> None:
    assert start(shell, tmp_path, "echo a; echo b >&2; echo c") == (0, FIRST + b"a\nb\nc\n")


def test_variables_are_the_steps_own_whatever_their_names(shell: list[str], tmp_path: Path) -> None:
    variables = {"k": "1", "s": "2", "f": "3", "w": "4", "IFS": "x"}
    _, said = start(
        shell, tmp_path, "echo $k $s $f $w; env | grep -c DERIVE || true; ulimit -n; ulimit -c", **variables
    )
    assert said == FIRST + b"1 2 3 4\n0\n1024\n0\n"


def test_sockets_in_the_output_are_named_wherever_they_lie(shell: list[str], tmp_path: Path) -> None:
    places = ("s", ".hidden/s", "a/b c/.s", "a/*")
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(tmp_path / place))
    (tmp_path / "link").symlink_to("s")
    (tmp_path / "loop").symlink_to(".")
    status, said = start(shell, tmp_path, "true")
    assert status == 1
    assert sorted(said.decode().splitlines()[1:]) == sorted(f"{SOCKET}{place}" for place in places)


def test_a_script_that_fails_is_told_by_its_own_status_alone(shell: list[str], tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "s"))
    assert start(shell, tmp_path, "exit 5") == (5, FIRST)
