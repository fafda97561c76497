# SPDX-License-Identifier: Apache-2.0
"""`derive releases` answers by the policy for production."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from derive.errors import InputErrors
from derive.project import load_project, published_branch
from support.chained import Chained, waiver
from support.cli import Ran
from support.releasing import commit, git
from support.reported import Records, release
from support.small import run_here

PROJECT = '[tool.derive]\nformat = 1\ndefault-image = "small"\nbuild-platform = "linux/amd64"\n'
NEVER = 1 << 33
"""Seconds since 1970 that no clock of a test reaches."""


def project(root: Path, evidence: list[Mapping[str, Any]]) -> Path:
    """Write a project whose release is promoted for a ring, with a piece of evidence, and committed on main."""
    git(root, "init", "--quiet", "--initial-branch", "main")
    (root / "pyproject.toml").write_text(PROJECT)
    chained = Chained()
    found, _ = chained.release("demo-1")
    chained.promote("demo-1", found, "ring", evidence)
    chained.write(root)
    commit(root, "a promotion")
    return root


def releases(root: Path, *arguments: str) -> Ran:
    return run_here("releases", *arguments, "--project", str(root))


def deployable(root: Path, *arguments: str) -> dict[str, bool]:
    body = json.loads(releases(root, "--json", "--all", *arguments).out)["body"]
    return {one["shape"]: one["deployable"] for one in body["releases"]}


def test_what_is_promoted_is_listed_and_that_nobody_asked_for_a_branch_is_said(tmp_path: Path) -> None:
    found = releases(project(tmp_path, [waiver("ring", NEVER)]))
    assert [line.split()[:3] for line in found.answer.splitlines()[1:]] == [["demo-1", "demo", "ring"]]
    assert "not listed, and not to be deployed: 1 shape of a release: derive releases --all" in found.err
    assert "whether they are published was not asked" in found.err


@pytest.mark.parametrize("words", [("releases",), ("promote", "demo-1", "--check")])
def test_a_shape_that_there_is_not_is_wrong_input_and_the_nearest_is_named(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    root = project(tmp_path, [])
    found = run_here(*words, "--shape", "rign", "--project", str(root))
    assert (found.code, "hint: did you mean ring?" in found.err) == (2, True), found.err


def test_releases_and_historical_records_are_counted_apart(tmp_path: Path) -> None:
    records = Records()
    records.historical("e1")
    records.candidate("demo-1", *release("demo"), 0, None, "the first")
    for path, data in records.files.items():
        file = tmp_path / "records" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    said = run_here("records", "verify", "--project", str(tmp_path))
    assert said.answer.startswith("sound: 2 records, 1 release and 1 historical\n")


def test_a_waiver_that_has_expired_is_listed_no_more_and_said(tmp_path: Path) -> None:
    root = project(tmp_path, [waiver("ring", 1)])
    found = releases(root)
    assert found.answer.startswith("nothing may be deployed")
    assert "demo-1 for ring is promoted, and may not be deployed: a waiver of ring has expired" in found.err
    assert "why not" in releases(root, "--all").answer
    assert deployable(root) == {"ring": False, "triangle": False}


def test_what_is_not_on_the_branch_that_is_named_is_not_listed(tmp_path: Path) -> None:
    root = project(tmp_path, [])
    assert deployable(root) == {"ring": True, "triangle": False}
    assert deployable(root, "--published", "origin/main")["ring"] is False, "nobody fetched such a branch"
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert deployable(root, "--published", "origin/main")["ring"] is True
    (root / "pyproject.toml").write_text(f'{PROJECT}\n[tool.derive.deploy]\npublished-branch = "origin/none"\n')
    assert deployable(root)["ring"] is False, "the project names a branch"
    assert deployable(root, "--published", "origin/main")["ring"] is True


def test_an_experiment_may_deploy_any_release(tmp_path: Path) -> None:
    root = project(tmp_path, [waiver("ring", 1)])
    assert deployable(root, "--experiment") == {"ring": True, "triangle": True}


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ("published-branch = 1", ".published-branch"),
        ('published-branch = "main"', ".published-branch"),
        ('published-branch = "origin/../x"', ".published-branch"),
        ('branch = "origin/main"', ".branch"),
    ],
)
def test_a_wrong_setting_is_named_wherever_the_project_is_read(tmp_path: Path, table: str, where: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"{PROJECT}\n[tool.derive.deploy]\n{table}\n")
    for read in (load_project, published_branch):
        with pytest.raises(InputErrors) as caught:
            read(tmp_path)
        assert [one.where for one in caught.value.problems()] == [f"pyproject.toml: tool.derive.deploy{where}"]


def test_the_branch_is_in_no_digest(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    before = load_project(tmp_path).digest()
    (tmp_path / "pyproject.toml").write_text(f'{PROJECT}\n[tool.derive.deploy]\npublished-branch = "o/m"\n')
    assert (load_project(tmp_path).digest(), published_branch(tmp_path)) == (before, "o/m")


def test_what_is_no_branch_of_a_remote_is_refused(tmp_path: Path) -> None:
    assert releases(tmp_path, "--published", "main").code == 2
