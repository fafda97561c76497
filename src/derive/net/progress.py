# SPDX-License-Identifier: Apache-2.0
"""What a fetch tells while it runs; the command line draws it.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """Callbacks, called from several threads. ``name`` is a file name; sizes are in bytes."""

    def start(self, name: str, size: int | None) -> None:
        """A transfer begins."""

    def advance(self, name: str, count: int) -> None:
        """So many new bytes have come, or gone; fewer than none where some of them have to go again."""

    def done(self, name: str) -> None:
        """The transfer has ended, well or not."""

    def note(self, message: str) -> None:
        """Something a person should know, said once."""


class Quiet:
    """Tells nobody."""

    def start(self, name: str, size: int | None) -> None:
        """Ignore a beginning."""

    def advance(self, name: str, count: int) -> None:
        """Ignore bytes."""

    def done(self, name: str) -> None:
        """Ignore an end."""

    def note(self, message: str) -> None:
        """Ignore a message."""


class NotesOnly(Quiet):
    """Passes on what a person should know, and no progress."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def note(self, message: str) -> None:
        """Say it."""
        self._note(message)
