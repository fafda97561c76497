# SPDX-License-Identifier: Apache-2.0
"""Places the steps of a run while it runs: slots of each executor, hosts that are watched, and workers that are lost.

Edge: the clock, threads that watch hosts.

Decisions are those of ``assign``. A step that a worker lost, or that was stopped because its host is needed, waits
again and goes elsewhere where it can; an executor that lost two steps in a row gets no more in this run.

Steps that a watched host would end first wait a little for its first answer: else none that is ready at once, and no
rebuild of one step, would ever reach it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from derive.build.placing import Place
from derive.errors import DeriveError, HostRefuses, InputErrors, Interrupted, Unavailable
from derive.schedule.assign import Assigner
from derive.schedule.graph import kind_of
from derive.schedule.idle import reason_of, said_last
from derive.schedule.model import Kind, Task, Worker

if TYPE_CHECKING:
    from derive.build.context import StepExecutor
    from derive.build.plan import Step
    from derive.schedule.idle_watch import Watch

_POLL_S = 0.25
_ASK_AGAIN_S = 30.0
_FIRST_ANSWER_S = 5.0
"""How long steps wait for a host's first answer that it would end first, if it let them begin."""
_LOSSES_OF_WORKER = 2
_LOSSES_OF_STEP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """An executor of a run. ``open`` makes what runs steps there, None for this machine's own sandbox.

    ``jobs`` is how many things one step may do at once there. A lane with a ``watch`` takes steps only while that says
    so: what it makes is begun again after a refusal.
    """

    worker: Worker
    open: Callable[[], StepExecutor] | None = None
    jobs: int | None = None
    watch: Callable[[], Watch] | None = None


@dataclass(slots=True, kw_only=True)
class _Line:
    """How a lane stands. ``told`` is why it does not take steps now, ``gone`` why never again in this run."""

    lane: Lane
    jobs: int | None
    executor: StepExecutor | None = None
    watching: Watch | None = None
    told: tuple[str, ...] = ()
    ask_at: float = 0.0
    hold_until: float | None = None
    losses: int = 0
    gone: str = ""
    cancels: dict[str, threading.Event] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.lane.worker.name

    def is_stopped(self) -> bool:
        return self.watching is not None and bool(self.watching.stop)


class Dispatch:
    """Places steps on lanes, one of which is the network, that takes none. ``tell`` is told what people should know."""

    def __init__(self, tasks: Sequence[Task], lanes: Sequence[Lane], tell: Callable[[str], None]) -> None:
        self._lines = [_Line(lane=lane, jobs=lane.jobs) for lane in lanes]
        self._tell = tell
        self._assigner = Assigner(tasks, [lane.worker for lane in lanes])
        self._places = {task.key: place for place, task in enumerate(tasks)}
        self._left = set(range(len(tasks)))
        self._steps: dict[int, Step] = {}
        self._lost: dict[int, int] = {}
        self._last: DeriveError | None = None
        self._causes: dict[str, str] = {}
        self._guard = threading.Lock()
        self._stopped = False
        for number, lane in enumerate(lanes):
            if lane.watch is not None:
                self._assigner.close(number)

    @property
    def threads(self) -> int:
        """How many steps can run at once, everywhere together."""
        return max(1, sum(line.lane.worker.slots for line in self._lines if line.lane.worker.kinds != {Kind.FETCH}))

    @property
    def poll_s(self) -> float | None:
        """How long to wait at most before :meth:`take` is called again."""
        return _POLL_S if self.is_waiting and any(line.lane.watch is not None for line in self._lines) else None

    @property
    def is_waiting(self) -> bool:
        """Whether steps were offered that have not begun."""
        return bool(self._assigner.waiting)

    def offer(self, steps: Iterable[Step]) -> None:
        """Take steps that wait for nothing more."""
        for step in steps:
            key = step.derivation.id.hex
            if key not in self._places:
                self._places[key] = self._assigner.add(
                    Task(key=key, name=step.derivation.name, kind=kind_of(step), duration_ns=step.expected_ns)
                )
            self._steps[self._places[key]] = step
            self._left.add(self._places[key])
            self._assigner.offer(self._places[key])

    def take(self) -> list[tuple[Step, Place]]:
        """Return the steps that begin now.

        Raises:
            Unavailable: when nothing runs, and nobody is left who could run what waits.
        """
        self._look()
        found: list[tuple[Step, Place]] = []
        lacking = True
        while lacking:
            lacking = False
            for start in self._assigner.start(time.monotonic_ns()):
                place = self._place(start.task, start.worker)
                if place is None:
                    self._assigner.lose(start.task, start.worker)
                    lacking = True  # whoever waited for a slot there is placed anew
                else:
                    found.append((self._steps[start.task], place))
        if not found and self.is_waiting:
            self._check_stuck()
        return found

    def _place(self, task: int, number: int) -> Place | None:
        """Return where a step begins; None where what runs steps there cannot be had."""
        line, step = self._lines[number], self._steps[task]
        executor = self._opened(number)
        if line.lane.open is not None and executor is None:
            return None
        cancel = threading.Event()
        with self._guard:
            line.cancels[step.derivation.id.hex] = cancel
            if self._stopped or line.is_stopped():
                cancel.set()
        return Place(name=line.name, executor=executor, jobs=line.jobs, cancel=cancel)

    def ended(self, step: Step, place: Place) -> None:
        """Free the slot of a step that ended."""
        number = self._number(place)
        self._lines[number].losses = 0
        self._free(number, step)
        self._left.discard(self._places[step.derivation.id.hex])
        self._assigner.end(self._places[step.derivation.id.hex], number)

    def lost(self, step: Step, place: Place) -> None:
        """Let a step wait again; an executor that loses one after another is left out from then on."""
        number, task = self._number(place), self._places[step.derivation.id.hex]
        line = self._lines[number]
        self._free(number, step)
        self._assigner.lose(task, number)
        if line.is_stopped():
            return
        self._lost[task] = self._lost.get(task, 0) + 1
        line.losses += 1
        cause = self._causes.get(step.derivation.id.hex)
        why = "" if cause is None else f" ({cause})"
        self._tell(f"{place.name} lost {step.derivation.name}: it runs again{why}")
        if line.losses >= _LOSSES_OF_WORKER:
            self._leave_out(number, f"it lost {line.losses} steps{why}")

    def is_lost(self, step: Step, place: Place, error: DeriveError) -> bool:
        """Say whether an error comes of where the step ran; called by the threads of steps."""
        if isinstance(error, Interrupted):
            return place.cancel.is_set() and not self._stopped
        if place.executor is None:
            return False
        if not isinstance(error, Unavailable) or isinstance(error, HostRefuses):
            return False
        self._last = error
        self._causes[step.derivation.id.hex] = said_last(error)
        return self._lost.get(self._places[step.derivation.id.hex], 0) + 1 < _LOSSES_OF_STEP

    def stop(self) -> None:
        """Stop every step that runs."""
        with self._guard:
            self._stopped = True
            for line in self._lines:
                for cancel in line.cancels.values():
                    cancel.set()

    def close(self) -> None:
        """Free the hosts that are watched."""
        for line in self._lines:
            self._free_host(line)

    def _number(self, place: Place) -> int:
        return next(number for number, line in enumerate(self._lines) if line.name == place.name)

    def _free(self, number: int, step: Step) -> None:
        with self._guard:
            self._lines[number].cancels.pop(step.derivation.id.hex, None)

    def _opened(self, number: int) -> StepExecutor | None:
        """Return what runs steps on a lane; None for this machine, and where it cannot be had: it is then left out."""
        line = self._lines[number]
        if line.lane.open is None or line.executor is not None or line.gone:
            return line.executor
        try:
            line.executor = line.lane.open()
        except (Unavailable, InputErrors) as error:
            self._last = error
            self._leave_out(number, reason_of(error))
        return line.executor

    def _leave_out(self, number: int, why: str) -> None:
        line = self._lines[number]
        if not line.gone:
            line.gone = why
            self._tell(f"{line.name} is left out from now on: {why}")
        self._assigner.close(number, forgets=True)

    def _look(self) -> None:
        """Open and close the lanes of hosts that are watched, by what was last seen of each."""
        for number, line in enumerate(self._lines):
            if line.lane.watch is None or line.gone:
                continue
            watch = line.watching
            if not self._wanted(number):
                self._free_host(line)
                continue
            if watch is None:
                if time.monotonic() >= line.ask_at:
                    self._begin(number)
            elif watch.stop:
                self._close_lane(number, watch.stop)
            elif watch.verdict is not None and not watch.verdict.may:
                self._close_lane(number, watch.verdict.reasons)
            elif watch.verdict is not None:
                slots = max(1, min(line.lane.worker.slots, watch.verdict.jobs))
                line.jobs = max(1, watch.verdict.jobs // slots)
                self._assigner.resize(number, slots)
                self._assigner.open(number)
            elif line.hold_until is not None and time.monotonic() >= line.hold_until:
                self._assigner.close(number)  # what waits for it goes elsewhere; it is opened once it answers

    def _wanted(self, number: int) -> bool:
        """Say whether a lane's host is of use: something is left that it could run, ready or not."""
        worker = self._lines[number].lane.worker
        return any(worker.takes(self._assigner.tasks[task]) for task in self._left)

    def _free_host(self, line: _Line) -> None:
        if line.watching is not None:
            line.watching.close()
            line.watching = None

    def _begin(self, number: int) -> None:
        line = self._lines[number]
        assert line.lane.watch is not None
        if line.hold_until is None:
            line.hold_until = time.monotonic() + _FIRST_ANSWER_S
            self._assigner.hold(number)
        watch = line.lane.watch()
        watch.changed = lambda: self._tripped(line, watch)
        line.watching = watch
        watch.begin()

    def _tripped(self, line: _Line, watch: Watch) -> None:
        """Stop what runs on a host at once; called by the thread that watches it."""
        if watch.stop:
            with self._guard:
                for cancel in line.cancels.values():
                    cancel.set()

    def _close_lane(self, number: int, reasons: tuple[str, ...]) -> None:
        """Let nothing begin on a host, say why once, and free it once nothing runs there any more."""
        line = self._lines[number]
        self._assigner.close(number)
        if reasons != line.told:
            line.told = reasons
            self._tell(f"{line.name} does not build now: {'; '.join(reasons)}")
        if not self._assigner.running(number):
            self._free_host(line)
            line.ask_at = time.monotonic() + _ASK_AGAIN_S

    def _check_stuck(self) -> None:
        """Raise where nothing runs and nobody could run what waits, and nobody is still being asked."""
        if any(self._assigner.running(number) for number in range(len(self._lines))):
            return
        if any(line.watching is not None and line.watching.verdict is None for line in self._lines):
            return
        stuck = self._assigner.stuck()
        if len(stuck) < len(self._assigner.waiting):
            return
        name = self._assigner.tasks[stuck[0]].name
        reasons = [
            f"{line.name}  {line.gone or '; '.join(line.told)}" for line in self._lines if line.gone or line.told
        ]
        raise Unavailable(
            f"nobody can run {name} now",
            detail=reasons,
            hint="derive executors says how they stand; name others with --on, or run it again later",
        ) from self._last
