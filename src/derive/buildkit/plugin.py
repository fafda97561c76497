# SPDX-License-Identifier: Apache-2.0
"""Where Docker's plugin buildx lies, to be started without Docker's command in front of it.

Edge: the environment, the file system.

Docker's command starts a plugin twice, once to be told what it is: half of what a small build takes of this machine.
The folders are those that Docker's command looks in, in its order.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

_NAME = "docker-buildx"
_STARTED_BY = "DOCKER_CLI_PLUGIN_ORIGINAL_CLI_COMMAND"
"""The variable by which a plugin knows that its arguments are those of Docker's command."""

_SYSTEM = tuple(
    Path(top) / "docker/cli-plugins" for top in ("/usr/local/lib", "/usr/local/libexec", "/usr/lib", "/usr/libexec")
)


def buildx_command() -> list[str]:
    """Return what takes the arguments of ``docker buildx``: the plugin, or Docker's command where it is not found."""
    for folder in _folders(os.environ):
        found = shutil.which(_NAME, path=str(folder))
        if found is not None:
            return ["env", f"{_STARTED_BY}=docker", found]
    return ["docker"]


def _folders(environment: Mapping[str, str]) -> Iterator[Path]:
    settings = Path(environment.get("DOCKER_CONFIG") or Path.home() / ".docker")
    yield from _extra(settings / "config.json")
    yield settings / "cli-plugins"
    yield from _SYSTEM


def _extra(file: Path) -> list[Path]:
    """Return the folders that a person's settings name; settings that cannot be read are Docker's to complain of."""
    try:
        found = json.loads(file.read_bytes())["cliPluginsExtraDirs"]
        return [Path(one) for one in found]
    except (OSError, ValueError, KeyError, TypeError):
        return []
