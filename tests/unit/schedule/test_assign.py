# SPDX-License-Identifier: Apache-2.0
"""Who is given what: the longest way first, to whoever ends it earliest, with what has to be moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from derive.schedule.assign import Assigner, Start, bounds, least_moved, ranks
from derive.schedule.model import Bounds, Kind, Task, Worker, order_of

SANDBOX = frozenset({Kind.SANDBOX})


def task(name: str, takes: int, *needs: int, platform: str = "linux/amd64", memory: int = 0, **reads: int) -> Task:
    return Task(
        key=name,
        name=name,
        kind=Kind.SANDBOX,
        duration_ns=takes,
        needs=needs,
        platform=platform,
        reads=tuple(reads.items()),
        memory_bytes=memory,
    )


def here(slots: int = 1) -> Worker:
    return Worker(name="here", kinds=SANDBOX, slots=slots)


def far(
    name: str = "far", *, slots: int = 1, speed: int = 1000, rate: int = 10**9, memory: int | None = None
) -> Worker:
    return Worker(name=name, kinds=SANDBOX, slots=slots, speed=speed, rate=rate, memory_bytes=memory)


def begun(tasks: Sequence[Task], workers: Sequence[Worker], now: int = 0) -> dict[str, str]:
    found = Assigner(tasks, workers)
    for place, one in enumerate(tasks):
        if not one.needs:
            found.offer(place)
    return {tasks[one.task].name: workers[one.worker].name for one in found.start(now)}


def test_a_rank_is_the_longest_way_to_the_end() -> None:
    tasks = [task("a", 1), task("b", 5), task("c", 2, 0), task("d", 7, 2)]
    assert ranks(tasks, [here()]) == [10, 5, 9, 7]


def test_the_longest_way_begins_first() -> None:
    tasks = [task("short", 9), task("a", 1), task("b", 20, 1)]
    assert begun(tasks, [here()]) == {"a": "here"}


def test_of_two_alike_the_first_goes_to_the_first() -> None:
    assert begun([task("a", 5), task("b", 5)], [here(), far()]) == {"a": "here", "b": "far"}


def test_a_quicker_worker_is_taken_only_where_what_must_be_moved_is_worth_it() -> None:
    workers = [here(), far(speed=2000)]
    assert begun([task("a", 100, root=10)], workers) == {"a": "far"}
    assert begun([task("a", 100, root=60)], workers) == {"a": "here"}


def test_a_step_waits_for_a_quick_worker_that_is_busy_rather_than_take_a_slow_one() -> None:
    tasks = [task("a", 100), task("b", 100), task("c", 100)]
    # Twenty times as quick: all three end there before one would end here.
    assert begun(tasks, [here(), far(speed=20_000)]) == {"a": "far"}
    assert begun(tasks, [here(), far(speed=1500)]) == {"a": "far", "b": "here"}


def test_what_was_sent_once_lies_there() -> None:
    tasks = [task("a", 1, root=1000), task("b", 1, root=1000)]
    found = Assigner(tasks, [far()])
    found.offer(0)
    assert found.start(0) == [Start(task=0, worker=0, ends_ns=1001, moves=(("root", 1000),))]
    found.end(0, 0)
    found.offer(1)
    assert found.start(2000) == [Start(task=1, worker=0, ends_ns=2001, moves=())]


def test_platforms_are_kept_apart_and_what_nobody_runs_is_this_machines() -> None:
    workers = [here(2), Worker(name="arm", kinds=SANDBOX, slots=2, platforms=frozenset({"linux/arm64"}), rate=10**12)]
    workers[0] = Worker(name="here", kinds=SANDBOX, slots=3, platforms=frozenset({"linux/amd64"}))
    tasks = [task("x", 5), task("y", 5, platform="linux/arm64"), task("z", 5, platform="linux/riscv64")]
    assert begun(tasks, workers) == {"x": "here", "y": "arm", "z": "here"}


def test_memory_is_shared_by_what_runs_at_a_worker() -> None:
    tasks = [task("a", 9, memory=3), task("b", 8, memory=3), task("c", 7, memory=1)]
    assert begun(tasks, [far(slots=3, memory=4)]) == {"a": "far", "c": "far"}
    # What no worker has the memory for is this machine's, which says why it cannot.
    assert begun([task("a", 9, memory=5)], [here(), far(memory=4)]) == {"a": "here"}


def test_a_lost_step_goes_elsewhere_and_back_only_where_there_is_nobody_else() -> None:
    tasks = [task("a", 10)]
    found = Assigner(tasks, [far("one", speed=2000), far("two")])
    found.offer(0)
    assert [one.worker for one in found.start(0)] == [0]
    found.lose(0, 0)
    assert [one.worker for one in found.start(5)] == [1]
    found.lose(0, 1)
    assert [one.worker for one in found.start(9)] == [0]


def test_a_closed_worker_gets_nothing_and_all_of_them_closed_leaves_steps_stuck() -> None:
    found = Assigner([task("a", 10)], [far("one"), far("two")])
    found.offer(0)
    found.close(0)
    found.close(1)
    assert found.start(0) == []
    assert found.stuck() == (0,)
    found.open(1)
    assert found.stuck() == ()
    assert [one.worker for one in found.start(0)] == [1]


def test_a_worker_that_forgot_is_sent_everything_again() -> None:
    tasks = [task("a", 1, root=7), task("b", 1, root=7)]
    found = Assigner(tasks, [far()])
    found.offer(0)
    found.start(0)
    found.end(0, 0)
    found.close(0, forgets=True)
    found.open(0)
    found.offer(1)
    assert found.start(9)[0].moves == (("root", 7),)


def test_a_step_that_is_overdue_does_not_free_its_slot() -> None:
    found = Assigner([task("a", 10), task("b", 10)], [here()])
    found.offer(0)
    assert len(found.start(0)) == 1
    found.offer(1)
    assert found.start(1000) == []


def test_a_worker_that_is_given_fewer_slots_takes_fewer() -> None:
    found = Assigner([task("a", 1), task("b", 1), task("c", 1)], [far(slots=3)])
    for place in range(3):
        found.offer(place)
    found.resize(0, 2)
    assert len(found.start(0)) == 2


def test_a_step_nobody_foresaw_is_placed_too() -> None:
    found = Assigner([], [here()])
    found.offer(found.add(task("a", 3)))
    assert [(one.task, one.ends_ns) for one in found.start(4)] == [(0, 7)]


def test_bounds_are_the_longest_way_and_the_work_of_each_group_of_workers() -> None:
    tasks = [task("a", 40, platform="linux/arm64"), task("b", 40, platform="linux/arm64"), task("c", 10)]
    arm = Worker(name="arm", kinds=SANDBOX, slots=1, platforms=frozenset({"linux/arm64"}), rate=1)
    amd = Worker(name="amd", kinds=SANDBOX, slots=9, platforms=frozenset({"linux/amd64"}))
    assert bounds(tasks, [arm, amd]) == Bounds(critical_path_ns=40, work_ns=80)
    assert bounds([], [arm]).least_ns == 0


def test_the_least_that_can_be_moved_counts_each_thing_once() -> None:
    tasks = [task("a", 1, root=100, x=1), task("b", 1, root=100, y=2), task("c", 1, root=100, z=4)]
    assert least_moved(tasks, [0, 1]) == 103


def test_the_least_that_can_be_moved_leaves_a_result_where_it_was_made() -> None:
    first, second = task("a", 1, root=100), task("b", 1, root=100, a=7)
    tasks = [replace(first, gives_bytes=7), replace(second, gives_bytes=1)]
    assert least_moved(tasks, [0, 1]) == 108
    assert least_moved(tasks, [1]) == 108


def test_a_ring_is_refused() -> None:
    with pytest.raises(ValueError, match="in a ring"):
        order_of([task("a", 1, 1), task("b", 1, 0)])


def test_the_least_that_can_be_moved_knows_a_result_by_its_task_whatever_its_output_is_called() -> None:
    first, second = task("a", 1, root=100), task("b", 1)
    reads = (("root", 100), ("a/out", 7))
    assert least_moved([replace(first, gives_bytes=7), replace(second, reads=reads, gives_bytes=1)], [0, 1]) == 108


def test_a_task_waits_for_a_worker_that_is_held_and_would_end_it_first_and_for_no_other() -> None:
    found = Assigner([task("a", 100)], [here(), far(speed=9000)])
    found.hold(1)
    found.offer(0)
    assert found.start(0) == []
    assert found.stuck() == ()
    found.open(1)
    assert [one.worker for one in found.start(5)] == [1]
    slower = Assigner([task("a", 100)], [here(), far(speed=100)])
    slower.hold(1)
    slower.offer(0)
    assert [one.worker for one in slower.start(0)] == [0]


def test_a_worker_that_was_held_and_is_closed_is_waited_for_no_more() -> None:
    found = Assigner([task("a", 100)], [here(), far(speed=9000)])
    found.hold(1)
    found.offer(0)
    found.start(0)
    found.close(1)
    assert [one.worker for one in found.start(5)] == [0]
