# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from derive.buildkit import plugin
from derive.buildkit.plugin import buildx_command


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings of Docker without a plugin, on a machine that has none either."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setattr(plugin, "_SYSTEM", ())
    return tmp_path


def program(folder: Path) -> str:
    folder.mkdir(parents=True)
    file = folder / "docker-buildx"
    file.touch(0o755)
    return str(file)


def test_a_plugin_is_started_as_docker_s_command_would(settings: Path) -> None:
    found = program(settings / "cli-plugins")
    assert buildx_command() == ("DOCKER_CLI_PLUGIN_ORIGINAL_CLI_COMMAND=docker", found)


def test_a_folder_that_a_person_named_comes_first(settings: Path) -> None:
    program(settings / "cli-plugins")
    (settings / "config.json").write_text(json.dumps({"cliPluginsExtraDirs": [str(settings / "own")]}))
    found = program(settings / "own")
    assert buildx_command()[-1] == found


def test_without_a_plugin_docker_s_command_is_asked_and_says_so_itself(settings: Path) -> None:
    assert settings.is_dir()
    assert buildx_command() == ("", "docker")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "[]",
            "{}",
            '{"cliPluginsExtraDirs": 1}',
            '{"cliPluginsExtraDirs": [1]}',
            '{"cliPluginsExtraDirs": ["\\u0000"]}',
        ),
    ],
)
def test_settings_that_say_nothing_of_folders_do_not_matter(settings: Path, text: str) -> None:
    (settings / "config.json").write_text(text)
    found = program(settings / "cli-plugins")
    assert buildx_command()[-1] == found


def test_a_folder_is_a_list_s_and_not_each_letter_of_a_text(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(settings)
    program(settings / "a")
    (settings / "config.json").write_text('{"cliPluginsExtraDirs": "a"}')
    found = program(settings / "cli-plugins")
    assert buildx_command()[-1] == found


@pytest.mark.parametrize("name", ["a b", "a:b", "a=b", "ü"])
def test_a_folder_may_have_any_name(settings: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(settings / name))
    found = program(settings / name / "cli-plugins")
    assert buildx_command()[-1] == found


@pytest.mark.parametrize("spoil", [lambda file: file.chmod(0o644), lambda file: (file.unlink(), file.mkdir())])
def test_the_first_plugin_decides_and_docker_s_command_says_what_is_wrong_with_it(
    settings: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object]
) -> None:
    monkeypatch.setattr(plugin, "_SYSTEM", (settings / "system",))
    program(settings / "system")
    spoil(Path(program(settings / "cli-plugins")))
    assert buildx_command() == ("", "docker")


def test_a_link_to_nothing_is_no_plugin(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_SYSTEM", (settings / "system",))
    found = program(settings / "system")
    (settings / "cli-plugins").mkdir()
    (settings / "cli-plugins" / "docker-buildx").symlink_to(settings / "nothing")
    assert buildx_command()[-1] == found


def test_a_user_without_a_home_has_the_machine_s_plugins(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_SYSTEM", (settings / "system",))
    monkeypatch.delenv("DOCKER_CONFIG")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_123)  # no user of any machine
    found = program(settings / "system")
    assert buildx_command()[-1] == found
