# SPDX-License-Identifier: Apache-2.0
"""Where Docker's plugin buildx lies, to be started without Docker's command in front of it.

Edge: the environment, the file system.

Docker's command starts a plugin twice, once to be told what it is: half of what a small build takes of this machine.
The folders are those that Docker's command looks in, in its order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

_NAME = "docker-buildx"
_STARTED_BY = "DOCKER_CLI_PLUGIN_ORIGINAL_CLI_COMMAND"
"""The variable by which a plugin knows that its arguments are those of Docker's command."""

_SYSTEM = tuple(
    Path(top) / "docker/cli-plugins" for top in ("/usr/local/lib", "/usr/local/libexec", "/usr/lib", "/usr/libexec")
)


def buildx_command() -> tuple[str, str]:
    """Return a variable to start it with, and the program that takes the arguments of ``docker buildx``.

    That is the plugin; or Docker's command, without a variable, where there is none, or none that can be started: what
    is wrong it says itself.
    """
    for folder in _folders(os.environ):
        found = folder / _NAME
        if os.path.exists(found):  # noqa: PTH110  # Path.exists raises for a folder that may not be entered
            # The first decides, as with Docker's command.
            can_start = found.is_file() and os.access(found, os.X_OK)
            return (f"{_STARTED_BY}=docker", str(found)) if can_start else ("", "docker")
    return "", "docker"


def _folders(environment: Mapping[str, str]) -> Iterator[Path]:
    settings = _settings(environment)
    if settings is not None:
        yield from _extra(settings / "config.json")
        yield settings / "cli-plugins"
    yield from _SYSTEM


def _settings(environment: Mapping[str, str]) -> Path | None:
    if named := environment.get("DOCKER_CONFIG"):
        return Path(named)
    try:
        return Path.home() / ".docker"
    except RuntimeError:  # neither HOME nor an entry among this machine's users: a container under any number
        return None


def _extra(file: Path) -> list[Path]:
    """Return the folders that a person's settings name; settings that cannot be read are Docker's to complain of."""
    try:
        found = json.loads(file.read_bytes())["cliPluginsExtraDirs"]
        return [Path(one) for one in found] if isinstance(found, list) else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
