# SPDX-License-Identifier: Apache-2.0
"""What a bare name means as a state to bisect between."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.bisect.sides import State, default_image, read_state
from derive.errors import DeriveError
from support.chained import Chained

PROJECT = '[tool.derive]\nformat = 1\ndefault-image = "small"\nbuild-platform = "linux/amd64"\n'


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    chained = Chained()
    chained.release("demo-1")
    chained.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(text: str, root: Path) -> str:
    with pytest.raises(DeriveError) as caught:
        read_state(text, lambda: root)
    return caught.value.problems()[0].message


def test_a_bare_name_is_a_release_where_there_is_one(root: Path) -> None:
    """Its content is nowhere here, of which both forms say the same."""
    assert refused("demo-1", root) == refused("release:demo-1", root)


def test_a_bare_name_is_a_folder_where_there_is_no_such_release(root: Path) -> None:
    (root / "before").mkdir()
    (root / "before/pyproject.toml").write_text(PROJECT)
    assert read_state("before", lambda: root).title == "before"


def test_a_name_of_a_release_and_of_a_project_is_refused_with_both(root: Path) -> None:
    (root / "demo-1").mkdir()
    (root / "demo-1/pyproject.toml").write_text(PROJECT)
    assert refused("demo-1", root) == "'demo-1' has several meanings"
    assert read_state("./demo-1", lambda: root).title == "./demo-1"


def test_a_name_of_neither_says_so(root: Path) -> None:
    assert refused("demo-7", root) == "'demo-7' is neither a release nor a project's folder"


def state(image: str | None) -> State:
    return State(title=f"of {image}", files={"pyproject.toml": PROJECT.encode()}, image=image)


def test_what_is_derived_is_the_image_of_a_release_else_the_projects_default() -> None:
    assert default_image(state("probe"), state("probe")) == "probe"
    assert default_image(state("probe"), state(None)) == default_image(state(None), state("probe")) == "probe"
    assert default_image(state(None), state(None)) == "small"
    with pytest.raises(DeriveError) as caught:
        default_image(state("probe"), state("small"))
    assert caught.value.problems()[0].message == "the releases are of different images"
