# SPDX-License-Identifier: Apache-2.0
"""The two states that a bisection lies between: a project's folder, the working tree, or a release.

Edge: the projects' files, and a temporary folder that a release is checked out into.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from derive.canonical import Json
from derive.operands import released
from derive.project import LAUNCH_ROOTS, Project, Settings, load_launching, load_project, require_root
from derive.toml_text import toml_text

if TYPE_CHECKING:
    from derive.derivations.model import Platform

SETTINGS = "pyproject.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state of a project: what it is called, and its files; the settings that decide bytes are its pyproject."""

    title: str
    files: Mapping[str, bytes]


def read_state(text: str, here: Callable[[], Path], store: Path | None = None) -> State:
    """Read a state: ``.`` for the project here, ``release:NAME``, or a project's folder.

    Raises:
        InputErrors: when it is none, or its content cannot be read.
    """
    if text.startswith("release:"):
        from derive.why.released import find, laid_out

        known = find(here(), released(text))
        with laid_out(known, here(), store) as folder:
            return _state(f"release:{known.name}", folder)
    return _state(text, here() if text == "." else require_root(Path(text)))


def project_of(files: Mapping[str, bytes], root: Path) -> Project:
    """Return a state as a project that evaluates; nothing of it needs to lie in the folder."""
    from derive.toml import parse_toml

    table, _ = parse_toml(files[SETTINGS], SETTINGS)
    settings = (table or {})["tool"]["derive"]
    platform: Platform = "linux/arm64" if settings["build-platform"] == "linux/arm64" else "linux/amd64"
    content = {path: data for path, data in files.items() if path != SETTINGS}
    return Project(
        root=root,
        settings=Settings(default_image=str(settings["default-image"]), build_platform=platform),
        files=content,
    )


def launching_of(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return what decides launch files beside the image: what a command may read of the project."""
    roots = set(LAUNCH_ROOTS) - {"lock", "images"}
    return {path: data for path, data in files.items() if path.partition("/")[0] in roots}


def write_state(files: Mapping[str, bytes], folder: Path) -> None:
    """Write a state as a project's folder, which must be empty."""
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _state(title: str, root: Path) -> State:
    project = load_project(root)
    settings = project.settings
    table: dict[str, Json] = {
        "format": 1,
        "default-image": settings.default_image,
        "build-platform": settings.build_platform,
    }
    own = {SETTINGS: toml_text({"tool": {"derive": table}}).encode()}
    return State(title=title, files={**load_launching(root), **project.files, **own})
