# SPDX-License-Identifier: Apache-2.0
"""A step's log as a builder sends it, in pieces of any length, told line by line as this machine's sandbox tells it.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

_LONGEST_LINE = 1 << 16


@dataclass(slots=True)
class LogLines:
    """Passes whole lines on to ``log``.

    Where there is a ``beginning``, it begins the log's first line, which is no line of the step's: its rest is kept as
    ``first``, which stays None when the log begins otherwise: the step has not begun, and what comes is why not.
    Lines with ``marked`` before them are kept aside, too. ``last`` is the last line that was passed on.
    """

    log: Callable[[bytes], None]
    beginning: str = ""
    marked: str = ""
    first: str | None = None
    last: bytes = b""
    marks: list[bytes] = field(default_factory=list)
    _at_first: bool = True
    _pending: bytes = field(default=b"")

    def take(self, data: bytes) -> None:
        """Take what came."""
        *whole, self._pending = (self._pending + data).split(b"\n")
        for line in whole:
            self._tell(line)
        if len(self._pending) >= _LONGEST_LINE:
            self.end()

    def end(self) -> None:
        """Tell what is left of a line that nothing ended."""
        if self._pending:
            pending, self._pending = self._pending, b""
            self._tell(pending)

    def _tell(self, line: bytes) -> None:
        beginning = self.beginning.encode()
        if self._at_first and beginning and line.startswith(beginning):
            self.first = line.removeprefix(beginning).decode("utf-8", "replace")
        elif self.marked and line.startswith(self.marked.encode()):
            self.marks.append(line.removeprefix(self.marked.encode()))
        else:
            self.log(line + b"\n")
            self.last = line
        self._at_first = False
