# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
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
    assert buildx_command() == ["env", "DOCKER_CLI_PLUGIN_ORIGINAL_CLI_COMMAND=docker", found]


def test_a_folder_that_a_person_named_comes_first(settings: Path) -> None:
    program(settings / "cli-plugins")
    (settings / "config.json").write_text(json.dumps({"cliPluginsExtraDirs": [str(settings / "own")]}))
    found = program(settings / "own")
    assert buildx_command()[-1] == found


def test_without_a_plugin_docker_s_command_is_asked_and_says_so_itself(settings: Path) -> None:
    assert settings.is_dir()
    assert buildx_command() == ["docker"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cliPluginsExtraDirs": 1}', '{"cliPluginsExtraDirs": [1]}'])
def test_settings_that_say_nothing_of_folders_do_not_matter(settings: Path, text: str) -> None:
    (settings / "config.json").write_text(text)
    found = program(settings / "cli-plugins")
    assert buildx_command()[-1] == found
