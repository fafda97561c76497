# SPDX-License-Identifier: Apache-2.0
"""Logins from Docker's settings and from credential helpers, which are programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.net.progress import Quiet
from derive.oci.credentials import Login
from derive.oci.logins import SystemLogins

PLAIN = {"auths": {"r.test": {"username": "u", "password": "p"}}}


class Notes(Quiet):
    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, message: str) -> None:
        self.told.append(message)


def logins(folder: Path, settings: object, notes: Notes | None = None) -> SystemLogins:
    (folder / "config.json").write_text(json.dumps(settings))
    environ = {"DOCKER_CONFIG": str(folder), "PATH": f"{folder}:/usr/bin:/bin"}
    return SystemLogins(environ=environ, progress=notes)


def helper(folder: Path, name: str, script: str) -> None:
    program = folder / f"docker-credential-{name}"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_login_is_found_in_the_settings_and_in_no_settings_there_is_none(tmp_path: Path) -> None:
    assert logins(tmp_path, PLAIN).login("r.test") == Login(username="u", password="p")
    assert logins(tmp_path, PLAIN).login("other.test") is None
    assert SystemLogins(environ={"HOME": str(tmp_path)}).login("r.test") is None
    (tmp_path / ".docker").mkdir()
    (tmp_path / "config.json").rename(tmp_path / ".docker/config.json")
    assert SystemLogins(environ={"HOME": str(tmp_path)}).login("r.test") is not None


def test_a_helper_is_asked_once_for_each_host(tmp_path: Path) -> None:
    answer = '{\\"Username\\":\\"$host\\",\\"Secret\\":\\"s\\"}'
    helper(tmp_path, "mine", f'read host; echo "$host $1" >> "$DOCKER_CONFIG/asked"; echo "{answer}"')
    found = logins(tmp_path, {**PLAIN, "credHelpers": {"r.test": "mine"}})
    for _ in range(2):
        assert found.login("r.test") == Login(username="r.test", password="s")
    assert found.login("other.test") is None
    assert (tmp_path / "asked").read_text() == "r.test get\n"


def test_a_helper_that_knows_nothing_leaves_the_settings_login(tmp_path: Path) -> None:
    helper(tmp_path, "mine", "echo credentials not found in native keychain; exit 1")
    assert logins(tmp_path, {**PLAIN, "credsStore": "mine"}).login("r.test") == Login(username="u", password="p")


@pytest.mark.parametrize("script", [None, "exec /nonexistent/interpreter"])
def test_a_helper_that_is_not_there_is_told(tmp_path: Path, script: str | None) -> None:
    notes = Notes()
    if script:
        (tmp_path / "docker-credential-mine").write_text("#!/nonexistent/interpreter\n")
        (tmp_path / "docker-credential-mine").chmod(0o755)
    assert logins(tmp_path, {"credsStore": "mine"}, notes).login("r.test") is None
    how = "does not work" if script else "is not installed"
    assert notes.told == [f"docker-credential-mine {how}: r.test is asked without a login"]


def test_settings_that_may_not_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(InputErrors, match="problem"):
        SystemLogins(environ={"DOCKER_CONFIG": str(tmp_path)}).login("r.test")
