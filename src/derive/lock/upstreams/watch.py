# SPDX-License-Identifier: Apache-2.0
"""What moved at upstreams: at those that are built from, and at those that are only read.

Edge: git, the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from derive.canonical import Json
from derive.errors import DeriveError
from derive.git.newer import NewerGit, find_newer_git
from derive.git.program import Session
from derive.lock.tools import Tools
from derive.lock.upstreams.entries import GitEntry, UpstreamsLock, WatchEntry
from derive.lock.upstreams.wishes import UpstreamsWish

WATCH_HEADER = ("upstream", "use", "role", "seen", "now", "newer tags")

_AT_ONCE = 8
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What an upstream was when it was locked, or seen last; empty where it never was."""

    name: str
    commit: str
    tag: str | None
    branch: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One upstream now. ``seen`` and ``now`` are commits, None where not known; ``error`` says why nobody answered."""

    name: str
    built: bool
    role: str
    url: str
    branch: str | None
    seen: str | None
    now: str | None
    tags: tuple[str, ...]
    newest_tag: str | None = None
    tag_moved: bool = False
    error: DeriveError | None = None

    @property
    def moved(self) -> bool:
        """Say whether there is something to look at."""
        return self.error is None and (self.seen != self.now or bool(self.tags) or self.tag_moved)

    def row(self) -> tuple[str, ...]:
        """Return the row of a table under :data:`WATCH_HEADER`."""
        now = "not asked: see above" if self.error is not None else (self.now or "gone")[:12]
        if self.error is None and self.now == self.seen:
            now = "the same"
        if self.tag_moved:
            now = "its tag is gone!" if self.now is None else f"{now} (its tag moved!)"
        shown = ", ".join(self.tags[-_SHOWN:]) + (f" and {len(self.tags) - _SHOWN} more" if self.tags[_SHOWN:] else "")
        return (self.name, "built" if self.built else "read", self.role, (self.seen or "never")[:12], now, shown)

    def to_json(self) -> dict[str, Json]:
        """Return the row for machine-readable output."""
        return {
            "name": self.name,
            "built": self.built,
            "role": self.role,
            "url": self.url,
            "branch": self.branch,
            "seen": self.seen,
            "now": self.now,
            "newer_tags": list(self.tags),
            "tag_moved": self.tag_moved,
            "error": None if self.error is None else self.error.message,
        }


def watch(wish: UpstreamsWish, lock: UpstreamsLock, tools: Tools) -> tuple[Watched, ...]:
    """Ask every git upstream of a set, and every watched repository, for its names; nothing is fetched but those."""
    mirrors = tuple(mirror.url for mirror in tools.mirrors.git())
    session = Session(progress=tools.progress)

    def ask(item: tuple[_Seen, Watched]) -> Watched:
        seen, row = item
        try:
            return _compared(row, seen, find_newer_git((row.url,), seen, mirrors=mirrors, session=session))
        except DeriveError as error:
            return replace(row, error=error)

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="watch") as pool:
        return tuple(pool.map(ask, _all(wish, lock)))


def seen_now(lock: UpstreamsLock, found: tuple[Watched, ...]) -> UpstreamsLock:
    """Return the lock in which everything on the watch list counts as seen as it is now."""
    before = {entry.name: entry for entry in lock.watched}
    entries = []
    for row in found:
        if row.built:
            continue
        if row.error is None and row.now is not None and row.branch is not None:
            entries.append(WatchEntry(name=row.name, branch=row.branch, commit=row.now, tag=row.newest_tag))
        elif row.name in before:
            entries.append(before[row.name])
    return replace(lock, watched=tuple(sorted(entries, key=lambda entry: entry.key)))


def _all(wish: UpstreamsWish, lock: UpstreamsLock) -> Iterator[tuple[_Seen, Watched]]:
    pins = {entry.name: entry for entry in lock.upstreams if isinstance(entry, GitEntry)}
    for name, decl in sorted(wish.git.items()):
        entry = pins.get(name)
        commit = None if entry is None else entry.commit
        branch = None if decl.tag else decl.track or decl.branch
        seen = _Seen(name=name, commit=commit or "", tag=decl.tag, branch=branch)
        yield seen, _row(name, role=decl.role, url=decl.url, seen=commit, built=True)
    watched = {entry.name: entry for entry in lock.watched}
    for name, one in sorted(wish.watch.items()):
        known = watched.get(name)
        branch = one.branch or (known.branch if known is not None else None)
        tag = known.tag if known is not None else None
        seen = _Seen(name=name, commit="" if known is None else known.commit, tag=tag, branch=branch)
        yield seen, _row(name, role=one.role, url=one.url, seen=None if known is None else known.commit, built=False)


def _row(name: str, *, role: str, url: str, seen: str | None, built: bool) -> Watched:
    return Watched(name=name, built=built, role=role, url=url, branch=None, seen=seen, now=None, tags=())


def _compared(row: Watched, seen: _Seen, newer: NewerGit) -> Watched:
    follows_tag = row.built and seen.tag is not None
    return replace(
        row,
        branch=newer.branch,
        now=newer.tag_commit if follows_tag else newer.branch_commit,
        tags=newer.tags,
        newest_tag=newer.newest_tag,
        tag_moved=follows_tag and newer.tag_moved and row.seen is not None,
    )
