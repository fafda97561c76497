# SPDX-License-Identifier: Apache-2.0
"""The one place that says which names, links and sizes an archive may hold; everything else is refused by name.

Core: no IO.

Nothing is ever extracted to disk, so that a name is only a key; the rules keep a tree from meaning something else once
it is laid out: no path leaves the tree, none leads through a link, no link loops.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Literal, TypeAlias

from derive.canonical import escape
from derive.errors import Corrupt, InputErrors, Problem
from derive.trees.listing import parents

LinkRule: TypeAlias = Literal["inside", "root"]
"""Where symbolic links may lead: ``inside`` the tree only (sources, wheels), or anywhere below a tree that is itself
the ``root`` of a file system, where an absolute target starts at the tree's root."""

_HOPS = 40  # what Linux follows before it calls a chain of links a loop
_STEPS = 2048  # components walked on the way; without it a small archive of long links takes hours to follow
_NAME_BYTES = 255  # the longest name of Linux file systems
_TARGET_BYTES = 4095


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much an archive may unpack to. ``bytes`` counts everything that comes out of the decompressor.

    An archive may always unpack to ``free_bytes``; beyond that to ``ratio`` times its own size, and never to more than
    ``total_bytes``. It holds at most ``entries`` members and folders that they imply, none with a path of more than
    ``path_bytes`` bytes, and all their paths together have at most ``names_bytes`` bytes.
    """

    ratio: int = 200
    free_bytes: int = 256 << 20
    total_bytes: int = 64 << 30
    entries: int = 500_000
    path_bytes: int = 4096
    names_bytes: int = 64 << 20

    def allowed(self, archive_bytes: int) -> int:
        """Return how many bytes an archive of this size may unpack to."""
        return min(self.total_bytes, max(self.free_bytes, self.ratio * archive_bytes))


DEFAULT_LIMITS = Limits()


def refused(
    archive: str, path: bytes | None, why: str, *, hint: str | None = None, detail: Collection[str] = ()
) -> InputErrors:
    """Return the error for a member that no archive may hold; ``path`` as the archive names it."""
    where = archive if path is None else f"{archive}: {escape(path)}"
    return InputErrors.one(why, where=where, hint=hint, detail=detail)


def broken(archive: str, why: str, *, path: bytes | None = None, detail: Collection[str] = ()) -> Corrupt:
    """Return the error for an archive whose structure is not what its format says."""
    where = archive if path is None else f"{archive}: {escape(path)}"
    return Corrupt(why, where=where, detail=detail)


def member_path(archive: str, raw: bytes, limits: Limits) -> bytes:
    """Return the tree path of a member's name: a leading ``./`` and trailing slashes are no part of it.

    Raises:
        InputErrors: on absolute, empty and overlong names, ``.`` and ``..`` inside, empty components, zero bytes.
    """
    if not raw:
        raise refused(archive, raw, "a member without a name")
    if b"\0" in raw:
        raise refused(archive, raw, "a zero byte in a member's name")
    if raw.startswith(b"/"):
        raise refused(archive, raw, "an absolute path in an archive")
    path = raw.rstrip(b"/")
    while path.startswith(b"./"):
        path = path[2:]
    if path == b".":
        return b""
    if len(path) > limits.path_bytes:
        raise refused(archive, path[:80], f"a path of {len(path)} bytes, more than {limits.path_bytes}")
    for part in path.split(b"/"):
        fault = _component_fault(part)
        if fault:
            raise refused(archive, raw, fault)
    return path


def _component_fault(part: bytes) -> str | None:
    if part == b"..":
        return "a path that climbs out with .."
    if part in (b"", b"."):
        return "an empty or . component in a path"
    return f"a name of {len(part)} bytes, more than {_NAME_BYTES}" if len(part) > _NAME_BYTES else None


def link_target(archive: str, path: bytes, target: bytes) -> bytes:
    """Return a symbolic link's target unchanged.

    Raises:
        InputErrors: when it is empty, overlong or holds a zero byte.
    """
    if not target:
        raise refused(archive, path, "a symbolic link without a target")
    if b"\0" in target:
        raise refused(archive, path, "a zero byte in a link's target")
    if len(target) > _TARGET_BYTES:
        raise refused(archive, path, f"a link target of {len(target)} bytes, more than {_TARGET_BYTES}")
    return target


class Admission:
    """Counts an archive's paths and the folders that they imply: a short archive can name very many."""

    def __init__(self, archive: str, limits: Limits) -> None:
        self._archive = archive
        self._limits = limits
        self._seen: set[bytes] = set()
        self._bytes = 0

    def __call__(self, path: bytes) -> None:
        """Count a path, once.

        Raises:
            InputErrors: when there are too many, or they are too long together.
        """
        for name in chain((path,), parents(path)):
            if name in self._seen:
                return
            self._seen.add(name)
            self._bytes += len(name)
            if len(self._seen) > self._limits.entries:
                why = f"an archive of more than {self._limits.entries} paths"
                raise refused(self._archive, None, why)
            if self._bytes > self._limits.names_bytes:
                why = f"an archive whose paths have more than {self._limits.names_bytes} bytes together"
                raise refused(self._archive, None, why)


class Stripper:
    """Drops leading folders from an archive's paths: ``count`` of them, the same for every member."""

    def __init__(self, archive: str, count: int) -> None:
        self._archive = archive
        self._count = count
        self._top: list[bytes] | None = None

    def __call__(self, path: bytes, *, folder: bool) -> bytes | None:
        """Return the rest of a path, or None for a folder above what is kept.

        Raises:
            InputErrors: when a member lies outside the folders that the first one lies in, or is itself one of them
                and no folder.
        """
        if not self._count:
            return path
        parts = path.split(b"/") if path else []
        head = parts[: self._count]
        if len(head) < self._count or (len(parts) == self._count and not folder):
            if not folder:
                raise refused(self._archive, path, f"stripping {self._count} leading folders leaves nothing of a file")
            if self._top is not None and self._top[: len(head)] != head:
                raise self._outside(path)
            self._top = self._top or head or None
            return None
        if self._top is not None and head[: len(self._top)] != self._top:
            raise self._outside(path)
        self._top = head
        return b"/".join(parts[self._count :])

    def _outside(self, path: bytes) -> InputErrors:
        top = escape(b"/".join(self._top or []))
        return refused(self._archive, path, f"a member outside {top}/, which stripping {self._count} drops")


def merged(path: bytes, merge: Mapping[bytes, bytes]) -> bytes:
    """Return where a path really lies when some top folders are links: ``lib/x`` -> ``usr/lib/x``.

    ``merge`` maps a top folder to the folder that it stands for; the link itself keeps its path.
    """
    top, slash, rest = path.partition(b"/")
    return merge[top] + slash + rest if slash and top in merge else path


def through_link(paths: Collection[bytes], links: Mapping[bytes, bytes]) -> tuple[bytes, bytes] | None:
    """Return the first path, bytewise, that leads through a symbolic link of the same tree, with that link."""
    if not links:
        return None
    found = ((path, above) for path in paths for above in parents(path) if above in links)
    return min(found, default=None)


def check_links(archive: str, paths: Collection[bytes], links: Mapping[bytes, bytes], rule: LinkRule) -> None:
    """Refuse paths through links, links that leave the tree (rule ``inside``), and links that loop: all at once.

    Raises:
        InputErrors: naming each.
    """
    problems: list[Problem] = []
    if led := through_link(paths, links):
        message = f"a path that goes through the symbolic link {escape(led[1])}"
        problems.append(Problem(where=f"{archive}: {escape(led[0])}", message=message))
    for path in sorted(links):
        why = _link_fault(path, links, rule)
        if why is not None:
            target = f"target    {escape(links[path])}"
            problems.append(Problem(where=f"{archive}: {escape(path)}", message=why, detail=(target,)))
    if problems:
        raise InputErrors(problems)


def resolve(path: bytes, links: Mapping[bytes, bytes]) -> bytes | None:
    """Return where a path leads in a tree that is a file system's root, all links followed; None when they loop."""
    result = _walk(path, links)
    return None if result == "loops" else result[0]


def _link_fault(path: bytes, links: Mapping[bytes, bytes], rule: LinkRule) -> str | None:
    result = _walk(path, links)
    if result == "loops":
        return "a symbolic link that loops"
    if rule == "inside" and result[1]:
        return "a symbolic link that leads out of the tree"
    return None


def _walk(path: bytes, links: Mapping[bytes, bytes]) -> tuple[bytes, bool] | Literal["loops"]:
    """Follow a path component by component: where it ends, and whether it ever left the tree on the way."""
    ahead = path.split(b"/")[::-1]
    here: list[bytes] = []
    left = False
    hops = steps = 0
    while ahead:
        part = ahead.pop()
        steps += 1
        if part in (b"", b"."):
            continue
        if part == b"..":
            if here:
                here.pop()
            else:
                left = True
            continue
        here.append(part)
        target = links.get(b"/".join(here))
        if target is None:
            continue
        hops += 1
        if hops > _HOPS or steps > _STEPS:
            return "loops"
        here.pop()
        if target.startswith(b"/"):
            left = True
            here.clear()
        ahead += target.split(b"/")[::-1]
    return b"/".join(here), left
