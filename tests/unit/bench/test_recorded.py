# SPDX-License-Identifier: Apache-2.0
"""The graph that scale is measured with: the same each time, its steps waiting only for earlier ones."""

from __future__ import annotations

from derive.schedule.model import Kind, Worker, order_of
from derive.schedule.simulate import simulate
from speed.recorded import RECORDED, graph


def test_the_same_number_gives_the_same_graph_and_a_larger_one_begins_with_it() -> None:
    assert graph(40) == graph(40) == graph(60)[:40]


def test_steps_wait_for_earlier_ones_and_take_what_was_recorded() -> None:
    tasks = graph(200)
    assert all(need < place for place, task in enumerate(tasks) for need in task.needs)
    assert len(order_of(tasks)) == 200
    assert {task.duration_ns // 1_000_000 for task in tasks} <= {milliseconds for _, milliseconds, _ in RECORDED}


def test_more_workers_are_never_slower_on_it() -> None:
    tasks = graph(60)

    def makespan(count: int) -> int:
        kinds = frozenset({Kind.SANDBOX})
        return simulate(tasks, [Worker(name=f"w{n}", kinds=kinds, slots=1) for n in range(count)]).makespan_ns

    assert makespan(1) > makespan(2) > makespan(4)
