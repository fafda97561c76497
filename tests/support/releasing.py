# SPDX-License-Identifier: Apache-2.0
"""The small project with a recipe that serves its image, in a git repository: what releases are made of in seconds.

Edge: the checkout's fabric and templates, git, the file system.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.cli import CHECKOUT
from support.small import Small, small_project

RECIPE = """\
# A service without a model, on each node of a ring or a triangle.
format = 1
image = "small"
default-shape = "ring"

platform = "linux/amd64"
transport = "none"

[service]
name = "small"
program = "plain"
entrypoint = ["/usr/share/hello/run"]
port = 8080
ready = { path = "/", timeout = 60 }

[container]
memory = "64MiB"

[shapes.ring]
doc = "four nodes"
cabling = "ring4"

[shapes.triangle]
doc = "three nodes"
cabling = "triangle"
"""

_SETTINGS = ("-c", "user.name=tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false")


def git(root: Path, *arguments: str) -> str:
    """Run git in a folder, with no settings but these, and return what it printed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(
        ["git", *_SETTINGS, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(root: Path, message: str) -> str:
    """Commit everything that a folder holds, and return the commit."""
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)
    return git(root, "rev-parse", "HEAD")


@contextmanager
def released_project(place: Path, *, repository: bool = True) -> Iterator[Small]:
    """Write the small project with its recipe below a folder, committed where there is to be a repository."""
    with small_project(place) as small:
        small.write("recipes/serve.toml", RECIPE)
        for folder in ("fabric", "render"):
            for path in sorted((CHECKOUT / folder).rglob("*")):
                if path.is_file() and not path.name.startswith("."):
                    small.write(path.relative_to(CHECKOUT).as_posix(), path.read_bytes())
        if repository:
            git(small.root, "init", "--quiet", "--initial-branch", "main")
            git(small.root, "config", "user.name", "tester")
            commit(small.root, "a project")
        yield small
