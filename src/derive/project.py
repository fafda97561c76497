# SPDX-License-Identifier: Apache-2.0
"""A project on disk: the folder whose pyproject.toml has a ``[tool.derive]`` table, and its content files.

Edge: reads files. Imports nothing heavy: an unchanged project is recognised by the digests of what is read here.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from derive.canonical import Digest, digest_document, sha256
from derive.derivations.model import Platform
from derive.errors import InputErrors, Problem, expected_got

CONTENT_ROOTS = ("lock", "patches", "derivations", "images")
"""The root folders whose files decide bytes."""

_PLATFORMS = ("linux/amd64", "linux/arm64")
_KEYS = {"format", "default-image", "build-platform"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The ``[tool.derive]`` table. ``build_platform`` is where programs of the sandbox run."""

    default_image: str
    build_platform: Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project's folder, settings and content: paths relative to the folder, with ``/``, to bytes."""

    root: Path
    settings: Settings
    files: Mapping[str, bytes]

    def digest(self) -> Digest:
        """Return the digest of everything in the project that can decide a byte."""
        return digest_document(
            {
                "derive": "content/1",
                "build-platform": self.settings.build_platform,
                "files": {path: sha256(data).hex for path, data in self.files.items()},
            }
        )

    def below(self, folder: str) -> dict[str, bytes]:
        """Return the files below a folder, by their path inside it."""
        prefix = folder.rstrip("/") + "/"
        return {path[len(prefix) :]: data for path, data in self.files.items() if path.startswith(prefix)}


def find_root(start: Path) -> Path:
    """Walk up from a folder to the project that holds it.

    Raises:
        InputErrors: when no folder above has a pyproject.toml with a ``[tool.derive]`` table.
    """
    for folder in (start, *start.parents):
        if _table(folder / "pyproject.toml") is not None:
            return folder
    raise InputErrors.one(
        "no project here: no pyproject.toml with a [tool.derive] table in this folder or above it",
        where=str(start),
        hint="name one with --project, or make one: derive init FOLDER",
    )


def load_project(root: Path) -> Project:
    """Read a project's settings and content files.

    Raises:
        InputErrors: on wrong settings, links or unreadable files among the content; all at once.
    """
    table = _table(root / "pyproject.toml")
    if table is None:
        raise InputErrors.one(
            "no [tool.derive] table", where=str(root / "pyproject.toml"), hint="make a project: derive init FOLDER"
        )
    problems = _setting_problems(table)
    files: dict[str, bytes] = {}
    for name in CONTENT_ROOTS:
        _read_folder(root / name, name, files, problems)
    if problems:
        raise InputErrors(problems)
    build_platform: Platform = "linux/arm64" if table["build-platform"] == "linux/arm64" else "linux/amd64"
    settings = Settings(default_image=str(table["default-image"]), build_platform=build_platform)
    return Project(root=root, settings=settings, files=files)


def _table(path: Path) -> dict[str, object] | None:
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise InputErrors.one(f"not valid TOML: {error}", where=str(path)) from error
    tool = document.get("tool", {})
    table = tool.get("derive") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def _setting_problems(table: Mapping[str, object]) -> list[Problem]:
    where = "pyproject.toml: tool.derive"
    problems = [Problem(where=f"{where}.{key}", message="unknown key") for key in sorted(table.keys() - _KEYS)]
    problems += [Problem(where=f"{where}.{key}", message="this key is missing") for key in sorted(_KEYS - table.keys())]
    if table.get("format", 1) != 1:
        detail = expected_got(1, table["format"])
        problems.append(
            Problem(where=f"{where}.format", message="a format that this derive cannot read", detail=detail)
        )
    platform = table.get("build-platform", _PLATFORMS[0])
    if platform not in _PLATFORMS:
        detail = expected_got(" or ".join(_PLATFORMS), platform)
        problems.append(Problem(where=f"{where}.build-platform", message="no such platform", detail=detail))
    if not isinstance(table.get("default-image", ""), str):
        problems.append(Problem(where=f"{where}.default-image", message="not a name"))
    return problems


def _read_folder(folder: Path, prefix: str, files: dict[str, bytes], problems: list[Problem]) -> None:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        # Hidden files and editors' backups are no content.
        if entry.name.startswith(".") or entry.name.endswith("~") or entry.name == "__pycache__":
            continue
        path = f"{prefix}/{entry.name}"
        if entry.is_symlink():
            problems.append(Problem(where=path, message="a link: content files are ordinary files"))
        elif entry.is_dir():
            _read_folder(folder / entry.name, path, files, problems)
        elif entry.is_file():
            with open(entry.path, "rb") as file:  # noqa: PTH123 - on the path where milliseconds count
                files[path] = file.read()
        else:
            problems.append(Problem(where=path, message="not an ordinary file"))
