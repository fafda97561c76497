# SPDX-License-Identifier: Apache-2.0
"""Decides which of the tasks that are ready begins where: the longest way first, to whoever would end it earliest.

Core: no IO, no clock: whoever asks says what time it is. The same decisions are made for a plan that is shown, for a
simulation, and while steps really run.

A task's rank is how long it and the longest way above it take, on average over who can run them. The one of highest
rank goes to the worker that would end it first, what has to be sent there counted, and more than once: it takes the
line from others. Where that worker is busy, and would still be earlier than any that is free, the task waits for it,
and takes that place from those of lower rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from derive.schedule.model import USUAL_SPEED, Bounds, Task, Worker, able, dependents_of, order_of

_MOVED_AGAIN = 2
"""How many times more what has to be sent counts than it takes: the line is everybody's, and others wait for it."""
_AHEAD = 64
"""How many tasks may wait for a worker that is busy before no more are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A task that begins now, at a worker that has to be sent ``moves`` for it. ``ends_ns`` is when it should end."""

    task: int
    worker: int
    ends_ns: int
    moves: tuple[tuple[str, int], ...]

    @property
    def moved_bytes(self) -> int:
        """How many bytes the worker has to be sent."""
        return sum(size for _, size in self.moves)


@dataclass(frozen=True, slots=True)
class _Taken:
    """A place at a worker that somebody has, or is to have."""

    begins_ns: int
    ends_ns: int
    memory_bytes: int


def ranks(tasks: Sequence[Task], workers: Sequence[Worker]) -> list[int]:
    """Return how long each task and the longest way above it take, on average over the workers that can run them."""
    above = dependents_of(tasks)
    found = [0] * len(tasks)
    for place in reversed(order_of(tasks)):
        longest = max((found[one] for one in above[place]), default=0)
        found[place] = _usual_ns(tasks[place], workers) + longest
    return found


def _usual_ns(task: Task, workers: Sequence[Worker]) -> int:
    those = [workers[place] for place in able(task, workers)]
    if not those:
        return task.duration_ns
    slots = sum(one.slots for one in those) or 1
    return sum((one.run_ns(task) + one.move_ns(task.gives_bytes)) * one.slots for one in those) // slots


def bounds(tasks: Sequence[Task], workers: Sequence[Worker]) -> Bounds:
    """Return what no schedule of some tasks can beat, if nothing has to be moved and nothing goes wrong.

    The work is held against those who can do it for each set of them by itself, and the longest time counts.
    """
    who = [able(task, workers) for task in tasks]
    quickest = [
        min((workers[one].run_ns(task) for one in those), default=task.duration_ns)
        for task, those in zip(tasks, who, strict=True)
    ]
    path = list(quickest)
    for place in order_of(tasks):
        path[place] += max((path[need] for need in tasks[place].needs), default=0)
    work = 0
    for group in set(who):
        room = sum(workers[one].slots * workers[one].speed for one in group)
        inside = sum(task.duration_ns for task, those in zip(tasks, who, strict=True) if set(those) <= set(group))
        work = max(work, inside * USUAL_SPEED // room if room else 0)
    return Bounds(critical_path_ns=max(path, default=0), work_ns=work)


def least_moved(tasks: Sequence[Task], ran_elsewhere: Iterable[int]) -> int:
    """Return the fewest bytes that can be moved if some tasks run elsewhere.

    Each thing is sent to one worker once, and each result comes back once; what one of these tasks gave is sent to
    nobody, as if all that read it ran where it was made.
    """
    places = set(ran_elsewhere)
    there = {tasks[place].key for place in places}
    # A thing that a task gives is named by the task's key, with the name of an output after it where there are several.
    sent = {name: size for one in places for name, size in tasks[one].reads if name.partition("/")[0] not in there}
    return sum(sent.values()) + sum(tasks[place].gives_bytes for place in places)


class Assigner:
    """The state of a schedule: who runs what, what lies where, what is ready. Mutable; for one thread."""

    def __init__(self, tasks: Sequence[Task], workers: Sequence[Worker]) -> None:
        self.tasks = list(tasks)
        self.workers = list(workers)
        self._rank = ranks(tasks, workers)
        self._able = [able(task, workers) for task in tasks]
        self._ready: set[int] = set()
        self._closed: set[int] = set()
        self._held: set[int] = set()
        self._avoided: dict[int, set[int]] = {}
        self._running: list[dict[int, tuple[int, int]]] = [{} for _ in workers]
        self._holds: list[set[str]] = [set() for _ in workers]

    def add(self, task: Task) -> int:
        """Add a task that nobody foresaw, and return its place; its rank is its own time."""
        self.tasks.append(task)
        self._rank.append(_usual_ns(task, self.workers))
        self._able.append(able(task, self.workers))
        return len(self.tasks) - 1

    def offer(self, task: int) -> None:
        """Say that a task waits for nothing any more."""
        self._ready.add(task)

    def end(self, task: int, worker: int) -> None:
        """Say that a task has ended well."""
        self._running[worker].pop(task, None)
        self._avoided.pop(task, None)

    def lose(self, task: int, worker: int) -> None:
        """Say that a task was lost with where it ran: it is ready again, and goes elsewhere where it can."""
        self._running[worker].pop(task, None)
        self._avoided.setdefault(task, set()).add(worker)
        self._ready.add(task)

    def close(self, worker: int, *, forgets: bool = False) -> None:
        """Let nothing more begin at a worker; with ``forgets`` what it held is gone, too."""
        self._closed.add(worker)
        self._held.discard(worker)
        if forgets:
            self._holds[worker].clear()

    def hold(self, worker: int) -> None:
        """Let tasks that a worker would end first wait for it, and none begin there: it may yet be opened or closed."""
        self._closed.discard(worker)
        self._held.add(worker)

    def open(self, worker: int) -> None:
        """Let tasks begin at a worker again."""
        self._closed.discard(worker)
        self._held.discard(worker)

    def resize(self, worker: int, slots: int) -> None:
        """Let a worker run more or fewer tasks at once from now on; what runs goes on."""
        self.workers[worker] = replace(self.workers[worker], slots=slots)

    def running(self, worker: int) -> tuple[int, ...]:
        """Return the tasks that run at a worker."""
        return tuple(self._running[worker])

    @property
    def waiting(self) -> frozenset[int]:
        """The tasks that are ready and have not begun."""
        return frozenset(self._ready)

    def stuck(self) -> tuple[int, ...]:
        """Return the tasks that are ready and that nobody who is open could run, whoever else ends something."""
        return tuple(sorted(task for task in self._ready if not self._candidates(task)))

    def start(self, now_ns: int) -> list[Start]:
        """Begin what is to begin now, and return it; the state is then that it runs."""
        begun: list[Start] = []
        taken = [self._taken(worker, now_ns) for worker in range(len(self.workers))]
        room = {place for place in range(len(self.workers)) if self._free(place) and place not in self._closed}
        waits = 0
        for task in sorted(self._ready, key=lambda one: (-self._rank[one], one)):
            if not room or waits > _AHEAD:
                break
            choice = self._best(task, now_ns, taken)
            if choice is None:
                continue
            begins, ends, worker = choice
            # Whoever waits for a worker has its next place, and what is short may run before that begins.
            taken[worker].append(_Taken(begins, ends, self.tasks[task].memory_bytes))
            if begins > now_ns or worker in self._held:
                waits += 1
                continue
            begun.append(self._begin(task, worker, now_ns, ends))
            if not self._free(worker):
                room.discard(worker)
        return begun

    def _begin(self, task: int, worker: int, now_ns: int, ends: int) -> Start:
        moves = self._moves(task, worker)
        self._ready.discard(task)
        self._running[worker][task] = (now_ns, ends)
        if self.workers[worker].rate is not None:
            self._holds[worker].update(name for name, _ in moves)
        return Start(task=task, worker=worker, ends_ns=ends, moves=moves)

    def _free(self, worker: int) -> bool:
        return len(self._running[worker]) < self.workers[worker].slots

    def _candidates(self, task: int) -> list[int]:
        those = [one for one in self._able[task] if one not in self._closed]
        avoided = self._avoided.get(task, set())
        return [one for one in those if one not in avoided] or those

    def _taken(self, worker: int, now_ns: int) -> list[_Taken]:
        running = self._running[worker].items()
        return [_Taken(now_ns, _ends(*times, now_ns), self.tasks[task].memory_bytes) for task, times in running]

    def _best(self, task: int, now_ns: int, taken: Sequence[Sequence[_Taken]]) -> tuple[int, int, int] | None:
        """Return when a task begins and ends, and where: who would end it first; the first one named on a tie."""
        best: tuple[int, int, int, int] | None = None
        for worker in self._candidates(task):
            one = self.workers[worker]
            sent = sum(size for _, size in self._moves(task, worker))
            takes = one.move_ns(sent + self.tasks[task].gives_bytes) + one.run_ns(self.tasks[task])
            cost = takes + _MOVED_AGAIN * one.move_ns(sent)
            if best is not None and (now_ns + cost, now_ns, worker) > (best[0], best[1], best[3]):
                continue  # not better even if it could begin now
            begins = self._room_at(task, takes, worker, now_ns, taken[worker])
            if begins is None:
                continue
            if best is None or (begins + cost, begins, worker) < (best[0], best[1], best[3]):
                best = (begins + cost, begins, begins + takes, worker)
        return None if best is None else best[1:]

    def _room_at(self, task: int, takes: int, worker: int, now_ns: int, taken: Sequence[_Taken]) -> int | None:
        """Return from when on a worker has a slot and the memory for a task, as far as can be foreseen."""
        one, need = self.workers[worker], self.tasks[task].memory_bytes
        if one.slots < 1:
            return None
        if len(taken) < one.slots and one.memory_bytes is None:
            return now_ns
        for begins in sorted({now_ns, *(other.ends_ns for other in taken)}):
            beside = [other for other in taken if other.begins_ns < begins + takes and other.ends_ns > begins]
            memory = sum(other.memory_bytes for other in beside)
            has_memory = one.memory_bytes is None or not beside or memory + need <= one.memory_bytes
            if len(beside) < one.slots and has_memory:
                return begins
        return None

    def _moves(self, task: int, worker: int) -> tuple[tuple[str, int], ...]:
        if self.workers[worker].rate is None:
            return ()
        held = self._holds[worker]
        return tuple((name, size) for name, size in self.tasks[task].reads if name not in held)


def _ends(began_ns: int, expected_ns: int, now_ns: int) -> int:
    """Return when a task that runs will end: one that is overdue takes half as long again as it did until now."""
    return expected_ns if expected_ns > now_ns else now_ns + 1 + (now_ns - began_ns) // 2
