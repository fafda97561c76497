# SPDX-License-Identifier: Apache-2.0
"""Machines that share outputs: each with a store, settings and keys of its own, over one small project and a registry.

Edge: the file system, loopback sockets.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.cli import Ran
from support.small import Small, run_here


@dataclass(slots=True)
class Machine:
    """One machine: everything of it lies below ``home``; the project is a copy of its own."""

    home: Path
    root: Path
    small: Small

    @classmethod
    def make(cls, place: Path, name: str, small: Small) -> Machine:
        """Set one up with a copy of the small project."""
        home = place / name
        shutil.copytree(small.root, home / "project")
        return cls(home, home / "project", small)

    @property
    def store(self) -> Path:
        """Its store."""
        return self.home / "store"

    @property
    def environment(self) -> dict[str, str]:
        """Variables under which derive finds all that is this machine's."""
        found = {"DERIVE_STORE": str(self.store), "XDG_CONFIG_HOME": str(self.home), "XDG_DATA_HOME": str(self.home)}
        return {**self.small.environment, **found, "DOCKER_CONFIG": str(self.home / "docker")}

    def here(self, *arguments: str, env: Mapping[str, str] | None = None) -> Ran:
        """Run a command in this process."""
        return run_here(*arguments, "--project", str(self.root), env={**self.environment, **(env or {})})

    def key(self, name: str) -> str:
        """Make a key, and return its public half."""
        return self.here("key", "new", name).answer

    def cache(self, url: str, name: str = "team", *, repository: str = "team/cache", patience: int = 2) -> None:
        """Name a registry's repository as a cache."""
        done = self.here("cache", "add", f"{name}={url}/{repository}", "--patience", str(patience))
        assert done.code == 0, done.err

    def forget_cache(self, name: str = "team") -> None:
        """Take a cache away."""
        assert self.here("cache", "remove", name).code == 0

    def trust(self, keys: Mapping[str, str], *, threshold: int = 1, more: str = "") -> None:
        """Write whose word the project takes, in this machine's copy of it."""
        file = self.root / "pyproject.toml"
        text = re.sub(r"\n\[tool\.derive\.trust\].*", "", file.read_text(), flags=re.DOTALL)
        rows = "".join(f'{name} = "{public}"\n' for name, public in keys.items())
        trust = f"\n[tool.derive.trust]\nthreshold = {threshold}\n\n[tool.derive.trust.keys]\n{rows}{more}"
        file.write_text(text + trust)

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text in one of the project's files."""
        file = self.root / path
        text = file.read_text()
        assert old in text, f"{path} has no {old!r}"
        file.write_text(text.replace(old, new, 1))
