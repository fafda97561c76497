# SPDX-License-Identifier: Apache-2.0
"""Facts are gathered from real folders and a real git; what cannot be read is a fact."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from derive.doctor.facts import gather
from derive.doctor.git_facts import git_facts
from derive.doctor.model import GitFacts, SecretFact, Unreadable
from derive.errors import InputErrors

TOKEN = b"ghp" + b"_" + b"a1" * 18
PROJECT = '[tool.derive]\nformat = 1\ndefault-image = "image"\nbuild-platform = "linux/amd64"\n'


def run(folder: Path, *arguments: str) -> None:
    settings = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *settings, *arguments], cwd=folder, check=True, capture_output=True)


def facts_of(folder: Path) -> GitFacts:
    found = git_facts(folder)
    assert isinstance(found, GitFacts)
    return found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / ".gitignore").write_text("ignored.toml\n")
    (tmp_path / "lock").mkdir()
    (tmp_path / "lock" / "a.toml").write_text("kind = 'debian'\n")
    run(tmp_path, "init", "--quiet")
    run(tmp_path, "add", ".")
    return tmp_path


def test_what_git_has_is_told_and_what_it_has_not_is_not(checkout: Path) -> None:
    (checkout / "new").write_text("")
    assert facts_of(checkout).tracked == {"pyproject.toml", ".gitignore", "lock/a.toml"}


def test_a_secret_is_told_by_place_and_never_by_what_it_is(checkout: Path) -> None:
    (checkout / "notes").write_bytes(b"one\n" + TOKEN + b"\n")
    assert facts_of(checkout).secrets == ()
    run(checkout, "add", "notes")
    assert facts_of(checkout).secrets == (SecretFact(path="notes", line=2, kind="GitHub token"),)


def test_a_secret_that_only_git_would_commit_is_found(checkout: Path) -> None:
    for name in ("changed", "removed"):
        (checkout / name).write_bytes(TOKEN)
    run(checkout, "add", ".")
    (checkout / "changed").write_bytes(b"nothing")
    (checkout / "removed").unlink()
    found = {(one.path, one.staged) for one in facts_of(checkout).secrets}
    assert found == {("changed", True), ("removed", True)}


def test_of_a_project_inside_a_larger_checkout_only_its_own_files_are_told(checkout: Path) -> None:
    inner = checkout / "inner"
    inner.mkdir()
    (inner / "gone").write_bytes(TOKEN)
    (checkout / "outside").write_bytes(TOKEN)
    run(checkout, "add", ".")
    (inner / "gone").write_bytes(b"")
    found = facts_of(inner)
    assert found.tracked == {"gone"}
    assert found.secrets == (SecretFact(path="gone", line=1, kind="GitHub token", staged=True),)


def test_large_files_and_links_are_not_looked_into(checkout: Path) -> None:
    (checkout / "large").write_bytes(TOKEN + b"\n" + bytes(2 << 20))
    (checkout / "notes").write_bytes(TOKEN)
    (checkout / "link").symlink_to("notes")
    run(checkout, "add", "large", "link")
    (checkout / "large").unlink()
    assert facts_of(checkout).secrets == ()


def test_names_that_are_no_text_are_told_with_escapes(checkout: Path) -> None:
    (checkout / os.fsdecode(b"caf\xe9")).write_text("")
    run(checkout, "add", ".")
    assert "caf\\xe9" in facts_of(checkout).tracked


def test_branches_here_and_at_remotes_are_known(checkout: Path) -> None:
    run(checkout, "commit", "--quiet", "-m", "a")
    run(checkout, "branch", "release/one")
    run(checkout, "update-ref", "refs/remotes/origin/next", "HEAD")
    assert facts_of(checkout).branches >= {"release/one", "next"}


def test_a_folder_that_is_no_checkout_is_a_fact(tmp_path: Path) -> None:
    found = git_facts(tmp_path)
    assert isinstance(found, Unreadable)
    assert "not a git repository" in found.reason


def test_a_machine_without_git_is_a_fact(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert git_facts(checkout) == Unreadable(where="git", reason="git is not installed")


def test_variables_of_git_do_not_lead_it_elsewhere(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert facts_of(checkout).tracked


def test_what_is_wrong_with_content_is_told_beside_what_can_be_read(checkout: Path) -> None:
    (checkout / "lock" / "link.toml").symlink_to("a.toml")
    (checkout / "recipes").mkdir()
    (checkout / "recipes" / "a.toml").write_text("format = 1\n")
    found = gather(checkout, site=None)
    assert [one.where for one in found.reading] == ["lock/link.toml"]
    assert found.project is not None
    assert set(found.project.files) == {"lock/a.toml"}
    assert set(found.launching) == {"lock/a.toml", "recipes/a.toml"}
    assert found.site is None


def test_a_folder_that_is_no_project_is_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(InputErrors):
        gather(tmp_path, site=None)


def test_a_site_outside_is_told_with_its_mode(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("user") / "site.toml"
    file.write_text("format = 1\n")
    file.chmod(0o640)
    site = gather(checkout, site=file).site
    assert site is not None
    assert (site.data, site.mode, site.inside) == (b"format = 1\n", 0o640, None)


@pytest.mark.parametrize(
    ("name", "tracked", "ignored"),
    [("tracked.toml", True, False), ("ignored.toml", False, True), ("new.toml", False, False)],
)
def test_of_a_site_inside_git_says_what_it_does_with_it(
    checkout: Path, name: str, *, tracked: bool, ignored: bool
) -> None:
    (checkout / name).write_text("format = 1\n")
    if tracked:
        run(checkout, "add", name)
    site = gather(checkout, site=checkout / name).site
    assert site is not None
    assert (site.inside, site.tracked, site.ignored) == (name, tracked, ignored)


def test_a_site_that_is_not_there_is_a_fact(checkout: Path) -> None:
    site = gather(checkout, site=checkout / "absent.toml").site
    assert site is not None
    assert isinstance(site.data, Unreadable)
    assert site.data.reason == "cannot be read: no such file or directory"


def test_records_are_read_by_path(checkout: Path) -> None:
    (checkout / "records" / "benchmarks").mkdir(parents=True)
    (checkout / "records" / "benchmarks" / "a.json").write_text("{}")
    (checkout / "records" / "benchmarks" / "gone.json").symlink_to("nowhere")
    found = gather(checkout, site=None).records
    assert found["records/benchmarks/a.json"] == b"{}"
    assert isinstance(found["records/benchmarks/gone.json"], Unreadable)
