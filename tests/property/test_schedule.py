# SPDX-License-Identifier: Apache-2.0
"""Schedules of any graph on any workers: complete, in order, within what is there, and near what nothing can beat."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.schedule.assign import bounds, least_moved
from derive.schedule.model import Kind, Ran, Task, Timetable, Worker
from derive.schedule.simulate import Outage, World, simulate

SANDBOX = frozenset({Kind.SANDBOX})
GIB = 1 << 30


@st.composite
def graphs(draw: st.DrawFn, most: int = 14) -> list[Task]:
    tasks: list[Task] = []
    for place in range(draw(st.integers(1, most))):
        needs = tuple(draw(st.lists(st.integers(0, place - 1), max_size=3, unique=True))) if place else ()
        reads = [(f"t{need}", tasks[need].gives_bytes) for need in needs]
        reads.append((f"root{draw(st.integers(0, 1))}", 400))
        tasks.append(
            Task(
                key=f"t{place}",
                name=f"t{place}",
                kind=Kind.SANDBOX,
                duration_ns=draw(st.integers(1, 60)),
                needs=needs,
                platform=draw(st.sampled_from(["linux/amd64", "linux/amd64", "linux/arm64"])),
                reads=tuple(reads),
                gives_bytes=draw(st.integers(0, 90)),
                memory_bytes=draw(st.sampled_from([0, GIB, 2 * GIB])),
            )
        )
    return tasks


@st.composite
def workers(draw: st.DrawFn) -> list[Worker]:
    found = [Worker(name="here", kinds=SANDBOX, slots=draw(st.integers(1, 2)))]
    found += [
        Worker(
            name=f"w{number}",
            kinds=SANDBOX,
            slots=draw(st.integers(1, 3)),
            platforms=frozenset(draw(st.sampled_from([["linux/amd64"], ["linux/arm64"], []]))),
            memory_bytes=draw(st.sampled_from([None, 2 * GIB, 3 * GIB])),
            rate=draw(st.sampled_from([10**9, 20 * 10**9])),
            speed=draw(st.sampled_from([500, 1000, 3000])),
            overhead_ns=draw(st.integers(0, 5)),
        )
        for number in range(draw(st.integers(0, 4)))
    ]
    return found


def alike(count: int) -> list[Worker]:
    return [Worker(name=f"w{number}", kinds=SANDBOX, slots=1) for number in range(count)]


def counted(table: Timetable) -> list[Ran]:
    return [one for one in table.ran if not one.lost]


def check_order(table: Timetable) -> None:
    """Check that each task ran once, and began only after all that it needs had ended."""
    ran = {one.task: one for one in counted(table)}
    assert sorted(one.task for one in counted(table)) == list(range(len(table.tasks)))
    for place, task in enumerate(table.tasks):
        assert all(ran[need].ended_ns <= ran[place].began_ns for need in task.needs)


def check_room(table: Timetable) -> None:
    """Check that no worker ever ran more than it has slots and memory for, nor anything of another platform."""
    for number, worker in enumerate(table.workers):
        there = [one for one in table.ran if one.worker == number]
        for one in there:
            beside = [o for o in there if o.began_ns <= one.began_ns < o.ended_ns or o is one]
            assert len(beside) <= worker.slots
            tasks = [table.tasks[o.task] for o in beside]
            if worker.memory_bytes is not None:
                assert sum(task.memory_bytes for task in tasks) <= worker.memory_bytes
            assert not worker.platforms or {task.platform for task in tasks} <= worker.platforms


@settings(max_examples=40)
@given(graphs(), workers())
def test_every_task_runs_once_after_what_it_needs_and_where_there_is_room(tasks: list[Task], ws: list[Worker]) -> None:
    table = simulate(tasks, ws)
    check_order(table)
    check_room(table)


@settings(max_examples=40)
@given(graphs(), workers())
def test_no_schedule_beats_the_bounds(tasks: list[Task], ws: list[Worker]) -> None:
    table = simulate(tasks, ws)
    assert table.makespan_ns >= bounds(tasks, ws).least_ns


@settings(max_examples=40)
@given(graphs(), st.integers(1, 5))
def test_on_workers_that_are_alike_a_schedule_is_within_grahams_bound(tasks: list[Task], count: int) -> None:
    table = simulate(tasks, alike(count))
    least = bounds(tasks, alike(count))
    work = sum(task.duration_ns for task in tasks)
    assert count * table.makespan_ns <= work + (count - 1) * least.critical_path_ns


@settings(max_examples=40)
@given(graphs(most=5), st.integers(1, 3))
def test_on_small_graphs_a_schedule_is_near_the_best_of_all(tasks: list[Task], count: int) -> None:
    best = optimum(tasks, count)
    made = simulate(tasks, alike(count)).makespan_ns
    assert best <= made
    assert count * made <= (2 * count - 1) * best


def optimum(tasks: Sequence[Task], count: int) -> int:
    """Try every order in which tasks could be begun on so many workers that are alike, and return the best makespan."""

    def best(ended: dict[int, int], free: tuple[int, ...]) -> int:
        if len(ended) == len(tasks):
            return max(ended.values())
        found = []
        for place, task in enumerate(tasks):
            if place in ended or any(need not in ended for need in task.needs):
                continue
            ready = max((ended[need] for need in task.needs), default=0)
            for worker in range(count):
                if worker and free[worker] == free[worker - 1]:
                    continue
                end = max(ready, free[worker]) + task.duration_ns
                found.append(best({**ended, place: end}, tuple(sorted((*free[:worker], end, *free[worker + 1 :])))))
        return min(found)

    return best({}, (0,) * count)


@settings(max_examples=40)
@given(graphs(), workers(), st.integers(1, 100))
def test_a_worker_that_goes_away_costs_time_and_nothing_else(tasks: list[Task], ws: list[Worker], at: int) -> None:
    outages = tuple(Outage(worker=number, at_ns=at) for number in range(1, len(ws)))
    table = simulate(tasks, ws, World(outages=outages))
    check_order(table)
    assert all(one.ended_ns <= at for one in table.ran if one.worker)


@settings(max_examples=40)
@given(graphs(), workers(), st.permutations(range(1, 5)))
def test_the_same_question_has_the_same_answer_whatever_order_sets_have(
    tasks: list[Task], ws: list[Worker], seed: list[int]
) -> None:
    takes = {task.key: seed[place % 4] * 7 for place, task in enumerate(tasks)}
    world = World(takes=lambda task, _: takes[task.key], line=15 * 10**9)
    assert simulate(tasks, ws, world) == simulate(list(tasks), list(ws), world)


@settings(max_examples=40)
@given(graphs(), workers())
def test_a_thing_is_sent_to_a_worker_once(tasks: list[Task], ws: list[Worker]) -> None:
    table = simulate(tasks, ws)
    for number, worker in enumerate(ws):
        ran = [tasks[one.task] for one in table.ran if one.worker == number]
        wanted = {name: size for task in ran for name, size in task.reads}
        assert table.sent.get(worker.name, 0) == (sum(wanted.values()) if worker.rate is not None else 0)
    elsewhere = [one.task for one in table.ran if ws[one.worker].rate is not None]
    assert table.moved_bytes >= least_moved(tasks, elsewhere)
