# SPDX-License-Identifier: Apache-2.0
"""From plans to tasks and from settings to workers: what can go elsewhere, what it reads, and what it should take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from derive.build.plan import Action, Plan, Step
from derive.build.prices import Forecast, Past, forecast
from derive.canonical import Json, sha256
from derive.derivations.model import Derivation, Output, TreeOutput
from derive.schedule.config import GIB, ExecutorEntry
from derive.schedule.graph import (
    OVERHEAD_NS,
    STEP_MEMORY,
    UNKNOWN_NS,
    USUAL_RATE,
    can_go_elsewhere,
    jobs_of_each,
    slots_of,
    tasks_of,
    with_jobs,
    workers_of,
)
from derive.schedule.model import Kind
from derive.schedule.simulate import simulate
from support.steps import fetch_deb, step

NOTHING = Past(samples={}, rates={}, predecessors={})


def script(name: str, inputs: Mapping[str, Derivation] | None = None) -> Derivation:
    return replace(step(name, "script", inputs), build="linux/amd64")


def priced(plan: Plan, seconds: Mapping[str, int | None]) -> Forecast:
    found = forecast(plan, NOTHING, 1)
    prices = tuple(
        replace(
            one,
            expected_ns=None if (s := seconds.get(one.step.derivation.name)) is None else s * 10**9,
            written_bytes=1000,
        )
        for one in found.prices
    )
    return replace(found, prices=prices)


def plan_of(*steps: Step) -> Plan:
    return Plan(target=steps[-1].derivation, steps=steps)


def test_only_programs_over_a_root_go_elsewhere() -> None:
    root = step("root", "compose")
    assert can_go_elsewhere(script("a", {"root": root}))
    assert not can_go_elsewhere(step("a", "script", {"root": root}))
    assert not can_go_elsewhere(script("a"))
    assert not can_go_elsewhere(replace(step("a", "bytecode", {"root": root}), build="linux/amd64"))


def test_steps_become_tasks_that_wait_for_each_other_and_read_their_inputs() -> None:
    deb, root = fetch_deb("deb"), step("root", "compose")
    low = script("low", {"root": root, "source": deb})
    high = script("high", {"root": root, "in.low": low})
    lay = step("layer", "layer", {"tree": high})
    here: Output = TreeOutput(sha256(b"root"))
    plan = plan_of(
        Step(derivation=root, action=Action.REUSE, reason="", outputs={"out": here}),
        Step(derivation=deb, action=Action.FETCH, reason=""),
        Step(derivation=low, action=Action.BUILD, reason=""),
        Step(derivation=high, action=Action.BUILD, reason=""),
        Step(derivation=lay, action=Action.BUILD, reason=""),
    )
    asked: list[Output] = []

    def size_of(output: Output) -> int:
        asked.append(output)
        return 777

    tasks = tasks_of(plan, priced(plan, {"low": 8, "high": 2}), size_of)
    assert [(one.name, one.kind, one.needs) for one in tasks] == [
        ("deb_1_amd64.deb", Kind.FETCH, ()),
        ("low", Kind.SANDBOX, (0,)),
        ("high", Kind.SANDBOX, (1,)),
        ("layer", Kind.ENGINE, (2,)),
    ]
    assert asked == [here]
    root_name = f"{root.id.hex}/out"
    assert dict(tasks[1].reads) == {root_name: 777, f"{deb.id.hex}/out": 10}
    assert dict(tasks[2].reads) == {root_name: 777, f"{low.id.hex}/out": 1000}
    assert [one.duration_ns // 10**9 for one in tasks] == [5, 8, 2, 5]
    assert [(one.platform, one.gives_bytes, one.memory_bytes) for one in tasks[2:]] == [
        ("linux/amd64", 1000, STEP_MEMORY),
        ("any", 0, 0),
    ]


def test_where_no_step_was_ever_seen_all_are_taken_to_last_alike() -> None:
    root = step("root", "compose")
    plan = plan_of(Step(derivation=root, action=Action.BUILD, reason=""))
    assert tasks_of(plan, priced(plan, {}), lambda _: 0)[0].duration_ns == UNKNOWN_NS


def test_steps_whose_time_no_earlier_run_says_are_marked_in_the_schedule_and_it_as_a_whole() -> None:
    low = step("low", "compose")
    high = step("high", "compose", {"low": low})
    plan = plan_of(*(Step(derivation=one, action=Action.BUILD, reason="") for one in (low, high)))
    workers = workers_of([], jobs=1, here=True, speeds={})

    def marks(seconds: Mapping[str, int | None]) -> tuple[Json, list[Json]]:
        document = simulate(tasks_of(plan, priced(plan, seconds), lambda _: 0), workers).document()
        steps = document["steps"]
        assert isinstance(steps, list)
        return document["guessed"], [one["guessed"] for one in steps if isinstance(one, dict)]

    assert marks({}) == (True, [True, True])
    assert marks({"low": 3}) == (True, [False, True])
    assert marks({"low": 3, "high": 0}) == (False, [False, False])


def test_settings_become_workers_and_a_speed_that_was_measured_wins() -> None:
    laptop = ExecutorEntry(name="laptop", builder=None, platforms=("linux/amd64",), jobs=1, memory_bytes=8 * GIB)
    spark = ExecutorEntry(name="spark", builder="b", platforms=("linux/arm64",), speed=1500, rate=7, jobs=3)
    plain = ExecutorEntry(name="plain", builder="c", platforms=("linux/amd64",))
    network, here, one, other = workers_of([laptop, spark, plain], jobs=4, here=True, speeds={"spark": 2500})
    assert (network.kinds, network.slots) == (frozenset({Kind.FETCH}), 8)
    assert (here.name, here.slots, here.kinds, here.rate) == ("laptop", 1, frozenset({Kind.ENGINE, Kind.SANDBOX}), None)
    assert (one.name, one.slots, one.kinds, one.speed, one.rate) == ("spark", 3, frozenset({Kind.SANDBOX}), 2500, 7)
    assert (other.slots, other.speed, other.rate, other.overhead_ns) == (2, 1000, USUAL_RATE, OVERHEAD_NS)


def test_a_machine_that_runs_no_programs_still_does_what_only_the_engine_can() -> None:
    spark = ExecutorEntry(name="spark", builder="b", platforms=("linux/arm64",))
    _, here, _ = workers_of([spark], jobs=4, here=False, speeds={})
    assert (here.name, here.slots, here.kinds) == ("here", 4, frozenset({Kind.ENGINE}))


def speeds_of(*entries: ExecutorEntry, jobs: int = 8, measured: Mapping[str, int] | None = None) -> dict[str, int]:
    return {one.name: one.speed for one in workers_of(entries, jobs=jobs, here=False, speeds=measured or {})[2:]}


def test_of_two_executors_of_one_speed_the_one_of_more_cores_is_expected_to_end_first() -> None:
    one = ExecutorEntry(name="small", builder="a", platforms=("linux/arm64",), jobs=4, cores=4)
    found = speeds_of(one, replace(one, name="large", cores=32), replace(one, name="unsaid", cores=None))
    assert found == {"small": 222, "large": 1000, "unsaid": 1000}
    assert speeds_of(one, replace(one, name="large", cores=32), measured={"small": 1500}) == {
        "small": 1500,
        "large": 1000,
    }


def test_cores_are_held_against_what_a_step_may_do_at_once_here() -> None:
    mine = ExecutorEntry(name="mine", builder=None, platforms=(), jobs=2, cores=4)
    big = ExecutorEntry(name="big", builder="b", platforms=("linux/arm64",), jobs=2, cores=12)
    assert speeds_of(mine, big) == {"big": 1500}
    assert speeds_of(big) == {"big": 857}


def test_no_number_of_jobs_makes_a_step_more_than_twice_as_quick() -> None:
    assert [with_jobs(1000, jobs, 2) for jobs in (1, 2, 6, 510)] == [666, 1000, 1500, 1992]


def test_no_more_steps_run_at_once_than_there_are_cores() -> None:
    entry = ExecutorEntry(name="one", builder="b", platforms=("linux/arm64",), jobs=8, cores=3)
    assert (slots_of(entry), jobs_of_each(3, slots_of(entry))) == (3, 1)
    assert (slots_of(replace(entry, cores=None)), jobs_of_each(None, 8)) == (8, None)
