# SPDX-License-Identifier: Apache-2.0
"""Shows a run: bars on a terminal, plain lines elsewhere, both on standard error.

Edge: standard error.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from derive.build.plan import Action, Plan
from derive.cli.console import note
from derive.words import duration_text

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from derive.build.execute import Progress
    from derive.canonical import Digest
    from derive.derivations.model import Derivation

_LONG_NS = 2_000_000_000
_NOISE_NS = 1_000_000_000  # of so small a difference no percentage says anything


def progress_for_stderr() -> Progress:
    """Return bars when standard error is a terminal, else plain lines."""
    return Bars() if sys.stderr.isatty() else Lines()


class Lines:
    """One line when a step that is not a fetch is done, and one for each tenth of the fetches."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._fetched = self._fetches = self._built = self._builds = 0
        self._where: dict[Digest, str] = {}

    def begin(self, plan: Plan, expected_ns: int | None) -> None:
        """Say what is ahead."""
        self._fetches, self._builds = len(plan.of(Action.FETCH)), len(plan.of(Action.BUILD))
        self._fetched = self._built = 0
        expected = "" if expected_ns is None else f", expected {duration_text(expected_ns)}"
        taken = len(plan.of(Action.SUBSTITUTE))
        caches = f", {taken} from caches" if taken else ""
        note(f"{plan.title or plan.target.name}: {self._fetches} to fetch{caches}, {self._builds} to build{expected}")

    def started(self, derivation: Derivation, where: str | None = None) -> None:
        """Say nothing: the end of a step is what counts."""
        if where is not None:
            with self._guard:
                self._where[derivation.id] = where

    def finished(self, derivation: Derivation, outcome: str, duration_ns: int) -> None:
        """Say what was done."""
        seconds = f"{duration_ns / 1e9:.1f} s"
        with self._guard:
            where = self._where.pop(derivation.id, None)
            if outcome == "absent" or (derivation.fixed is not None and outcome == "stopped"):
                return
            if outcome == "substituted":
                note(f"{outcome}  {derivation.name}  {seconds}")
                return
            if derivation.fixed is not None and outcome == "failed":
                note(f"{outcome}  {derivation.name}  {seconds}")
                return
            if derivation.fixed is not None:
                self._fetched += 1
                if self._fetched == self._fetches or self._fetched % max(1, self._fetches // 10) == 0:
                    note(f"fetched {self._fetched}/{self._fetches}")
                return
            name = _placed(derivation, where if outcome != "reused" else None)
            if outcome == "stopped":  # what was lost elsewhere runs again
                note(f"{outcome}  {name}  {seconds}")
                return
            self._built += 1
            unpacked = derivation.builder in ("unpack", "install-wheel") and duration_ns < _LONG_NS
            if not unpacked or outcome == "failed" or self._built == self._builds:
                note(f"{outcome} {self._built}/{self._builds}  {name}  {seconds}")

    def note(self, message: str) -> None:
        """Say it."""
        note(message)

    def checked(self, derivation: Derivation, differences: int) -> None:
        """Say whether the second build came out alike."""
        _checked_line(derivation, differences)

    def end(self) -> None:
        """Say nothing more."""

    def took(self, duration_ns: int, expected_ns: int | None) -> None:
        """Say how long it took, beside what was expected."""
        _took_line(duration_ns, expected_ns)


class Bars:
    """A bar for what is fetched, in bytes, one for what is built, in steps, and the names of what runs now."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._running: dict[Digest, str] = {}
        self._progress: RichProgress | None = None
        self._fetch: TaskID | None = None
        self._build: TaskID | None = None

    def begin(self, plan: Plan, expected_ns: int | None) -> None:
        """Draw the bars."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        counts = Column(min_width=17, no_wrap=True, justify="right")
        names = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # what is left of the line
        self._progress = Progress(
            TextColumn("{task.description}", table_column=Column(min_width=5, no_wrap=True)),
            BarColumn(table_column=Column(min_width=12, max_width=30)),
            TextColumn("{task.fields[count]}", table_column=counts),
            TimeElapsedColumn(table_column=Column(min_width=7, no_wrap=True)),
            TextColumn("{task.fields[names]}", markup=False, table_column=names),
            expand=True,
            console=Console(stderr=True),
            transient=True,
        )
        fetches, builds = plan.fetch_bytes, len(plan.of(Action.BUILD))
        if fetches:
            self._fetch = self._progress.add_task("fetch", total=fetches, names="", count="")
        if builds:
            self._build = self._progress.add_task("build", total=builds, names="", count=f"0/{builds}")
        self._progress.start()

    def started(self, derivation: Derivation, where: str | None = None) -> None:
        """Add a name to those that run, with where it does so elsewhere."""
        with self._guard:
            if derivation.fixed is None:
                self._running[derivation.id] = _placed(derivation, where)
                self._show_names()

    def finished(self, derivation: Derivation, outcome: str, duration_ns: int) -> None:
        """Move the bar on."""
        if self._progress is None:
            return
        with self._guard:
            name = self._running.pop(derivation.id, derivation.name)
            self._show_names()
            if derivation.fixed is not None and self._fetch is not None and outcome != "substituted":
                size = derivation.arguments.get("size")
                self._progress.advance(self._fetch, size if isinstance(size, int) else 0)
                task = self._task(self._fetch)
                self._progress.update(self._fetch, count=f"{task[0] / 1e6:.0f}/{task[1] / 1e6:.0f} MB")
            elif self._build is not None and outcome not in ("substituted", "absent", "stopped"):
                self._progress.advance(self._build)
                task = self._task(self._build)
                self._progress.update(self._build, count=f"{task[0]:.0f}/{task[1]:.0f}")
            if outcome == "failed":
                self._progress.console.print(f"failed  {name}", markup=False)

    def note(self, message: str) -> None:
        """Say it above the bars."""
        if self._progress is None:
            note(message)
        else:
            self._progress.console.print(message, markup=False)

    def checked(self, derivation: Derivation, differences: int) -> None:
        """Say whether the second build came out alike."""
        _checked_line(derivation, differences)

    def end(self) -> None:
        """Take the bars away."""
        if self._progress is not None:
            self._progress.stop()

    def took(self, duration_ns: int, expected_ns: int | None) -> None:
        """Say how long it took, beside what was expected."""
        _took_line(duration_ns, expected_ns)

    def _task(self, key: TaskID) -> tuple[float, float]:
        assert self._progress is not None
        task = next(task for task in self._progress.tasks if task.id == key)
        return task.completed, task.total or 0

    def _show_names(self) -> None:
        if self._progress is not None and self._build is not None:
            self._progress.update(self._build, names=", ".join(list(self._running.values())[:2]))


def _placed(derivation: Derivation, where: str | None) -> str:
    """Name a step, and where it runs if not on this machine."""
    return derivation.name if where is None else f"{derivation.name} on {where}"


def _took_line(duration_ns: int, expected_ns: int | None) -> None:
    beside = ""
    if expected_ns:
        beside = f", expected {duration_text(expected_ns)}"
        if abs(duration_ns - expected_ns) > _NOISE_NS:
            beside += f" ({(duration_ns - expected_ns) / expected_ns:+.0%})"
    note(f"took {duration_text(duration_ns)}{beside}")


def _checked_line(derivation: Derivation, differences: int) -> None:
    if differences or derivation.builder not in ("unpack", "install-wheel"):
        note(f"{'differs' if differences else 'same'}  {derivation.name}")
