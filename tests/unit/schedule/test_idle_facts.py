# SPDX-License-Identifier: Apache-2.0
"""What a machine says of its containers where no engine listens, and of who holds its lock of builds."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from derive.deploy.node import idle
from derive.deploy.node.common import Refused


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the one folder in which this machine then finds programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(idle, "_FOLDERS", ())
    return folder


def facts(tmp_path: Path) -> Any:
    return idle.idle_facts({"lock": str(tmp_path / "lock"), "engine": str(tmp_path / "absent.sock")})


@pytest.mark.usefixtures("programs")
def test_where_no_engine_is_installed_no_container_runs(tmp_path: Path) -> None:
    said = facts(tmp_path)
    assert (said["containers"], said["unread"]) == ([], "")


def test_an_engine_that_is_installed_and_has_no_socket_there_does_not_say_what_runs(
    programs: Path, tmp_path: Path
) -> None:
    (programs / "docker").touch()
    said = facts(tmp_path)
    assert said["containers"] is None
    assert said["unread"] == f"no socket {tmp_path}/absent.sock, and there is {programs}/docker"


@pytest.mark.usefixtures("programs")
def test_an_engine_is_found_outside_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "sbin"
    elsewhere.mkdir()
    (elsewhere / "dockerd").touch()
    monkeypatch.setattr(idle, "_FOLDERS", (str(elsewhere),))
    assert facts(tmp_path)["containers"] is None


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold a lock as any program may, and leave what stands in its file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def test_who_holds_the_lock_is_told_while_it_is_held_and_no_longer(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with idle._held(str(lock), "ann@laptop (process 7): derive image"):
        assert idle._holder(str(lock)) == "ann@laptop (process 7): derive image"
        assert lock.read_text().splitlines()[1].split()[0] == str(os.getpid())
        with pytest.raises(Refused) as caught, idle._held(str(lock), "bob@pc"):
            pass
        assert caught.value.answer["detail"] == ["holder    ann@laptop (process 7): derive image"]
    assert idle._holder(str(lock)) is None
    assert lock.read_text() == ""


def test_what_a_holder_wrote_that_was_killed_is_not_told_of_the_next(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=subprocess.PIPE, check=True)
    lock.write_text(f"ann@laptop (process 7): derive image\n{int(ended.stdout)} 12345\n")
    with locked(lock):
        assert idle._holder(str(lock)) == "somebody"
    with locked(lock) as descriptor:
        # The number is another process's now, which began at another time.
        os.pwrite(descriptor, f"ann@laptop (process 7): derive image\n{os.getpid()} 1\n".encode(), 0)
        assert idle._holder(str(lock)) == "somebody"


@pytest.mark.parametrize("text", ["", "ann@laptop", "ann@laptop\n7", "ann@laptop\nx y", "\n\n\n"])
def test_a_text_that_names_no_process_says_nothing(text: str, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text(text)
    with locked(lock):
        assert idle._holder(str(lock)) == "somebody"


def test_a_holders_name_does_nothing_to_a_terminal(tmp_path: Path) -> None:
    lock = str(tmp_path / "lock")
    with idle._held(lock, "ann\x1b[2J\n"):
        assert idle._holder(lock) == "ann?[2J "


def test_what_goes_wrong_while_the_lock_is_held_leaves_no_name_in_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with pytest.raises(BrokenPipeError), idle._held(str(lock), "ann@laptop"):
        raise BrokenPipeError
    assert lock.read_text() == ""
