# SPDX-License-Identifier: Apache-2.0
"""Schedules in counted time: transfers, a line that is shared, and workers that go away."""

from __future__ import annotations

import pytest

from derive.schedule.model import Kind, Task, Worker
from derive.schedule.simulate import (
    Outage,
    Stuck,
    World,
    pull_directly,
    pull_through_mirror,
    simulate,
)

S = 10**9
SANDBOX = frozenset({Kind.SANDBOX})


def task(name: str, seconds: int, *needs: int, gives: int = 0, **reads: int) -> Task:
    return Task(
        key=name,
        name=name,
        kind=Kind.SANDBOX,
        duration_ns=seconds * S,
        needs=needs,
        reads=tuple(reads.items()),
        gives_bytes=gives,
    )


def far(name: str, rate: int = 100) -> Worker:
    return Worker(name=name, kinds=SANDBOX, slots=1, rate=rate)


def test_a_step_elsewhere_takes_what_is_sent_then_itself_then_what_comes_back() -> None:
    table = simulate([task("a", 5, gives=100, root=300)], [far("w")])
    assert table.makespan_ns == (3 + 5 + 1) * S
    assert (table.sent, table.returned, table.moved_bytes) == ({"w": 300}, {"w": 100}, 400)


def test_a_line_that_all_share_is_divided_among_what_is_moved() -> None:
    tasks = [task("a", 0, x=100), task("b", 0, y=100)]
    assert simulate(tasks, [far("w"), far("x")], World(line=100)).makespan_ns == 2 * S
    assert simulate(tasks, [far("w"), far("x")], World(line=200)).makespan_ns == 1 * S


def test_steps_take_what_they_really_take() -> None:
    table = simulate([task("a", 5), task("b", 5, 0)], [far("w")], World(takes=lambda *_: 7 * S))
    assert table.makespan_ns == 14 * S


def test_what_a_worker_ran_when_it_went_away_runs_again_elsewhere() -> None:
    table = simulate([task("a", 5)], [far("w"), far("x")], World(outages=(Outage(worker=0, at_ns=2 * S),)))
    assert [(one.worker, one.ended_ns, one.lost) for one in table.ran] == [(0, 2 * S, True), (1, 7 * S, False)]


def test_a_worker_that_comes_back_has_forgotten_what_it_was_sent() -> None:
    tasks = [task("a", 1, root=100), task("b", 1, 0, root=100)]
    gone = Outage(worker=0, at_ns=2 * S + 1, back_ns=10 * S)
    table = simulate(tasks, [far("w")], World(outages=(gone,)))
    assert table.makespan_ns == 12 * S
    assert table.sent == {"w": 200}


def test_steps_that_nobody_can_run_any_more_are_named() -> None:
    with pytest.raises(Stuck) as caught:
        simulate([task("a", 5)], [far("w")], World(outages=(Outage(worker=0, at_ns=1),)))
    assert caught.value.tasks == (0,)


def test_utilisation_is_the_part_of_the_time_at_work() -> None:
    table = simulate([task("a", 4), task("b", 2)], [far("w"), far("x")])
    assert table.utilisation([0, 1]) == 0.75
    assert table.utilisation([1]) == 0.5


def test_a_mirror_takes_the_load_from_the_registry() -> None:
    direct = pull_directly(32, 3200, registry_rate=100, node_rate=100)
    assert (direct.last_ns, direct.registry_bytes, direct.registry_connections) == (1024 * S, 32 * 3200, 32)
    mirror = pull_through_mirror(32, 3200, registry_rate=100, node_rate=100, mirror_rate=1000)
    assert (mirror.last_ns, mirror.registry_bytes, mirror.registry_connections) == (
        (32 + 102) * S + 4 * S // 10,
        3200,
        1,
    )
