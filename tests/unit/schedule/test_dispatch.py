# SPDX-License-Identifier: Apache-2.0
"""Steps of real runs placed on executors: who runs them, how many at once, and what becomes of those that are lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from derive.build.context import Context, Ran, StepExecutor, Task
from derive.build.execute import Executor, store_knowledge
from derive.build.placing import Placing
from derive.build.plan import Plan, make_plan
from derive.build.prices import Forecast
from derive.canonical import Digest
from derive.deploy.ssh_config import SshSettings
from derive.derivations.model import Derivation, FlatOutput, Output, ResolvedDerivation
from derive.errors import BuildFailed, Interrupted, Unavailable
from derive.sandbox.outcome import Runner
from derive.schedule import dispatch
from derive.schedule.config import Guard
from derive.schedule.dispatch import Dispatch, Lane
from derive.schedule.graph import tasks_of
from derive.schedule.idle_watch import Watch
from derive.schedule.model import HERE, NETWORK, Kind, Worker
from derive.store.history import placed_steps
from derive.store.local import LocalStore
from support.archives import put
from support.idle_hosts import Listed, listing_engine
from support.steps import step

NET = Lane(worker=Worker(name=NETWORK, kinds=frozenset({Kind.FETCH}), slots=8))
BOTH = frozenset({Kind.ENGINE, Kind.SANDBOX})


def here(slots: int = 1, kinds: frozenset[Kind] = BOTH) -> Lane:
    return Lane(worker=Worker(name=HERE, kinds=kinds, slots=slots))


@dataclass
class Far:
    """Somebody who runs steps: a step of this store is run by its builder, which asks where it is."""

    name: str

    def run(self, task: Task, context: Context) -> AbstractContextManager[Ran]:
        raise AssertionError


def far(name: str, *, slots: int = 1, speed: int = 1000, **more: object) -> Lane:
    worker = Worker(name=name, kinds=frozenset({Kind.SANDBOX}), slots=slots, speed=speed, rate=10**12)
    return Lane(worker=worker, open=lambda: Far(name), **more)  # type: ignore[arg-type]


class NoFetch:
    """Nothing here is fetched."""

    def __call__(self, request: ResolvedDerivation, store: LocalStore) -> Digest:
        raise AssertionError

    def upstream(self, request: ResolvedDerivation, store: LocalStore, places: Sequence[str]) -> Mapping[str, Output]:
        raise AssertionError

    def stop(self) -> None:
        """Stop nothing."""


def no_sandbox() -> Runner:
    raise AssertionError


@dataclass
class Bench:
    """A store, and runs in it: each step notes where it ran, after what a test wants done."""

    store: LocalStore
    ran: list[tuple[str, str]] = field(default_factory=list)
    jobs: dict[str, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    actions: dict[str, Callable[[str, Context], None]] = field(default_factory=dict)
    executor: Executor | None = None

    def run(self, target: Derivation, *lanes: Lane) -> Mapping[str, Output]:
        def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
            where = context.executor.name if isinstance(context.executor, Far) else HERE
            assert request.builder in ("script", "compose")
            self.ran.append((context.name, where))
            self.jobs[context.name] = context.jobs
            action = self.actions.get(context.name)
            if action is not None:
                action(where, context)
            return {"out": FlatOutput(put(context.store, context.name.encode()))}

        def placer(plan: Plan, forecast: Forecast) -> Placing:
            return Dispatch(tasks_of(plan, forecast, lambda _: 1), (NET, *lanes), self.told.append)

        self.executor = Executor(
            store=self.store,
            builders={"script": build, "compose": build},
            fetch=NoFetch(),
            sandbox=no_sandbox,
            jobs=1,
            inner_jobs=7,
            placer=placer,
        )
        return self.executor.run(make_plan(target, store_knowledge(self.store)))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with LocalStore(tmp_path / "store") as store:
        yield Bench(store)


ROOT = step("root", "compose")


def script(name: str, *needs: Derivation) -> Derivation:
    roles = {"root": ROOT, **{f"in.{place}": one for place, one in enumerate(needs)}}
    return replace(step(name, "script", roles), build="linux/amd64")


def gave_up(context: Context) -> None:
    """Wait as a script does until it is told to end."""
    assert context.cancel.wait(20)
    raise Interrupted(f"{context.name} was given up")


def test_programs_run_elsewhere_and_what_the_engine_does_runs_here(bench: Bench) -> None:
    top = step("top", "compose", {"a": script("low")})
    bench.run(top, here(kinds=frozenset({Kind.ENGINE})), far("one"))
    assert bench.ran == [("root", HERE), ("low", "one"), ("top", HERE)]
    assert {(name, where) for name, _, _, where, _ in placed_steps(bench.store.database)} == {("low", "one")}


def test_as_many_steps_run_at_once_as_all_executors_have_slots(bench: Bench) -> None:
    meet = threading.Barrier(4, timeout=20)
    names = ["a", "b", "c", "d"]

    def wait(_: str, __: Context) -> None:
        meet.wait()

    bench.actions = dict.fromkeys(names, wait)
    bench.run(script("top", *map(script, names)), here(), far("one", slots=2), far("two"))
    assert sorted(where for name, where in bench.ran if name in names) == [HERE, "one", "one", "two"]


def test_no_executor_ever_runs_more_than_its_slots(bench: Bench) -> None:
    guard, now, most = threading.Lock(), 0, 0

    def count(_: str, __: Context) -> None:
        nonlocal now, most
        with guard:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.02)
        with guard:
            now -= 1

    names = [f"s{number}" for number in range(8)]
    bench.actions = dict.fromkeys(names, count)
    bench.run(script("top", *map(script, names)), here(kinds=frozenset({Kind.ENGINE})), far("one", slots=3))
    assert most == 3


def test_a_step_is_told_how_many_things_it_may_do_at_once_where_it_runs(bench: Bench) -> None:
    bench.run(script("a"), here(kinds=frozenset({Kind.ENGINE})), far("one", jobs=16))
    assert (bench.jobs["root"], bench.jobs["a"]) == (7, 16)


def test_a_step_that_a_worker_lost_runs_elsewhere_and_that_is_said(bench: Bench) -> None:
    def lose(where: str, _: Context) -> None:
        if where == "one":
            raise Unavailable("builder one does not answer")

    bench.actions["a"] = lose
    bench.run(script("a"), here(kinds=frozenset({Kind.ENGINE})), far("one", speed=4000), far("two"))
    assert [one for one in bench.ran if one[0] == "a"] == [("a", "one"), ("a", "two")]
    assert bench.told == ["one lost a: it runs again (builder one does not answer)"]


def test_what_a_worker_said_last_is_why_it_lost_a_step(bench: Bench) -> None:
    def lose(where: str, _: Context) -> None:
        if where == "one":
            detail = ("tried     1 times: one", "last      builder one gave it up: no space left on device")
            raise Unavailable("no builder brought a to an end", detail=detail)

    bench.actions["a"] = lose
    bench.run(script("a"), here(), far("one", speed=4000))
    assert bench.told == ["one lost a: it runs again (builder one gave it up: no space left on device)"]


def test_where_nobody_is_left_who_lost_steps_says_why(bench: Bench) -> None:
    def lose(_: str, __: Context) -> None:
        raise Unavailable("no builder brought it to an end", detail=("last      its daemon is gone",))

    bench.actions = {"a": lose, "b": lose}
    with pytest.raises(Unavailable) as caught:
        bench.run(script("top", script("a"), script("b")), here(kinds=frozenset({Kind.ENGINE})), far("one"))
    assert caught.value.detail == ("one  it lost 2 steps (its daemon is gone)",)


def test_an_executor_that_loses_one_step_after_another_is_left_out(bench: Bench) -> None:
    def lose(where: str, _: Context) -> None:
        if where == "one":
            raise Unavailable("gone")

    names = ["a", "b", "c", "d", "e"]
    bench.actions = dict.fromkeys(names, lose)
    bench.run(script("top", *map(script, names)), here(), far("one", speed=90_000))
    assert sum(where == "one" for _, where in bench.ran) == 2
    assert bench.told[-1] == "one is left out from now on: it lost 2 steps (gone)"


def test_where_nobody_is_left_the_run_ends_with_the_reasons(bench: Bench) -> None:
    def lose(_: str, __: Context) -> None:
        raise Unavailable("gone")

    bench.actions["a"] = lose
    with pytest.raises(Unavailable, match=r"nobody can run a now|gone") as caught:
        bench.run(script("a"), here(kinds=frozenset({Kind.ENGINE})), far("one"), far("two"))
    assert isinstance(caught.value, Unavailable)
    assert len([one for one in bench.ran if one[0] == "a"]) <= 3


def test_an_executor_that_cannot_be_had_is_left_out_once_and_for_all(bench: Bench) -> None:
    asked = []

    def absent() -> StepExecutor:
        asked.append(1)
        raise Unavailable("no node of the builder answers", detail=("node      one0 at ssh://one", "said      refused"))

    lane = replace(far("one", slots=2, speed=90_000), open=absent)
    bench.run(script("top", script("a"), script("b")), here(), lane)
    assert {where for _, where in bench.ran} == {HERE}
    assert len(asked) == 1
    assert bench.told == ["one is left out from now on: no node of the builder answers; said refused"]


def test_a_step_that_fails_by_itself_is_not_tried_elsewhere(bench: Bench) -> None:
    def fail(_: str, __: Context) -> None:
        raise BuildFailed("the script of a failed")

    bench.actions["a"] = fail
    with pytest.raises(BuildFailed, match="the script of a failed"):
        bench.run(script("a"), here(), far("one", speed=4000), far("two"))
    assert len([one for one in bench.ran if one[0] == "a"]) == 1


def test_a_failure_stops_what_runs_elsewhere(bench: Bench) -> None:
    begun = threading.Event()

    def fail(_: str, __: Context) -> None:
        assert begun.wait(20)
        raise BuildFailed("no")

    def hang(_: str, context: Context) -> None:
        begun.set()
        gave_up(context)

    bench.actions = {"a": fail, "b": hang}
    with pytest.raises(BuildFailed, match="no"):
        bench.run(script("top", script("a"), script("b")), here(), far("one"))


def test_ctrl_c_stops_what_runs_elsewhere(bench: Bench) -> None:
    def hang(_: str, context: Context) -> None:
        assert bench.executor is not None
        bench.executor.cancel()
        gave_up(context)

    bench.actions["a"] = hang
    with pytest.raises(Interrupted):
        bench.run(script("a"), here(), far("one", speed=4000))


@pytest.fixture
def listed(tmp_path: Path) -> Iterator[Listed]:
    with listing_engine(tmp_path / "engine.sock") as found:
        yield found


def guarded(lane: Lane, listed: Listed, tmp_path: Path) -> Lane:
    guard = Guard(
        idle=("dsv41-*",),
        memory_needed=1,
        memory_floor=1,
        memory_a_job=1 << 20,
        cores_kept=0,
        lock=str(tmp_path / "lock"),
    )
    settings = SshSettings(files=(), engine_socket=listed.socket)
    return replace(lane, watch=lambda: Watch(lane.worker.name, guard, settings, every_s=0.05))


def test_a_host_that_is_idle_builds_with_the_jobs_that_it_has_room_for(
    bench: Bench, listed: Listed, tmp_path: Path
) -> None:
    bench.run(script("a"), here(kinds=frozenset({Kind.ENGINE})), guarded(far("spark"), listed, tmp_path))
    assert ("a", "spark") in bench.ran
    assert 1 <= bench.jobs["a"] <= 10


def test_a_host_that_serves_builds_nothing_and_others_do(bench: Bench, listed: Listed, tmp_path: Path) -> None:
    listed.running["dsv41-tp4"] = []
    top = script("top", script("a"), script("b"))
    bench.run(top, here(), guarded(far("spark", speed=9000), listed, tmp_path))
    assert {where for _, where in bench.ran} == {HERE}


def test_where_only_a_host_that_serves_could_build_the_run_ends_and_says_why(
    bench: Bench, listed: Listed, tmp_path: Path
) -> None:
    listed.running["dsv41-tp4"] = []
    with pytest.raises(Unavailable, match="nobody can run a now") as caught:
        bench.run(script("a"), here(kinds=frozenset({Kind.ENGINE})), guarded(far("spark"), listed, tmp_path))
    assert caught.value.detail == ("spark  it serves: dsv41-tp4 runs",)


def test_a_server_that_starts_stops_the_build_beside_it_which_runs_elsewhere(
    bench: Bench, listed: Listed, tmp_path: Path
) -> None:
    served = threading.Event()

    def serve(where: str, context: Context) -> None:
        if where == "spark":
            served.set()
            listed.running["dsv41-tp4"] = []
            gave_up(context)

    bench.actions["a"] = serve
    lanes = here(kinds=frozenset({Kind.ENGINE})), guarded(far("spark", speed=9000), listed, tmp_path), far("slow")

    def wait(where: str, _: Context) -> None:
        assert where == "spark" or served.wait(20)

    bench.actions["b"] = wait
    bench.run(script("top", script("b"), script("a")), *lanes)
    assert [place for name, place in bench.ran if name == "a"] == ["spark", "slow"]
    assert bench.told == ["spark does not build now: it serves: dsv41-tp4 runs"]


def test_one_step_goes_to_an_idle_host_that_would_end_it_first(bench: Bench, listed: Listed, tmp_path: Path) -> None:
    bench.run(script("a"), here(slots=2), guarded(far("spark", speed=9000), listed, tmp_path))
    assert ("a", "spark") in bench.ran


class Mute(Watch):
    """A host that does not answer."""

    def begin(self) -> None:
        """Ask nobody."""


def mute(lane: Lane) -> Lane:
    return replace(lane, watch=lambda: Mute(lane.worker.name, Guard()))


def test_a_host_that_does_not_answer_is_waited_for_a_while_and_no_longer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_FIRST_ANSWER_S", 0.4)
    began = time.monotonic()
    bench.run(script("a"), here(), mute(far("spark", speed=9000)))
    assert ("a", HERE) in bench.ran
    assert time.monotonic() - began >= 0.4


def test_a_host_that_would_not_end_a_step_first_is_not_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_FIRST_ANSWER_S", 60.0)
    bench.run(script("a"), here(), mute(far("spark", speed=100)))
    assert ("a", HERE) in bench.ran


def test_what_ran_on_a_builder_that_was_named_is_not_taken_for_this_machines_time(bench: Bench) -> None:
    def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
        if request.builder == "script":
            context.ran_by({"executor": "buildkit", "builder": "big"})
        return {"out": FlatOutput(put(context.store, context.name.encode()))}

    executor = Executor(
        store=bench.store,
        builders={"script": build, "compose": build},
        fetch=NoFetch(),
        sandbox=no_sandbox,
        jobs=1,
        inner_jobs=1,
        executor=Far("big"),
    )
    executor.run(make_plan(script("a"), store_knowledge(bench.store)))
    assert [(name, where) for name, _, _, where, _ in placed_steps(bench.store.database)] == [("a", "buildkit=big")]
