# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.project import CONTENT_ROOTS, find_root, load_project

TABLE = '[tool.derive]\nformat = 1\ndefault-image = "probe"\nbuild-platform = "linux/amd64"\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "project")


def make(root: Path, table: str = TABLE) -> Path:
    for folder in CONTENT_ROOTS:
        (root / folder).mkdir(parents=True)
    (root / "pyproject.toml").write_text(table)
    (root / "images" / "probe.toml").write_bytes(b"name = 'probe'\n")
    (root / "derivations" / "tool").mkdir()
    (root / "derivations" / "tool" / "build.sh").write_bytes(b"make\n")
    return root


def messages(error: InputErrors) -> list[tuple[str, str]]:
    return [(p.where, p.message) for p in error.problems()]


def test_a_project_is_found_from_any_folder_below_it(root: Path) -> None:
    assert find_root(root) == root
    assert find_root(root / "derivations" / "tool") == root


def test_a_pyproject_without_the_table_is_walked_past(root: Path) -> None:
    inner = root / "derivations" / "tool"
    (inner / "pyproject.toml").write_text("[tool.other]\n")
    assert find_root(inner) == root


def test_no_project_above_is_said_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        find_root(tmp_path)
    problem = caught.value.problems()[0]
    assert problem.where == str(tmp_path)
    assert "--project" in str(problem.hint)


@pytest.mark.parametrize("text", ["tool = 1\n", "[tool]\nderive = 1\n", "", "[tool.derive\n"])
def test_a_folder_without_the_table_is_no_project(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(InputErrors):
        load_project(tmp_path)


def test_a_project_holds_its_settings_and_every_content_file(root: Path) -> None:
    project = load_project(root)
    assert project.settings.default_image == "probe"
    assert project.settings.build_platform == "linux/amd64"
    assert project.files == {"images/probe.toml": b"name = 'probe'\n", "derivations/tool/build.sh": b"make\n"}
    assert project.below("derivations") == project.below("derivations/") == {"tool/build.sh": b"make\n"}
    assert project.below("deriv") == {}


def test_files_outside_the_content_roots_decide_nothing(root: Path) -> None:
    before = load_project(root).digest()
    (root / "README.md").write_text("words")
    (root / "records").mkdir()
    (root / "records" / "release.json").write_text("{}")
    assert load_project(root).digest() == before


@pytest.mark.parametrize("name", [".probe.toml.swp", "probe.toml~", ".git/config", "__pycache__/a.pyc"])
def test_hidden_files_backups_and_byte_code_are_no_content(root: Path, name: str) -> None:
    before = load_project(root).digest()
    path = root / "images" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    assert load_project(root).digest() == before


def test_the_digest_moves_with_any_name_byte_or_build_platform(tmp_path: Path) -> None:
    digests = set()
    for index, change in enumerate(("nothing", "byte", "name", "move", "platform")):
        root = make(tmp_path / str(index))
        script = root / "derivations" / "tool" / "build.sh"
        if change == "byte":
            script.write_bytes(b"make \n")
        elif change == "name":
            script.rename(script.with_name("build2.sh"))
        elif change == "move":
            script.rename(root / "patches" / "build.sh")
        elif change == "platform":
            (root / "pyproject.toml").write_text(TABLE.replace("amd64", "arm64"))
        digests.add(load_project(root).digest())
    assert len(digests) == 5


def test_the_digest_does_not_depend_on_the_folder_modes_or_times(tmp_path: Path) -> None:
    first, second = make(tmp_path / "a"), make(tmp_path / "b" / "c")
    script = second / "derivations" / "tool" / "build.sh"
    script.chmod(0o700)
    os.utime(script, (1, 1))
    assert load_project(first).digest() == load_project(second).digest()


def test_the_default_image_decides_no_byte(root: Path) -> None:
    before = load_project(root).digest()
    (root / "pyproject.toml").write_text(TABLE.replace('"probe"', '"other"'))
    assert load_project(root).digest() == before


def test_a_content_root_may_be_absent(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE)
    assert load_project(tmp_path).files == {}


def test_every_wrong_setting_is_reported_at_once(tmp_path: Path) -> None:
    text = '[tool.derive]\nformat = 2\nbuild-platform = "linux/riscv64"\ncolour = 1\n'
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(InputErrors) as caught:
        load_project(tmp_path)
    assert messages(caught.value) == [
        ("pyproject.toml: tool.derive.build-platform", "no such platform"),
        ("pyproject.toml: tool.derive.colour", "unknown key"),
        ("pyproject.toml: tool.derive.default-image", "this key is missing"),
        ("pyproject.toml: tool.derive.format", "a format that this derive cannot read"),
    ]


def test_links_and_devices_among_the_content_are_refused_by_name(root: Path) -> None:
    (root / "images" / "link.toml").symlink_to("probe.toml")
    (root / "patches" / "loop").symlink_to(root)
    os.mkfifo(root / "lock" / "pipe")
    with pytest.raises(InputErrors) as caught:
        load_project(root)
    assert messages(caught.value) == [
        ("images/link.toml", "a link: content files are ordinary files"),
        ("lock/pipe", "not an ordinary file"),
        ("patches/loop", "a link: content files are ordinary files"),
    ]


def test_a_file_name_that_is_no_text_is_a_problem_with_its_name(root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root / "patches") + b"/caf\xe9.patch")).write_bytes(b"")
    with pytest.raises(InputErrors) as caught:
        load_project(root)
    assert [where for where, _ in messages(caught.value)] == ["patches/caf%E9.patch"]


def test_a_content_root_that_is_a_file_or_a_link_is_a_problem(root: Path) -> None:
    (root / "lock").rmdir()
    (root / "lock").write_text("")
    (root / "patches").rmdir()
    (root / "patches").symlink_to("derivations")
    with pytest.raises(InputErrors) as caught:
        load_project(root)
    assert [where for where, _ in messages(caught.value)] == ["lock", "patches"]
