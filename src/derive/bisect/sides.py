# SPDX-License-Identifier: Apache-2.0
"""The two states that a bisection lies between: a project's folder, the working tree, or a release.

Edge: the projects' files, and a temporary folder that a release is checked out into.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from derive.canonical import Json
from derive.errors import InputErrors
from derive.operands import released
from derive.project import LAUNCH_ROOTS, Project, Settings, load_launching, load_project, require_root
from derive.toml_text import toml_text

if TYPE_CHECKING:
    from derive.derivations.model import Platform

SETTINGS = "pyproject.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state of a project: what it is called, and its files; the settings that decide bytes are its pyproject.

    ``image`` is the name of the image that a release deploys; None for a state that is no release.
    """

    title: str
    files: Mapping[str, bytes]
    image: str | None = None


def read_state(text: str, here: Callable[[], Path], store: Path | None = None) -> State:
    """Read a state: ``.`` for the project here, a release by ``release:NAME`` or its name, or a project's folder.

    Raises:
        InputErrors: when it is none, or may be two, or its content cannot be read.
    """
    if text.startswith("release:") or _is_release(text, here):
        from derive.why.released import find, laid_out

        known = find(here(), released(text))
        with laid_out(known, here(), store) as folder:
            image = next(iter(known.release.images.values())).name
            return replace(_state(f"release:{known.name}", folder), image=image)
    return _state(text, here() if text == "." else require_root(Path(text)))


def default_image(before: State, after: State) -> str:
    """Return the image by which two states are judged unless a person names one: a release's own, else A's default.

    Raises:
        InputErrors: when both are releases, of different images.
    """
    if before.image is not None and after.image not in (None, before.image):
        detail = [f"A         {before.title}: {before.image}", f"B         {after.title}: {after.image}"]
        hint = "say which is derived on both sides: --image NAME"
        raise InputErrors.one("the releases are of different images", detail=detail, hint=hint)
    return before.image or after.image or project_of(before.files, Path()).settings.default_image


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


def _is_release(text: str, here: Callable[[], Path]) -> bool:
    """Say whether a bare name is that of a release, as for `derive why`; raises InputErrors where it means nothing."""
    from derive.why.released import is_release

    name, folder = text.partition("@")[0], Path(text)
    if text == "." or "/" in name or folder.is_absolute():
        return False
    try:
        known = is_release(here(), name)
    except InputErrors:  # no project is here, whose releases might be meant
        return False
    if known and (folder / SETTINGS).is_file():
        detail = [f"may be    release:{name}", f"may be    ./{name}"]
        raise InputErrors.one(f"{text!r} has several meanings", detail=detail, hint="say which: release:NAME or ./NAME")
    if not known and not folder.exists():
        hint = "releases are listed by derive releases --all"
        raise InputErrors.one(f"{text!r} is neither a release nor a project's folder", hint=hint)
    return known


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
