# SPDX-License-Identifier: Apache-2.0
"""A check whose second builds are placed on executors: those that were named, and no others."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from derive.build.check import check_closure, plan_again
from derive.build.context import Context, Ran, Task
from derive.build.execute import Executor, store_knowledge
from derive.build.images import _of_check
from derive.build.placing import Placing
from derive.build.plan import Action, Plan, make_plan
from derive.build.prices import Forecast
from derive.build.service import Options
from derive.canonical import Digest
from derive.derivations.model import Derivation, FlatOutput, Output, ResolvedDerivation
from derive.errors import BuildFailed, Unavailable
from derive.schedule.dispatch import Dispatch, Lane
from derive.schedule.graph import tasks_of
from derive.schedule.model import HERE, NETWORK, Kind, Worker
from derive.store.local import LocalStore
from support.archives import put
from support.steps import step

NET = Lane(worker=Worker(name=NETWORK, kinds=frozenset({Kind.FETCH}), slots=8))
OWN = Lane(worker=Worker(name=HERE, kinds=frozenset({Kind.ENGINE}), slots=2))
ROOT = step("root", "compose")
LOW = replace(step("low", "script", {"root": ROOT}), build="linux/amd64")
TOP = step("top", "compose", {"a": LOW})


@dataclass
class Far:
    """Somebody who runs steps: a step of this store is run by its builder, which asks where it is."""

    name: str

    def run(self, task: Task, context: Context) -> AbstractContextManager[Ran]:
        raise AssertionError


def far(name: str, jobs: int | None = None, speed: int = 1000) -> Lane:
    worker = Worker(name=name, kinds=frozenset({Kind.SANDBOX}), slots=1, rate=10**12, speed=speed)
    return Lane(worker=worker, open=lambda: Far(name), jobs=jobs)


class NoFetch:
    """Nothing here is fetched."""

    def __call__(self, request: ResolvedDerivation, store: LocalStore) -> Digest:
        raise AssertionError

    def upstream(self, request: ResolvedDerivation, store: LocalStore, places: Sequence[str]) -> Mapping[str, Output]:
        raise AssertionError

    def stop(self) -> None:
        """Stop nothing."""


@dataclass
class Bench:
    """A store in which all is built already, and checks of it: each step notes where it ran, with how many jobs."""

    store: LocalStore
    ran: list[tuple[str, str, int]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    fails: dict[tuple[str, str], Exception] = field(default_factory=dict)

    def executor(self, *lanes: Lane) -> Executor:
        def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
            assert request.builder in ("script", "compose")
            where = context.executor.name if isinstance(context.executor, Far) else HERE
            self.ran.append((context.name, where, context.jobs))
            if error := self.fails.get((context.name, where)):
                raise error
            return {"out": FlatOutput(put(context.store, context.name.encode()))}

        def placer(plan: Plan, forecast: Forecast) -> Placing:
            return Dispatch(tasks_of(plan, forecast, lambda _: 1), (NET, OWN, *lanes), self.told.append)

        return Executor(
            store=self.store,
            builders={"script": build, "compose": build},
            fetch=NoFetch(),
            sandbox=lambda: pytest.fail("no sandbox here"),
            jobs=2,
            inner_jobs=7,
            placer=placer if lanes else None,
        )

    def check(self, *lanes: Lane) -> int:
        self.ran.clear()
        count, differences = check_closure(TOP, self.executor(*lanes), lambda _, __: None)
        assert not differences
        return count


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with LocalStore(tmp_path / "store") as store:
        found = Bench(store)
        found.executor().run(make_plan(TOP, store_knowledge(store)))
        yield found


def test_second_builds_run_where_they_are_placed_and_the_engines_own_work_here(bench: Bench) -> None:
    assert bench.check(far("big")) == 3
    assert sorted(bench.ran) == [("low", "big", 7), ("root", HERE, 7), ("top", HERE, 7)]


def test_a_placed_step_is_told_another_number_of_jobs_than_the_first_time(bench: Bench) -> None:
    bench.check(far("big", jobs=16))
    assert ("low", "big", 1) in bench.ran


def test_without_executors_all_of_it_is_built_again_here(bench: Bench) -> None:
    assert bench.check() == 3
    assert {where for _, where, _ in bench.ran} == {HERE}


def test_a_step_that_a_worker_lost_is_checked_elsewhere(bench: Bench) -> None:
    bench.fails["low", "one"] = Unavailable("gone")
    assert bench.check(far("one", speed=9000), far("two")) == 3
    assert [where for name, where, _ in bench.ran if name == "low"] == ["one", "two"]
    assert bench.told == ["one lost low: it runs again (gone)"]


def test_a_step_that_fails_ends_the_check_with_its_error(bench: Bench) -> None:
    bench.fails["low", "big"] = BuildFailed("the script of low failed")
    before = threading.active_count()
    with pytest.raises(BuildFailed, match="the script of low failed"):
        bench.check(far("big"))
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("options", "on"),
    [
        (Options(jobs=1), ("here",)),
        (Options(jobs=1, on=("big",)), ("big",)),
        (Options(jobs=1, executor="buildkit=big"), ()),
    ],
)
def test_a_check_runs_here_unless_somebody_else_was_named(options: Options, on: tuple[str, ...]) -> None:
    assert (_of_check(options).on, _of_check(options).executor) == (on, options.executor)


def test_a_check_fetches_nothing_and_runs_all_but_what_is_excepted() -> None:
    fetch = Derivation(
        name="f",
        builder="fetch-deb",
        version=1,
        build="any",
        host="any",
        arguments={"sha256": "0" * 64, "size": 1, "name": "f"},
    )
    plan = plan_again(step("top", "compose", {"a": LOW, "b": fetch}), but=[ROOT.id])
    assert [(one.derivation.name, one.action) for one in plan.steps] == [
        ("root", Action.REUSE),
        ("low", Action.BUILD),
        ("top", Action.BUILD),
    ]
