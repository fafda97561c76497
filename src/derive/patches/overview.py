# SPDX-License-Identifier: Apache-2.0
"""Every patch of a project with its size and its header.

Core: no IO. It reads the files that the project holds, and nothing else of it: a list needs no lock and no store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.errors import InputErrors, Problem
from derive.patches.header import Notes, notes_of
from derive.patches.load import LoadedSeries, series_of
from derive.patches.model import Create, Delete, FileOperation, Patch, counts, hunks_of, reads, writes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from derive.canonical import Json
    from derive.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """One patch: how many files and hunks it has, how many lines it adds and removes, and its header.

    ``licence`` is the patch's own, or that of its series.
    """

    upstream: str
    name: str
    files: int
    hunks: int
    added: int
    removed: int
    licence: str
    notes: Notes

    @property
    def place(self) -> str:
        """The patch's file, below the project's folder."""
        return f"patches/{self.upstream}/{self.name}"

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {
            "upstream": self.upstream,
            "patch": self.name,
            "files": self.files,
            "hunks": self.hunks,
            "added_lines": self.added,
            "removed_lines": self.removed,
            "why": self.notes.summary,
            "description": self.notes.description,
            "author": self.notes.author,
            "origin": self.notes.origin,
            "forwarded": self.notes.forwarded,
            "licence": self.licence,
            "when_to_drop": self.notes.when_to_drop,
            "missing": list(self.notes.missing),
        }


def overview(project: Project, upstream: str | None = None) -> tuple[Overview, ...]:
    """Return every patch of one series, or of all, in the order of application.

    Raises:
        InputErrors: every fault of those series, or no such series.
    """
    loaded = load_all(project, upstream)
    return tuple(_overview(name, series, patch) for name, series in loaded.items() for patch in series.patches)


def load_all(project: Project, upstream: str | None = None) -> Mapping[str, LoadedSeries]:
    """Parse one series of a project, or all, by upstream.

    Raises:
        InputErrors: every fault of those series, or no such series.
    """
    names = sorted({path.split("/", 1)[0] for path in project.below("patches") if "/" in path})
    if upstream is not None and upstream not in names:
        hint = f"there {_are(names)}" if names else "the project has none"
        raise InputErrors.one(f"no series is named {upstream!r}", where="patches/", hint=hint)
    found: dict[str, LoadedSeries] = {}
    problems: list[Problem] = []
    for name in names if upstream is None else [upstream]:
        try:
            found[name] = series_of(project.below(f"patches/{name}"), f"patches/{name}")
        except InputErrors as error:
            problems.extend(error.problems())
    if problems:
        raise InputErrors(problems)
    return found


def _are(names: Iterable[str]) -> str:
    shown = list(names)
    return f"is {shown[0]}" if len(shown) == 1 else f"are {', '.join(shown)}"


def _hunks(operation: FileOperation) -> int:
    """Count as the patch file shows them: whole contents stand in one hunk, if there are any."""
    if isinstance(operation, Create | Delete):
        return int(bool(operation.contents))
    return len(hunks_of(operation))


def _overview(upstream: str, loaded: LoadedSeries, patch: Patch) -> Overview:
    lines = [counts(operation) for operation in patch.operations]
    notes = notes_of(patch.header)
    return Overview(
        upstream=upstream,
        name=patch.name,
        files=len({writes(one) or reads(one) for one in patch.operations}),
        hunks=sum(map(_hunks, patch.operations)),
        added=sum(added for added, _ in lines),
        removed=sum(removed for _, removed in lines),
        licence=notes.licence or loaded.series.licence,
        notes=notes,
    )
