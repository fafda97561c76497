# SPDX-License-Identifier: Apache-2.0
"""Lines that say how far a deploy is: ``[ 12.3 s] spark2  start  begins``. One when a node begins a step or is done.

Core: no IO. Who says a line, and the clock, come in as functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from derive.words import one_line

ALL = "all"
"""Stands in a line for all nodes."""
_STEP_WIDTH = 10
"""That of the longest step; going back has longer ones."""


@dataclass(slots=True, kw_only=True)
class Told:
    """Says lines. ``clock`` returns nanoseconds that never go back; lines say seconds since this was made."""

    say: Callable[[str], None]
    clock: Callable[[], int]
    width: int = len(ALL)
    began_ns: int = field(init=False)

    def __post_init__(self) -> None:
        """Begin to count."""
        self.began_ns = self.clock()

    @classmethod
    def to(cls, say: Callable[[str], None], clock: Callable[[], int], nodes: Iterable[str]) -> Told:
        """Return one whose lines leave room for the names of nodes."""
        return cls(say=say, clock=clock, width=max(map(len, (ALL, *nodes))))

    @property
    def elapsed_ns(self) -> int:
        """How long ago this was made."""
        return self.clock() - self.began_ns

    def line(self, node: str, step: str, text: str) -> None:
        """Say one thing of a node in a step."""
        self.say(line_text(self.elapsed_ns, node, step, text, self.width))


def line_text(elapsed_ns: int, node: str, step: str, text: str, width: int) -> str:
    """Write a line; whatever a node answered stays in it, and does nothing to a terminal."""
    said = one_line(text)
    return f"[{elapsed_ns / 1e9:6.1f} s] {node.ljust(width)}  {step.ljust(_STEP_WIDTH)}  {said}".rstrip()
