# SPDX-License-Identifier: Apache-2.0
"""Watches a build from beside it, and ends it: given up, out of time, or on a builder that answers no longer.

Edge: a thread, the clock; asks builders whether they live.

A client waits for its worker without end, so that nobody may read from one that is not watched.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from derive.buildkit.builders import Builder, find_builder
from derive.errors import DeriveError
from derive.sandbox.outcome import Cancelled, Flag, TimedOut

_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How a worker is held to be lost that says nothing.

    After ``silence_s`` without a word it is asked whether it lives, again and again; ``misses`` times without an answer
    within ``answer_s`` mean that it does not.
    """

    silence_s: float = 30.0
    answer_s: float = 30.0
    misses: int = 2


@dataclass(frozen=True, slots=True)
class Silent:
    """Nobody answers for the builder any more."""

    builder: str

    def __str__(self) -> str:
        return f"builder {self.builder} does not answer"


Stopped: TypeAlias = Cancelled | TimedOut | Silent


class Watched(Protocol):
    """What is watched: :class:`derive.buildkit.client.Build`, or something of the same shape."""

    def lines(self) -> Generator[str, None, None]:
        """Run it, and yield what it tells."""

    def end(self) -> None:
        """End it, from any thread; nothing happens where it has ended."""


@dataclass(slots=True, kw_only=True)
class Watch:
    """Runs one build by :meth:`lines`; ``stopped`` says afterwards why it was ended here, None where it was not.

    ``timeout_s`` counts from :meth:`begin`: what a build waits for before is not its own time.
    """

    build: Watched
    builder: Builder
    patience: Patience
    cancel: Flag | None = None
    timeout_s: float | None = None
    stopped: Stopped | None = None
    _heard: float = 0.0
    _began: float | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    def lines(self) -> Generator[str, None, None]:
        """Run the build, and yield what it tells, line by line; it has ended when this has, or is closed."""
        self._heard = time.monotonic()
        watching = threading.Thread(target=self._watch, name="buildkit-watch", daemon=True)
        watching.start()
        try:
            with contextlib.closing(self.build.lines()) as told:
                for line in told:
                    self._heard = time.monotonic()
                    yield line
        finally:
            self._over.set()
            self.build.end()
            watching.join()

    def begin(self) -> None:
        """Count its time from now on."""
        if self._began is None:
            self._began = time.monotonic()

    def _watch(self) -> None:
        misses = 0
        while not self._over.wait(_POLL_S):
            now = time.monotonic()
            if self.cancel is not None and self.cancel.is_set():
                self._stop(Cancelled())
            elif self.timeout_s is not None and self._began is not None and now >= self._began + self.timeout_s:
                self._stop(TimedOut(self.timeout_s))
            elif now >= self._heard + self.patience.silence_s:
                misses = 0 if self._answers() else misses + 1
                if misses >= self.patience.misses:
                    self._stop(Silent(self.builder.name))
                elif misses == 0:
                    self._heard = time.monotonic()

    def _stop(self, why: Stopped) -> None:
        if self.stopped is None:
            self.stopped = why
        self.build.end()

    def _answers(self) -> bool:
        """Ask the builder whether it lives, for as long as it has to answer; a build that is over needs no answer."""
        name = "" if self.builder.is_current else self.builder.name
        seconds = self.patience.answer_s
        lives = threading.Event()

        def ask() -> None:
            with contextlib.suppress(DeriveError):
                if find_builder(name, within_s=seconds).is_running:
                    lives.set()

        asking = threading.Thread(target=ask, name="buildkit-ask", daemon=True)
        asking.start()
        deadline = time.monotonic() + seconds
        while asking.is_alive() and time.monotonic() < deadline and not self._over.wait(_POLL_S):
            pass
        return lives.is_set() or self._over.is_set()
