# SPDX-License-Identifier: Apache-2.0
"""What lines of a log say of a start: how far a rank is, and what share of something is done.

Core: no IO. Standard library only.

The words are those of vLLM 0.32 and 0.33. Where another version has other words, stages are passed unseen, and whoever
waits for them is none the worse: what counts in the end is an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FIGURES = re.compile(r"0x[0-9a-f]+|[0-9][0-9.,:]*|\b[0-9a-f]{8,}\b")
_PREFIX = re.compile(r"^\((?:\w+ )*pid=\d+\) ")


class Stage(IntEnum):
    """The stages of a start, in order."""

    CONTAINERS = 0
    RANKS = 1
    WEIGHTS = 2
    KERNELS = 3
    SERVER = 4
    ANSWER = 5

    @property
    def word(self) -> str:
        """What it is called in progress lines."""
        return self.name.lower()


WAITS = {
    Stage.CONTAINERS: "containers are started",
    Stage.RANKS: "ranks find each other",
    Stage.WEIGHTS: "weights are loaded",
    Stage.KERNELS: "kernels are compiled and captured",
    Stage.SERVER: "the server comes up",
    Stage.ANSWER: "an answer is awaited",
}
"""What happens in a stage, for people."""

_PASSED: tuple[tuple[Stage, re.Pattern[str]], ...] = (
    (Stage.RANKS, re.compile(r"rank \d+ in world size \d+ is assigned")),
    (Stage.WEIGHTS, re.compile(r"Loading weights took |Model loading took ")),
    (Stage.KERNELS, re.compile(r"init engine \(.*\) took ")),
    (Stage.SERVER, re.compile(r"Application startup complete|Uvicorn running on ")),
)
"""What is written when a stage is passed. ``KERNELS`` and ``SERVER`` are said by the head alone, for all ranks."""

_SHARES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("weights", re.compile(r"(\d+)% Completed \|")),
    ("graphs", re.compile(r"Capturing .*?(\d+)%\|")),
    ("", re.compile(r"^(?P<what>[\w ]{1,40}):\s+(?P<share>\d+)%\|")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a line says: the stage that is passed, and a share in percent of something; None for neither.

    ``shape`` is the line without figures: two lines of one shape say the same of other numbers.
    """

    passed: Stage | None
    share: tuple[str, int] | None
    shape: str


def said(text: str) -> Said:
    """Read a line."""
    # A progress bar writes its states into one line, and the last one counts.
    plain = _PREFIX.sub("", _ESCAPE.sub("", text).rstrip("\r\n").rpartition("\r")[2])
    passed = next((stage for stage, pattern in _PASSED if pattern.search(plain)), None)
    return Said(passed=passed, share=_share(plain), shape=_FIGURES.sub("0", plain).strip())


def _share(plain: str) -> tuple[str, int] | None:
    for what, pattern in _SHARES:
        found = pattern.search(plain)
        if found is not None:
            return (what or found["what"].strip(), int(found[1] if what else found["share"]))
    return None
