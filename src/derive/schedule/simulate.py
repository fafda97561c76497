# SPDX-License-Identifier: Apache-2.0
"""Runs a schedule in time that is only counted: workers go away, lines are shared, tasks take what they do.

Core: no IO, no clock, no chance: the same question has the same answer.

The line of this machine is shared by all that is moved at once, in equal parts; none is quicker than its worker's rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from derive.schedule.assign import Assigner, Start
from derive.schedule.model import Ran, Task, Timetable, Worker, dependents_of, order_of

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A worker that is gone from a time on, with what it ran and held, and is back at another, or never."""

    worker: int
    at_ns: int
    back_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a simulation may not know beforehand.

    ``takes`` is what a task really takes at a worker, transfers not counted; the default is what is expected.
    ``line`` is how many bytes a second go in and out of this machine at once (None: no bound).
    """

    takes: Callable[[Task, Worker], int] | None = None
    outages: tuple[Outage, ...] = ()
    line: int | None = None


class Stuck(Exception):
    """Tasks are left that no worker can ever run: ``tasks`` are their places."""

    def __init__(self, tasks: Sequence[int]) -> None:
        super().__init__(f"{len(tasks)} tasks are left, and nobody who could run them is there")
        self.tasks = tuple(tasks)


def simulate(tasks: Sequence[Task], workers: Sequence[Worker], world: World | None = None) -> Timetable:
    """Run tasks on workers, and return who ran what and when.

    Raises:
        Stuck: when workers went away for good, and nobody else can do what is left.
        ValueError: when tasks wait for each other in a ring.
    """
    order_of(tasks)
    return _Run(tasks, workers, world or World()).all()


@dataclass(slots=True)
class _Job:
    """A task at a worker: what is left to send, then the time that it runs until, then what is left to bring back."""

    start: Start
    began: int
    sending: float
    returning: float
    until: int | None = None
    phase: str = "send"


@dataclass(slots=True)
class _Run:
    tasks: Sequence[Task]
    workers: Sequence[Worker]
    world: World
    _now: int = 0
    _jobs: list[_Job] = field(default_factory=list)
    _ran: list[Ran] = field(default_factory=list)
    _sent: dict[str, int] = field(default_factory=dict)
    _returned: dict[str, int] = field(default_factory=dict)

    def all(self) -> Timetable:
        """Go from event to event until nothing is left."""
        assigner = Assigner(self.tasks, self.workers)
        waits = [len(set(task.needs)) for task in self.tasks]
        above = dependents_of(self.tasks)
        changes = self._changes()
        for place, count in enumerate(waits):
            if not count:
                assigner.offer(place)
        left = len(self.tasks)
        while left:
            while changes and changes[0][0] <= self._now:
                self._change(assigner, changes.pop(0))
            self._begin(assigner)
            until = self._next()
            if changes and (until is None or changes[0][0] <= until):
                self._advance(changes[0][0])
                continue
            if until is None:
                raise Stuck(sorted(assigner.waiting))
            self._advance(until)
            for job in self._ended():
                assigner.end(job.start.task, job.start.worker)
                left -= 1
                for one in above[job.start.task]:
                    waits[one] -= 1
                    if not waits[one]:
                        assigner.offer(one)
        return Timetable(
            tasks=tuple(self.tasks),
            workers=tuple(self.workers),
            ran=tuple(self._ran),
            sent=dict(self._sent),
            returned=dict(self._returned),
        )

    def _changes(self) -> list[tuple[int, int, bool]]:
        """Return when which worker goes (True) or comes back, in order of time."""
        found = [(one.at_ns, one.worker, True) for one in self.world.outages]
        found += [(one.back_ns, one.worker, False) for one in self.world.outages if one.back_ns is not None]
        return sorted(found)

    def _change(self, assigner: Assigner, change: tuple[int, int, bool]) -> None:
        _, worker, goes = change
        if not goes:
            assigner.open(worker)
            return
        assigner.close(worker, forgets=True)
        for job in [one for one in self._jobs if one.start.worker == worker]:
            self._jobs.remove(job)
            assigner.lose(job.start.task, worker)
            self._note(job, lost=True)

    def _begin(self, assigner: Assigner) -> None:
        for start in assigner.start(self._now):
            worker = self.workers[start.worker]
            returning = self.tasks[start.task].gives_bytes if worker.rate is not None else 0
            job = _Job(start, self._now, start.moved_bytes, returning)
            self._jobs.append(job)
            if worker.rate is not None:
                self._sent[worker.name] = self._sent.get(worker.name, 0) + start.moved_bytes
            self._settle(job)

    def _settle(self, job: _Job) -> None:
        """Bring a job to the phase in which something is left of it."""
        if job.phase == "send" and job.sending <= 0:
            worker, task = self.workers[job.start.worker], self.tasks[job.start.task]
            takes = worker.run_ns(task) if self.world.takes is None else self.world.takes(task, worker)
            job.phase, job.until = "run", self._now + takes
        if job.phase == "run" and job.until is not None and job.until <= self._now:
            job.phase = "return"
        if job.phase == "return" and job.returning <= 0:
            job.phase = "done"

    def _rates(self) -> dict[int, float]:
        """Return the bytes a second of each transfer, by the place of its job."""
        moving = [place for place, job in enumerate(self._jobs) if job.phase in ("send", "return")]
        at: dict[int, int] = {}
        for place in moving:
            at[self._jobs[place].start.worker] = at.get(self._jobs[place].start.worker, 0) + 1
        share = None if self.world.line is None or not moving else self.world.line / len(moving)
        rates = {}
        for place in moving:
            worker = self._jobs[place].start.worker
            own = (self.workers[worker].rate or 0) / at[worker]
            rates[place] = own if share is None else min(own, share)
        return rates

    def _next(self) -> int | None:
        """Return when something happens next if nothing comes between; None where nothing will."""
        times = [job.until for job in self._jobs if job.phase == "run" and job.until is not None]
        for place, rate in self._rates().items():
            job = self._jobs[place]
            left = job.sending if job.phase == "send" else job.returning
            times.append(self._now + max(1, -int(-left * _NS // rate)))
        times += [self._now for job in self._jobs if job.phase == "done"]
        return min(times, default=None)

    def _advance(self, to_ns: int) -> None:
        passed = max(0, to_ns - self._now)
        for place, rate in self._rates().items():
            job = self._jobs[place]
            moved = rate * passed / _NS
            if job.phase == "send":
                job.sending = _left(job.sending - moved)
            else:
                job.returning = _left(job.returning - moved)
        self._now = max(self._now, to_ns)
        for job in self._jobs:
            self._settle(job)

    def _ended(self) -> list[_Job]:
        done = [job for job in self._jobs if job.phase == "done"]
        for job in done:
            self._jobs.remove(job)
            self._note(job, lost=False)
            worker = self.workers[job.start.worker]
            if worker.rate is not None:
                gives = self.tasks[job.start.task].gives_bytes
                self._returned[worker.name] = self._returned.get(worker.name, 0) + gives
        return done

    def _note(self, job: _Job, *, lost: bool) -> None:
        ran = Ran(task=job.start.task, worker=job.start.worker, began_ns=job.began, ended_ns=self._now, lost=lost)
        self._ran.append(ran)


def _left(size: float) -> float:
    """Take what is less than a byte for nothing: it is what rounding leaves."""
    return size if size >= 1 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulls:
    """What it takes until each of some nodes has one new layer: the last one's time, and what the registry sends."""

    last_ns: int
    registry_bytes: int
    registry_connections: int


def pull_directly(nodes: int, size: int, *, registry_rate: int, node_rate: int) -> Pulls:
    """Return what it takes when all nodes ask the registry at once."""
    rate = min(node_rate, registry_rate / nodes)
    return Pulls(last_ns=int(size / rate * _NS), registry_bytes=nodes * size, registry_connections=nodes)


def pull_through_mirror(nodes: int, size: int, *, registry_rate: int, node_rate: int, mirror_rate: int) -> Pulls:
    """Return what it takes when one node has a mirror beside them fetch the layer, and then all ask the mirror."""
    first = size / min(registry_rate, mirror_rate)
    rest = size / min(node_rate, mirror_rate / nodes)
    return Pulls(last_ns=int((first + rest) * _NS), registry_bytes=size, registry_connections=1)
