# SPDX-License-Identifier: Apache-2.0
"""A small project whose one set is locked through given mirrors.

Edge: the file system, the network of those mirrors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from derive.lock.keep import Keep, KeepAll
from derive.lock.tools import Tools
from derive.lock.update import Locked, check_set, lock_set, outdated, read_set, write_lock
from derive.net.fetch import Fetcher
from derive.net.http import Settings
from derive.net.places import MirrorSource
from derive.net.progress import Quiet
from derive.store.local import LocalStore

QUICK = Settings(connect_s=5, read_s=10, attempts=2, first_delay_s=0.01, longest_delay_s=0.02)


class Notes(Quiet):
    """Keeps what is worth a line."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        self.lines.append(message)


class Project:
    """A project with one set, locked through given mirrors."""

    def __init__(self, root: Path, wish: str, mirrors: MirrorSource) -> None:
        self.root = root
        self.mirrors = mirrors
        self.notes = Notes()
        (root / "lock").mkdir(parents=True)
        self.wish(wish)

    def wish(self, text: str) -> None:
        (self.root / "lock" / "x.toml").write_text(text)

    @contextmanager
    def tools(self) -> Iterator[Tools]:
        with (
            LocalStore(self.root / "store") as store,
            Fetcher(store=store, mirrors=self.mirrors, progress=self.notes, settings=QUICK) as fetcher,
        ):
            yield Tools(store=store, fetcher=fetcher, mirrors=self.mirrors, progress=self.notes)

    def lock(self, keep: Keep | None = None) -> Locked:
        files = read_set(self.root, "x")
        with self.tools() as tools:
            found = lock_set(files, keep or KeepAll(), tools)
        write_lock(self.root, files, found.data)
        assert check_set(read_set(self.root, "x")) == []
        return found

    def outdated(self) -> list[tuple[str, ...]]:
        with self.tools() as tools:
            return [newer.row() for newer in outdated(read_set(self.root, "x"), tools)]
