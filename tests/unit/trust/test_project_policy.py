# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.project import load_policy, load_project
from derive.trust.keys import SigningKey
from derive.trust.policy import Policy
from support.cli import CHECKOUT, environment

KEY = SigningKey(bytes(32)).public
TABLE = '[tool.derive]\nformat = 1\ndefault-image = "probe"\nbuild-platform = "linux/amd64"\n'
TRUST = f'[tool.derive.trust.keys]\nbuild = "{KEY}"\n'


def test_a_project_names_the_keys_that_it_trusts(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE + TRUST)
    assert load_policy(tmp_path) == Policy(keys={"build": KEY}, threshold=1)


def test_a_project_need_not_say_whom_it_trusts(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE)
    assert load_policy(tmp_path) is None


def test_whom_a_project_trusts_is_in_no_digest(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE)
    before = load_project(tmp_path).digest()
    (tmp_path / "pyproject.toml").write_text(TABLE + TRUST)
    assert load_project(tmp_path).digest() == before


def test_a_wrong_policy_is_told_with_everything_else_that_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE + 'trust = { keys = { a = "x" }, more = 1 }\ncolour = 1\n')
    with pytest.raises(InputErrors) as caught:
        load_project(tmp_path)
    places = [problem.where for problem in caught.value.problems()]
    assert places == [f"pyproject.toml: tool.derive.{key}" for key in ("colour", "trust.keys.a", "trust.more")]
    with pytest.raises(InputErrors):
        load_policy(tmp_path)


def test_reading_a_policy_does_not_import_the_arithmetic(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE + TRUST)
    code = (
        "import sys, pathlib; from derive.project import load_project; "
        "load_project(pathlib.Path(sys.argv[1])); assert not {'cryptography', 'pydantic'} & set(sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(command, env=environment(), cwd=CHECKOUT, check=True)
