# SPDX-License-Identifier: Apache-2.0
"""What a machine says of its containers where no engine listens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from derive.deploy.node import idle


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
