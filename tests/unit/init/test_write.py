# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from derive.derivations.declarations import parse_declarations
from derive.errors import InputErrors
from derive.images.declarations import parse_image
from derive.init.write import write_project
from derive.lock.wishes import parse_wish
from derive.project import load_project


def test_a_new_project_parses(tmp_path: Path) -> None:
    write_project(tmp_path, "first")
    project = load_project(tmp_path)
    assert project.settings.default_image == "first"
    assert parse_declarations(project.files["derivations/first.toml"], "d")[1] == []
    assert parse_image(project.files["images/first.toml"], "i")[1] == []
    assert parse_wish(project.files["lock/trixie.toml"], "w")[1] == []


def test_files_that_are_there_are_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/first.toml").write_text("mine")
    (tmp_path / "pyproject.toml").write_text("mine too")
    with pytest.raises(InputErrors) as caught:
        write_project(tmp_path, "first")
    assert [Path(problem.where).name for problem in caught.value.problems()] == ["first.toml", "pyproject.toml"]
    assert not (tmp_path / "lock").exists()


@pytest.mark.parametrize("name", ["", "Über", "a/b", "-x", "a b"])
def test_a_name_that_no_image_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputErrors, match="1 problem"):
        write_project(tmp_path, name)
