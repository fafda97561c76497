# SPDX-License-Identifier: Apache-2.0
"""Shows blobs that go to a registry or come from one: a bar on a terminal, lines elsewhere, both on standard error.

Edge: standard error, threads.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

from derive.cli.console import note
from derive.words import count_text, size_text

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_TENTHS = 10


class _Shown:
    """What is shown of a run: a bar or lines; a bar goes away at its end."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._guard = threading.Lock()
        self._moved = self._tenth = 0
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def start(self, name: str, size: int | None) -> None:
        """Nothing is said of a single blob's beginning."""

    def note(self, message: str) -> None:
        """Say it, above the bar where there is one."""
        if self._bar is None:
            note(message)
        else:
            self._bar.console.print(message, markup=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class Transfers(_Shown):
    """A :class:`derive.net.progress.Progress` over all blobs of a run. ``verb`` is ``pushed`` or ``pulled``."""

    def __init__(self, verb: str) -> None:
        super().__init__(verb)
        self._blobs = self._ended = self._bytes = 0

    def expect(self, blobs: int, size: int) -> None:
        """Say that so many blobs, of so many bytes together, are about to move; what was expected before stays."""
        with self._guard:
            self._blobs += blobs
            self._bytes += size
            if blobs and self._bar is None and sys.stderr.isatty():
                self._begin_bar()
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, total=self._bytes)

    def advance(self, name: str, count: int) -> None:
        """Move the bar, or say that another tenth is done."""
        del name
        with self._guard:
            self._moved += count
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, completed=self._moved)
            elif self._bytes and (tenth := self._moved * _TENTHS // self._bytes) > self._tenth:
                self._tenth = tenth
                note(f"{self._verb} {size_text(self._moved)} of {size_text(self._bytes)}")

    def done(self, name: str) -> None:
        """Count a blob that has ended."""
        del name
        with self._guard:
            self._ended += 1
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, description=f"{self._verb} {self._ended}/{self._blobs} blobs")

    def _begin_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(f"{self._verb} 0/{self._blobs} blobs", total=self._bytes)
        self._bar.start()


class Outputs(_Shown):
    """A :class:`derive.net.progress.Progress` over outputs whose number is known, and whose bytes are not beforehand.

    Of an output only what the other side lacks is sent, and that is seen blob by blob.
    """

    def count(self, there: int, all_of_them: int) -> None:
        """Say that so many outputs of so many are there."""
        with self._guard:
            if self._bar is None and sys.stderr.isatty():
                self._begin_bar(all_of_them)
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, completed=there)
            elif (tenth := there * _TENTHS // all_of_them) > self._tenth:
                self._tenth = tenth
                note(f"{self._verb} {there} of {count_text(all_of_them, 'output')}, {size_text(self._moved)}")

    def advance(self, name: str, count: int) -> None:
        """Count bytes that have gone."""
        del name
        with self._guard:
            self._moved += count
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, moved=size_text(self._moved))

    def done(self, name: str) -> None:
        """Nothing is said of a single blob's end."""

    def _begin_bar(self, all_of_them: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        moved = TextColumn("outputs, {task.fields[moved]}")
        columns = (TextColumn(self._verb), BarColumn(), MofNCompleteColumn(), moved)
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=all_of_them, moved=size_text(0))
        self._bar.start()
