# SPDX-License-Identifier: Apache-2.0
"""When a service has started: by its progress, never by one timeout, and never by a health check alone.

Core: no IO. Standard library only. Times are a monotonic clock's, in nanoseconds, and come with the events.

A stage may take as long as it likes while it gets on. It gets on when a rank passes a stage, a share of something
grows, or a line of a kind that was not seen before is written. Without any of that for the stage's limit the start has
failed: for weights and kernels the recipe's ``ready.timeout``, for the others 5 minutes if that is less (2 for
containers). A container or a guard that ends fails it at once. What makes it ready is an answer, while everything runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from derive.deploy.model import Target
from derive.deploy.readiness_events import (
    Answer,
    ContainerIs,
    Event,
    Failed,
    GuardIs,
    Line,
    Lost,
    Ready,
    Tick,
    Verdict,
    Waiting,
)
from derive.deploy.readiness_lines import WAITS, Stage, said
from derive.words import count_text, duration_text, one_line

__all__ = [
    "Answer",
    "ContainerIs",
    "Event",
    "Failed",
    "GuardIs",
    "Line",
    "Lost",
    "Progress",
    "Ready",
    "Tick",
    "Verdict",
    "Waiting",
]

LAST_LINES = 20
_LAST_TEXT = 4000
_NS = 1_000_000_000
_LOST_NS = 60 * _NS
"""How long a node may be out of reach; a start goes on meanwhile."""
_LIMIT_S = {Stage.CONTAINERS: 120, Stage.RANKS: 300, Stage.SERVER: 300, Stage.ANSWER: 300}
_MOST_SHAPES = 4096
"""How many kinds of lines are told apart: a log of random text is no progress for ever."""
_KILLED = 137


@dataclass(slots=True)
class _Rank:
    """What is known of one node."""

    name: str
    runs: bool = False
    ended: str | None = None
    guards: set[str] = field(default_factory=set)
    guard_died: bool = False
    passed: Stage = Stage.CONTAINERS
    shares: dict[str, int] = field(default_factory=dict)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))
    lost_ns: int | None = None
    lost_why: str = ""


class Progress:
    """The progress of one start. ``started_ns`` is when the first container was started."""

    def __init__(self, target: Target, *, started_ns: int) -> None:
        self._ranks = {launch.node: _Rank(launch.node) for launch in target.bundle.launches}
        self._head = target.bundle.launches[0].node
        self._is_plain = target.bundle.resolved.schema is None
        self._timeout_s = target.bundle.launches[0].ready.timeout_seconds
        self._started_ns = self._now_ns = self._moved_ns = started_ns
        self._shapes: set[tuple[str, str]] = set()
        self._answer: Answer | None = None

    @property
    def stage(self) -> Stage:
        """The stage that it is in."""
        ranks = self._ranks.values()
        if not all(one.runs for one in ranks):
            return Stage.CONTAINERS
        if self._is_plain:
            return Stage.ANSWER
        head = self._ranks[self._head].passed
        # Ranks wait for each other, and the head speaks for all of them from here on.
        passed = head if head >= Stage.KERNELS else min(one.passed for one in ranks)
        return Stage(passed + 1)

    @property
    def wants_answer(self) -> bool:
        """Say whether it is time to ask the head for a completion: everything runs, and it may be up."""
        return self.stage > Stage.CONTAINERS and not any(one.lost_ns is not None for one in self._ranks.values())

    def feed(self, events: Iterable[Event]) -> Verdict:
        """Take in what was seen, in order, and say how it stands."""
        before = self.stage
        self._answer = None
        for event in events:
            self._now_ns = max(self._now_ns, event.at_ns)
            self._take(event)
        if self.stage != before:
            self._moved()
        return self._failed() or self._ready() or Waiting(stage=self.stage.word, detail=self._detail())

    def limit_s(self, stage: Stage) -> int:
        """Return how long a stage may be without getting on."""
        if self._is_plain and stage is Stage.ANSWER:
            return self._timeout_s
        return min(self._timeout_s, _LIMIT_S.get(stage, self._timeout_s))

    def _take(self, event: Event) -> None:
        match event:
            case Line():
                self._heard(event)
            case ContainerIs():
                self._seen(event)
            case GuardIs():
                self._guarded(event)
            case Answer():
                self._answer = event
                self._told(self._head, f"answer: {event.detail}")
            case Lost():
                rank = self._ranks[event.node]
                rank.lost_why = event.why
                rank.lost_ns = event.at_ns if rank.lost_ns is None else rank.lost_ns
            case Tick():
                pass
            case _:
                assert_never(event)

    def _reached(self, node: str) -> _Rank:
        rank = self._ranks[node]
        rank.lost_ns = None
        return rank

    def _guarded(self, event: GuardIs) -> None:
        rank = self._reached(event.node)
        if event.alive:
            rank.guards.add(event.phase)
        elif event.phase == "startup" or event.phase in rank.guards:
            rank.guard_died = True

    def _seen(self, event: ContainerIs) -> None:
        rank = self._reached(event.node)
        if event.running:
            rank.runs = True
        elif event.exit_code is not None or rank.runs:
            rank.runs, rank.ended = False, _ending(event)

    def _heard(self, line: Line) -> None:
        rank = self._reached(line.node)
        if line.text.strip():
            rank.lines.append(one_line(line.text.rstrip()))
        found = said(line.text)
        if found.passed is not None and found.passed > rank.passed:
            rank.passed = found.passed
            self._moved()
        if found.share is not None:
            what, share = found.share
            if share > rank.shares.get(what, -1):
                rank.shares[what] = share
                self._moved()
        self._told(line.node, found.shape)

    def _told(self, node: str, shape: str) -> None:
        """Take a kind of line that was not seen before for progress."""
        if (node, shape) not in self._shapes and len(self._shapes) < _MOST_SHAPES:
            self._shapes.add((node, shape))
            self._moved()

    def _moved(self) -> None:
        self._moved_ns = self._now_ns

    def _failed(self) -> Failed | None:
        for rank in self._ranks.values():
            if rank.ended is not None:
                return self._fail(f"the container of {rank.name} has ended: {rank.ended}", rank)
        for rank in self._ranks.values():
            if rank.guard_died:
                return self._fail(f"the memory guard of {rank.name} has ended", rank)
            if rank.lost_ns is not None and self._now_ns - rank.lost_ns > _LOST_NS:
                return self._fail(f"{rank.name} cannot be asked: {rank.lost_why}", rank)
        stage = self.stage
        limit = self.limit_s(stage)
        if self._answer is not None and self._answer.good:
            return None
        if self._now_ns - self._moved_ns > limit * _NS:
            slowest = self._slowest(stage)
            why = f"nothing has moved for {duration_text(limit * _NS)} while {WAITS[stage]}: {self._detail()}"
            return self._fail(why, self._ranks[self._head] if slowest is None else slowest, alone=slowest is not None)
        return None

    def _fail(self, why: str, rank: _Rank, *, alone: bool = True) -> Failed:
        kept: list[str] = []
        for line in reversed(rank.lines):
            if sum(map(len, kept)) + len(line) > _LAST_TEXT:
                break
            kept.append(line)
        return Failed(why=why, node=rank.name if alone else None, lines=tuple(reversed(kept)))

    def _slowest(self, stage: Stage) -> _Rank | None:
        """Return the one rank that the others wait for; None where that is not known, or several."""
        if stage is Stage.CONTAINERS:
            behind = [one for one in self._ranks.values() if not one.runs]
        elif stage in (Stage.RANKS, Stage.WEIGHTS):
            behind = [one for one in self._ranks.values() if one.passed < stage]
        else:
            return None
        return behind[0] if len(behind) == 1 else None

    def _ready(self) -> Ready | None:
        good = self._answer is not None and self._answer.good
        if not good or self._answer is None or not self.wants_answer:
            return None
        return Ready(took_ns=self._now_ns - self._started_ns, detail=self._answer.detail)

    def _detail(self) -> str:
        stage, ranks = self.stage, self._ranks.values()
        count = len(self._ranks)
        lost = [f"{one.name} cannot be asked: {one.lost_why}" for one in ranks if one.lost_ns is not None]
        if stage is Stage.CONTAINERS:
            text = f"{sum(one.runs for one in ranks)} of {count_text(count, 'container')}"
        elif stage in (Stage.RANKS, Stage.WEIGHTS):
            text = f"{sum(one.passed >= stage for one in ranks)} of {count_text(count, 'rank')}{self._share()}"
        elif stage is Stage.ANSWER:
            text = "no answer yet" if self._answer is None else self._answer.detail
        else:
            text = WAITS[stage] + self._share()
        return "; ".join((text, *lost))

    def _share(self) -> str:
        """Return the smallest share that a rank is still at, of what was begun last."""
        found = [(share, what, one.name) for one in self._ranks.values() for what, share in [*one.shares.items()][-1:]]
        if not found or min(found)[0] >= 100:
            return ""
        share, what, name = min(found)
        return f", {what} {share} % on {name}"


def _ending(event: ContainerIs) -> str:
    if event.exit_code is None:
        return event.error or "it is gone"
    if event.oom_killed:
        text = "killed for want of memory"
    elif event.exit_code == _KILLED:
        text = "killed; the memory guard's record says more, if it was that"
    else:
        text = ""
    return ", ".join(filter(None, (f"exit code {event.exit_code}", text, one_line(event.error))))
