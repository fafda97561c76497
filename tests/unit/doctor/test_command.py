# SPDX-License-Identifier: Apache-2.0
"""The command, as a person runs it: what it answers, where, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from derive.cli.main import main
from support.doctoring import SITE


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder outside git, with a project in it that holds nothing but an image that is not there."""
    (tmp_path / "pyproject.toml").write_text(
        '[tool.derive]\nformat = 1\ndefault-image = "image"\nbuild-platform = "linux/amd64"\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("DERIVE_SITE", raising=False)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_a_table_goes_to_standard_output_and_one_line_to_standard_error(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert main(["doctor"]) == 1
    out, err = capfdbinary.readouterr()
    assert out.startswith(b"check ")
    assert b"secrets.names  " in out
    assert err.decode().count("\n") == 1
    assert " checks: " in err.decode()


def test_the_record_has_every_check_and_nothing_of_the_machine(
    project: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    site = project / "site.toml"
    site.write_text(SITE)
    assert main(["doctor", "--json", "--site", "site.toml"]) == 1
    out = capfdbinary.readouterr().out.decode()
    record = json.loads(out)
    assert (record["kind"], record["subject"], record["body"]["blocks"]) == ("doctor", "project", True)
    verdicts = {one["id"]: one["verdict"] for one in record["body"]["checks"]}
    assert (verdicts["project.settings"], verdicts["secrets.names"], verdicts["site.loads"]) == (
        "finding",
        "unknown",
        "pass",
    )
    assert str(project) not in out


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--site", "absent.toml"], "absent.toml: no such file"),
        (["--recipe", "absent"], "recipes/: no recipe is called 'absent'"),
        (["why"], "name a check\n  hint: as in: derive doctor why guard.floors"),
        (["what", "guard.floors"], "no such question: 'what guard.floors'"),
        (["why", "guard.flors"], "did you mean guard.floors?"),
    ],
)
def test_a_slip_of_the_hand_is_wrong_input(
    capfdbinary: pytest.CaptureFixture[bytes], arguments: list[str], said: str
) -> None:
    assert main(["doctor", *arguments]) == 2
    out, err = capfdbinary.readouterr()
    assert out == b""
    assert said in err.decode()


def test_a_check_is_explained_where_there_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "why", "secrets.contents"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"secrets.contents  error\n    holds     no tracked file holds")
    assert main(["doctor", "why", "secrets.contents", "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["kind"] == "doctor-why"
