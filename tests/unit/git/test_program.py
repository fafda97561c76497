# SPDX-License-Identifier: Apache-2.0
"""Which of a person's settings reach git, and that nothing is asked of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from derive.errors import HostRefuses
from derive.git.failures import GitFailure
from derive.git.places import Place
from derive.git.program import Git, Session, find_git


@pytest.fixture
def repository(tmp_path: Path) -> Git:
    git = Git(Session(), tmp_path / "scratch")
    git.init()
    return git


def ways(git: Git, url: str, *, local: bool = False) -> dict[str, str]:
    return git._ways(Place(url, local=local))


def test_ssh_never_asks_and_never_waits_for_ever(repository: Git) -> None:
    command = ways(repository, "git@host.example:x.git")["GIT_SSH_COMMAND"]
    assert "-o BatchMode=yes" in command
    assert "-o ConnectTimeout=" in command
    assert "GIT_SSH_COMMAND" not in ways(repository, "https://host.example/x.git")


@pytest.mark.parametrize("how", ["GIT_SSH", "GIT_SSH_COMMAND", "core.sshCommand"])
def test_an_ssh_that_the_person_chose_is_left_alone(
    how: str, repository: Git, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if how == "core.sshCommand":
        (tmp_path / "gitconfig").write_text("[core]\n\tsshCommand = my-ssh\n")
    else:
        monkeypatch.setenv(how, "my-ssh")
    assert "GIT_SSH_COMMAND" not in ways(repository, "git@host.example:x.git")


def test_folders_are_asked_where_they_were_named_or_the_person_leads_there(repository: Git, tmp_path: Path) -> None:
    assert ways(repository, "/srv/x", local=True)["GIT_ALLOW_PROTOCOL"] == "https:http:ssh:git:file"
    assert ways(repository, "/srv/x")["GIT_ALLOW_PROTOCOL"] == "https:http:ssh:git"
    assert ways(repository, "https://h.example/x")["GIT_ALLOW_PROTOCOL"] == "https:http:ssh:git"
    (tmp_path / "gitconfig").write_text('[url "/srv/"]\n\tinsteadOf = https://h.example/\n')
    assert ways(repository, "https://h.example/x")["GIT_ALLOW_PROTOCOL"] == "https:http:ssh:git:file"


def test_transports_that_the_person_ruled_out_stay_out(repository: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "ssh:ext")
    assert ways(repository, "https://h.example/x")["GIT_ALLOW_PROTOCOL"] == "ssh"


def test_instead_of_counts_when_ssh_is_started(repository: Git, tmp_path: Path) -> None:
    (tmp_path / "gitconfig").write_text('[url "git@h.example:"]\n\tinsteadOf = https://h.example/\n')
    assert "GIT_SSH_COMMAND" in ways(repository, "https://h.example/x")


def test_git_sees_no_settings_where_none_should_count(repository: Git, tmp_path: Path) -> None:
    (tmp_path / "gitconfig").write_text("[demo]\n\tkey = value\n")
    assert repository.local("config", "--get", "demo.key", own_settings=True) == b"value\n"
    with pytest.raises(GitFailure):
        repository.local("config", "--get", "demo.key")


def test_a_host_that_is_down_is_said_once_and_a_folder_never() -> None:
    said: list[str] = []

    class Told:
        def start(self, name: str, size: int | None) -> None: ...

        def advance(self, name: str, count: int) -> None: ...

        def done(self, name: str) -> None: ...

        def note(self, message: str) -> None:
            said.append(message)

    session = Session(progress=Told())
    for path in ("x", "y"):
        session.mark_down(Place(f"https://me:word@h.example/{path}"), "silent")
    session.mark_down(Place("/srv/x", local=True), "silent")
    assert said == ["https://h.example/x does not answer, and is not asked again in this run: silent"]
    session.check_up(Place("https://other.example/x"))
    session.check_up(Place("/srv/x", local=True))
    with pytest.raises(GitFailure, match="not asked again"):
        session.check_up(Place("https://h.example/z"))


def test_without_git_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostRefuses) as caught:
        find_git()
    assert caught.value.hint == "apt-get install git"
    assert os.environ["PATH"] == str(tmp_path)
