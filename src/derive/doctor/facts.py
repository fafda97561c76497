# SPDX-License-Identifier: Apache-2.0
"""Gathers what checks judge: reads files and asks git; what cannot be read is a fact as well.

Edge: the project's files, the site's file, git. Nothing here says what is wrong. Nothing is written, but that reading a
project ends a change of a series that was killed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from derive.doctor.git_facts import GitRefused, git, git_facts
from derive.doctor.model import Facts, SiteFile, Unreadable
from derive.errors import InputErrors, Problem
from derive.fabric.site_file import read_site_file
from derive.infile import read_plain
from derive.project import LAUNCH_ROOTS, load_project, read_roots
from derive.words import unreadable

if TYPE_CHECKING:
    from derive.project import Project

_RECORDS = "records"
_LARGEST_RECORD = 8 << 20


def gather(root: Path, *, site: Path | None, recipe: str | None = None) -> Facts:
    """Gather all facts of a project; ``site`` is the site's file, None where there is none.

    Raises:
        InputErrors: when the folder is no project.
    """
    project, reading = _project(root)
    launching = read_roots(root, LAUNCH_ROOTS, reading)
    return Facts(
        project=project,
        reading=tuple(dict.fromkeys(reading)),
        launching=launching,
        records=_records(root),
        git=git_facts(root),
        site=None if site is None else _site(root, site),
        today=datetime.now(UTC).date().isoformat(),
        recipe=recipe,
    )


def _project(root: Path) -> tuple[Project | None, list[Problem]]:
    found: list[Project] = []

    def keep(project: Project) -> Iterable[Problem]:
        found.append(project)
        return ()

    try:
        return load_project(root, keep), []
    except InputErrors as error:
        if not found:
            raise
        return found[0], list(error.problems())


def _records(root: Path) -> dict[str, bytes | Unreadable]:
    """Read the records that are JSON, by path."""
    found: dict[str, bytes | Unreadable] = {}
    for folder, _, names in os.walk(root / _RECORDS):
        for path in (Path(folder) / name for name in names if name.endswith(".json")):
            found[path.relative_to(root).as_posix()] = _record(path, path.relative_to(root).as_posix())
    return dict(sorted(found.items()))


def _record(path: Path, name: str) -> bytes | Unreadable:
    try:
        return read_plain(path, _LARGEST_RECORD)[0]
    except OSError as error:
        return Unreadable(where=name, reason=unreadable(error))


def _site(root: Path, path: Path) -> SiteFile:
    try:
        data, mode = read_site_file(path)
    except OSError as error:
        return SiteFile(file=str(path), data=Unreadable(where=str(path), reason=unreadable(error)))
    real = path.resolve()
    try:
        top = Path(os.fsdecode(git(root, "rev-parse", "--show-toplevel").removesuffix(b"\n")))
    except GitRefused:
        top = root.resolve()
    if not real.is_relative_to(top):
        return SiteFile(file=str(path), data=data, mode=mode)
    tracked, ignored = _known_to_git(real)
    inside = real.relative_to(top).as_posix()
    return SiteFile(file=str(path), data=data, mode=mode, inside=inside, tracked=tracked, ignored=ignored)


def _known_to_git(path: Path) -> tuple[bool | None, bool | None]:
    """Say whether git has a file, and whether it passes over it; None where git does not say."""
    try:
        tracked = bool(git(path.parent, "ls-files", "-z", "--", path.name))
        ignored = bool(
            git(path.parent, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", path.name)
        )
    except GitRefused:
        return None, None
    return tracked, ignored
