# SPDX-License-Identifier: Apache-2.0
"""What is to be scheduled, as values: tasks that wait for each other, and workers that run them.

Core: no IO.

Times are whole nanoseconds, sizes bytes, speeds thousandths of that of the machine whose times the tasks are known by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from derive.canonical import Json

HERE = "here"
"""What this machine is called among executors."""
NETWORK = "network"
"""What carries transfers out of upstreams: no executor, and everybody's."""
USUAL_SPEED = 1000


class Kind(Enum):
    """What a task asks of whoever runs it."""

    FETCH = "fetch"
    ENGINE = "engine"
    SANDBOX = "sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One step. ``needs`` are the places, in the sequence of all tasks, of those that must have ended before.

    ``reads`` are the things that whoever runs it must hold, by name, with their sizes: a worker elsewhere is sent each
    of them once. What the task gives is known by its ``key``, and is ``gives_bytes`` long. ``platform`` is that of the
    programs that run; ``any`` for those of the engine. ``duration_ns`` is at the usual speed; ``guessed``: no earlier
    run says it.
    """

    key: str
    name: str
    kind: Kind
    duration_ns: int
    needs: tuple[int, ...] = ()
    platform: str = "any"
    reads: tuple[tuple[str, int], ...] = ()
    gives_bytes: int = 0
    memory_bytes: int = 0
    guessed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Somebody who runs tasks of some kinds, ``slots`` at once, with so much memory for all of them (None: no bound).

    An empty set of platforms is all of them. ``rate`` is how many bytes a second go to or from it; None is this
    machine, to which nothing has to be moved. ``overhead_ns`` is what each task takes beside its own time.
    """

    name: str
    kinds: frozenset[Kind]
    slots: int
    platforms: frozenset[str] = frozenset()
    memory_bytes: int | None = None
    rate: int | None = None
    speed: int = USUAL_SPEED
    overhead_ns: int = 0

    def takes(self, task: Task) -> bool:
        """Say whether it could ever run a task."""
        return (
            task.kind in self.kinds
            and (task.platform == "any" or not self.platforms or task.platform in self.platforms)
            and (self.memory_bytes is None or task.memory_bytes <= self.memory_bytes)
        )

    def run_ns(self, task: Task) -> int:
        """Return what a task takes there once all that it reads is there."""
        return self.overhead_ns + task.duration_ns * USUAL_SPEED // self.speed

    def move_ns(self, size: int) -> int:
        """Return how long so many bytes take to it or from it, when nothing else is moved."""
        return 0 if self.rate is None else size * 1_000_000_000 // self.rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A task that was run: where, and when it began and ended. ``lost``: the worker went away, and it ran again."""

    task: int
    worker: int
    began_ns: int
    ended_ns: int
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """Who ran what and when. ``sent`` and ``returned`` are bytes to and from each worker, by its name."""

    tasks: tuple[Task, ...]
    workers: tuple[Worker, ...]
    ran: tuple[Ran, ...]
    sent: Mapping[str, int] = field(default_factory=dict)
    returned: Mapping[str, int] = field(default_factory=dict)

    @property
    def makespan_ns(self) -> int:
        """When the last task ended."""
        return max((one.ended_ns for one in self.ran), default=0)

    @property
    def moved_bytes(self) -> int:
        """All bytes that went to workers and came back."""
        return sum(self.sent.values()) + sum(self.returned.values())

    def busy_ns(self, worker: int) -> int:
        """Return for how long slots of a worker were taken, all slots together."""
        return sum(one.ended_ns - one.began_ns for one in self.ran if one.worker == worker)

    def utilisation(self, workers: Sequence[int]) -> float:
        """Return which part of their slots' time some workers were at work, of 1."""
        room = self.makespan_ns * sum(self.workers[one].slots for one in workers)
        return sum(map(self.busy_ns, workers)) / room if room else 0.0

    def by_key(self) -> dict[str, Ran]:
        """Return the run of each task that counted, by the task's key."""
        return {self.tasks[one.task].key: one for one in self.ran if not one.lost}

    def document(self) -> dict[str, Json]:
        """Return who runs what as part of a record's body."""
        names = [worker.name for worker in self.workers]
        return {
            "makespan_ns": self.makespan_ns,
            "guessed": any(self.tasks[one.task].guessed for one in self.ran),
            "sent_bytes": dict(sorted(self.sent.items())),
            "returned_bytes": dict(sorted(self.returned.items())),
            "steps": [
                {
                    "derivation": self.tasks[one.task].key,
                    "where": names[one.worker],
                    "begins_ns": one.began_ns,
                    "ends_ns": one.ended_ns,
                    "guessed": self.tasks[one.task].guessed,
                }
                for one in self.ran
                if not one.lost
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What no schedule can beat: the longest way through the tasks, and their work divided by who can do it."""

    critical_path_ns: int
    work_ns: int

    @property
    def least_ns(self) -> int:
        """The greater of the two."""
        return max(self.critical_path_ns, self.work_ns)


def order_of(tasks: Sequence[Task]) -> list[int]:
    """Return the places of tasks, each after what it needs; raises ValueError where they wait in a ring."""
    waits = [len(set(task.needs)) for task in tasks]
    above = dependents_of(tasks)
    ready = [place for place, count in enumerate(waits) if not count]
    order = []
    while ready:
        place = ready.pop()
        order.append(place)
        for one in above[place]:
            waits[one] -= 1
            if not waits[one]:
                ready.append(one)
    if len(order) != len(tasks):
        raise ValueError("tasks wait for each other in a ring")
    return order


def dependents_of(tasks: Sequence[Task]) -> list[list[int]]:
    """Return, for each task, the places of those that need it."""
    above: list[list[int]] = [[] for _ in tasks]
    for place, task in enumerate(tasks):
        for need in dict.fromkeys(task.needs):
            above[need].append(place)
    return above


def able(task: Task, workers: Sequence[Worker]) -> tuple[int, ...]:
    """Return the places of the workers that could run a task.

    Where none is of its platform, or has its memory, this machine is: it says why it cannot when it tries.
    """
    found = tuple(place for place, worker in enumerate(workers) if worker.takes(task))
    if found:
        return found
    return tuple(place for place, one in enumerate(workers) if one.rate is None and task.kind in one.kinds)
