# SPDX-License-Identifier: Apache-2.0
"""A git tree as paths: what it holds, what of it no tree of ours can hold, and which files stand for others.

Core: no IO. Tree objects come from a function that the caller gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import escape
from derive.errors import InputErrors, Problem
from derive.git.objects import FOLDER, LINK, PLAIN, PROGRAM, SUBMODULE, ObjectError, TreeEntry, parse_tree
from derive.trees.listing import nar_key

MODULES_FILE = b".gitmodules"
LARGEST_POINTER = 1024
"""Bytes: no Git LFS pointer is larger."""

_POINTER = re.compile(
    rb"version https?://[^\n]+/spec/v1\n(?:[a-z0-9.-]+ [^\n]*\n)*?oid sha256:[0-9a-f]{64}\nsize [0-9]+\n"
)
_NAME_BYTES = 255  # the longest name of Linux file systems
_PATH_BYTES = 4095
_MOST_PATHS = 2_000_000  # a few small objects can name more paths than any disk holds
_CURRENT = frozenset({FOLDER, PLAIN, PROGRAM, LINK, SUBMODULE})

ReadTrees = Callable[[Sequence[str]], Iterable[bytes]]
"""Gives tree objects by their ids, in order."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A file or link: its path, its mode as git writes it today, and the id of its blob."""

    path: bytes
    mode: bytes
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GitContents:
    """What one git tree holds. Paths are below the tree's own top, in NAR order.

    ``empty``: folders that hold nothing. ``links``: path -> commit of submodules. ``modes``: path -> mode as written,
    where git no longer writes it so.
    """

    leaves: tuple[Leaf, ...]
    empty: tuple[bytes, ...]
    links: Mapping[bytes, str]
    modes: Mapping[bytes, bytes]

    def leaf(self, path: bytes) -> Leaf | None:
        """Return the file or link at a path."""
        return next((leaf for leaf in self.leaves if leaf.path == path), None)


def walk(tree: str, read: ReadTrees, where: str) -> GitContents:
    """Return what lies below a tree object.

    Raises:
        InputErrors: every path that cannot be held, at once; ``where`` names the repository and commit.
    """
    found = _Walk(where)
    level: list[tuple[bytes, str]] = [(b"", tree)]
    while level:
        below: list[tuple[bytes, str]] = []
        for (path, _), raw in zip(level, read([each for _, each in level]), strict=True):
            below.extend(found.take(path, raw))
        level = below
    if found.problems:
        raise InputErrors(found.problems)
    return found.contents()


def is_pointer(data: bytes) -> bool:
    """Say whether a file's contents are a Git LFS pointer."""
    return len(data) <= LARGEST_POINTER and _POINTER.fullmatch(data) is not None


def parse_modules(listed: bytes) -> dict[bytes, str]:
    """Return path -> URL of a ``.gitmodules``, as ``git config --list -z`` prints it; what lacks either is left out."""
    sections: dict[bytes, dict[bytes, bytes]] = {}
    for item in listed.split(b"\0"):
        key, _, value = item.partition(b"\n")
        if key.startswith(b"submodule."):
            section, _, name = key.rpartition(b".")
            sections.setdefault(section, {})[name] = value
    found = {}
    for values in sections.values():
        path, url = values.get(b"path", b"").strip(b"/"), values.get(b"url", b"")
        if path and url:
            found[path] = url.decode("utf-8", "surrogateescape")
    return found


class _Walk:
    def __init__(self, where: str) -> None:
        self.where = where
        self.leaves: list[Leaf] = []
        self.empty: list[bytes] = []
        self.links: dict[bytes, str] = {}
        self.modes: dict[bytes, bytes] = {}
        self.problems: list[Problem] = []
        self.count = 0

    def take(self, folder: bytes, raw: bytes) -> Iterator[tuple[bytes, str]]:
        """Take one tree object in; yield the folders in it."""
        try:
            entries = parse_tree(raw)
        except ObjectError as error:
            self._refuse(folder, str(error))
            return
        if not entries:
            self.empty.append(folder)
        self.count += len(entries)
        if self.count > _MOST_PATHS:
            raise InputErrors.one(f"a git tree of more than {_MOST_PATHS} paths", where=self.where)
        for entry in entries:
            path = folder + b"/" + entry.name if folder else entry.name
            if len(entry.name) > _NAME_BYTES:
                self._refuse(path, f"a name of {len(entry.name)} bytes, more than {_NAME_BYTES}")
            elif len(path) > _PATH_BYTES:
                self._refuse(path, f"a path of {len(path)} bytes, more than {_PATH_BYTES}")
            elif entry.meaning == FOLDER:
                self._note_mode(path, entry)
                yield path, entry.id
            else:
                self._note_mode(path, entry)
                self._leaf(path, entry)

    def _leaf(self, path: bytes, entry: TreeEntry) -> None:
        if entry.meaning == SUBMODULE:
            self.links[path] = entry.id
        else:
            self.leaves.append(Leaf(path, entry.meaning, entry.id))

    def _note_mode(self, path: bytes, entry: TreeEntry) -> None:
        if entry.mode not in _CURRENT:
            self.modes[path] = entry.mode

    def _refuse(self, path: bytes, why: str) -> None:
        place = escape(path[:200]) + ("..." if len(path) > 200 else "")
        self.problems.append(Problem(where=f"{self.where}: {place or 'the top folder'}", message=why))

    def contents(self) -> GitContents:
        return GitContents(
            leaves=tuple(sorted(self.leaves, key=lambda leaf: nar_key(leaf.path))),
            empty=tuple(sorted(self.empty, key=nar_key)),
            links={path: self.links[path] for path in sorted(self.links, key=nar_key)},
            modes={path: self.modes[path] for path in sorted(self.modes, key=nar_key)},
        )
