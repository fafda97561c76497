# SPDX-License-Identifier: Apache-2.0
"""Commits one after the other, each with what it changes, and the files as they are before it.

Edge: reads objects through git.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from derive.patches.make import Change, Changes
from derive.patches.model import FileState, Patch, Read, State, reads, writes
from derive.patches.repository import Commit, Entry, Repository, state_of
from derive.trees.listing import DIRECTORY, parents


class Files:
    """The files of a commit, read when they are asked for; :meth:`advance` makes them those of the next."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self._entries = repository.snapshot(commit)
        self._folders = Counter(above for path in self._entries for above in parents(path))
        self._made: dict[bytes, FileState] = {}
        self.objects: dict[str, bytes] = {}

    def read(self, path: bytes) -> State:
        """Return what is at a path."""
        if path in self._made:
            return self._made[path]
        entry = self._entries.get(path)
        if entry is None:
            return DIRECTORY if self._folders[path] > 0 else None
        if entry.mode != "160000" and entry.object not in self.objects:
            self.objects |= self._repository.objects([entry.object])
        return state_of(entry, self.objects)

    def fetch(self, paths: Iterable[bytes]) -> None:
        """Read the contents of many files at once."""
        entries = (self._entries.get(path) for path in paths)
        wanted = {one.object for one in entries if one is not None and one.mode != "160000"}
        self.objects |= self._repository.objects(sorted(wanted - self.objects.keys()))

    def advance(self, changes: Mapping[bytes, Entry | None]) -> None:
        """Replace, add and remove entries."""
        for path, entry in changes.items():
            self._count(path, -1)
            self._made.pop(path, None)
            self._entries.pop(path, None)
            if entry is not None:
                self._entries[path] = entry
                self._count(path, +1)

    def write(self, changes: Mapping[bytes, FileState | None]) -> None:
        """Replace, add and remove files whose contents are at hand."""
        for path, state in changes.items():
            self._count(path, -1)
            self._entries.pop(path, None)
            self._made.pop(path, None)
            if state is not None:
                self._made[path] = state
                self._count(path, +1)

    def _count(self, path: bytes, step: int) -> None:
        if step > 0 or path in self._entries or path in self._made:
            for above in parents(path):
                self._folders[above] += step


@dataclass(frozen=True, slots=True)
class Step:
    """A commit, what it changes, and the files before it: to be read before the next step is asked for."""

    commit: Commit
    changes: Changes
    read: Read


def walk(repository: Repository, files: Files, commits: Sequence[Commit]) -> Iterator[Step]:
    """Yield the steps along some commits, each upon the one before it; the files are those below the first."""
    moved = repository.differences_along(commits)
    entries = [entry for one in moved for pair in one.values() for entry in pair if entry is not None]
    files.objects |= repository.objects(entry.object for entry in entries if entry.mode != "160000")
    for commit, one in zip(commits, moved, strict=True):
        changes = {path: _change(files.read(path), state_of(after, files.objects)) for path, (_, after) in one.items()}
        yield Step(commit, changes, files.read)
        files.advance({path: after for path, (_, after) in one.items()})


def changes_to(repository: Repository, commit: str, tree: str) -> Changes:
    """Return what a tree has otherwise than a commit."""
    files = Files(repository, commit)
    moved = repository.differences(commit, tree)
    entries = [entry for pair in moved.values() for entry in pair if entry is not None]
    files.objects |= repository.objects(entry.object for entry in entries if entry.mode != "160000")
    return {path: _change(files.read(path), state_of(after, files.objects)) for path, (_, after) in moved.items()}


def paths_read(patches: Iterable[Patch]) -> Iterator[bytes]:
    """Yield every path that patches look at."""
    for patch in patches:
        for operation in patch.operations:
            yield from (path for path in (reads(operation), writes(operation)) if path is not None)


def _change(before: State, after: State) -> Change:
    return Change(before, after)
