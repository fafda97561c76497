# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from derive.build import execute
from derive.build.builders import VERSIONS
from derive.build.context import Build, Context
from derive.build.execute import Executor, free_bytes, is_present, store_knowledge
from derive.build.plan import Plan, make_plan, resolved_of
from derive.cache.rows import Substitution, note_substituted
from derive.canonical import Digest, Json, sha256
from derive.derivations.model import (
    BuiltInput,
    Derivation,
    FixedInput,
    FlatOutput,
    Output,
    ResolvedDerivation,
    TreeOutput,
    closure,
)
from derive.errors import (
    BuildFailed,
    HostRefuses,
    InputErrors,
    Interrupted,
    Problem,
    SeveralFailed,
    Unavailable,
    UpstreamGone,
)
from derive.sandbox.outcome import Runner
from derive.store.local import LocalStore
from derive.trees.listing import EMPTY
from support.archives import put

Action = Callable[[ResolvedDerivation, Context], None]


def step(name: str, *inputs: Derivation, builder: str = "facts", **arguments: Json) -> Derivation:
    roles: dict[str, BuiltInput | FixedInput] = {
        str(index): FixedInput(one) if one.fixed is not None else BuiltInput(one) for index, one in enumerate(inputs)
    }
    return Derivation(
        name=name,
        builder=builder,
        version=VERSIONS[builder],
        build="any",
        host="any",
        arguments={"n": name, **arguments},
        inputs=roles,
    )


def fetch(name: str, place: str = "pool") -> Derivation:
    arguments: dict[str, Json] = {"sha256": sha256(name.encode()).hex, "size": 1, "place": place, "name": name}
    return Derivation(name=name, builder="fetch-deb", version=1, build="any", host="any", arguments=arguments)


@dataclass
class Seen:
    """A progress that remembers what it was told."""

    told: list[tuple[str, str]] = field(default_factory=list)

    def begin(self, plan: Plan, expected_ns: int | None) -> None:
        self.told.append(("begin", plan.target.name))

    def started(self, derivation: Derivation, where: str | None = None) -> None:
        assert where is None
        self.told.append(("started", derivation.name))

    def finished(self, derivation: Derivation, outcome: str, duration_ns: int) -> None:
        assert duration_ns >= 0
        self.told.append((outcome, derivation.name))

    def note(self, message: str) -> None:
        raise AssertionError

    def checked(self, derivation: Derivation, differences: int) -> None:
        raise AssertionError

    def end(self) -> None:
        self.told.append(("end", ""))

    def took(self, duration_ns: int, expected_ns: int | None) -> None:
        assert duration_ns >= 0


@dataclass
class Served:
    """A fetch that has what it is asked for, but for the names that are given an error."""

    errors: Mapping[str, Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    hang: threading.Event | None = None

    def __call__(self, request: ResolvedDerivation, store: LocalStore) -> Digest:
        name = str(request.arguments["name"])
        self.asked.append(name)
        if self.hang is not None:
            self.hang.wait(30)
        if name in self.errors:
            raise self.errors[name]
        return put(store, name.encode())

    def upstream(self, request: ResolvedDerivation, store: LocalStore, places: Sequence[str]) -> Mapping[str, Output]:
        raise AssertionError

    def stop(self) -> None:
        self.stopped.set()


def no_sandbox() -> Runner:
    """Nothing here runs a script."""
    raise AssertionError


class Bench:
    """A store, and an executor whose builders write their step's name, after what a test wants done."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self.seen = Seen()
        self.served = Served()
        self.actions: dict[str, Action] = {}
        self.ran: list[str] = []

    def run(self, target: Derivation, jobs: int = 2, *, whole: bool = False) -> Mapping[str, Output]:
        def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
            self.ran.append(context.name)
            action = self.actions.get(context.name)
            if action is not None:
                action(request, context)
            return {"out": FlatOutput(put(context.store, str(request.arguments["n"])[:4].encode()))}

        def fetched(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
            return {"out": FlatOutput(context.fetch(request, context.store))}

        builders: Mapping[str, Build] = {"facts": build, "script": build, "fetch-deb": fetched}
        self.executor = Executor(
            store=self.store,
            builders=builders,
            fetch=self.served,
            sandbox=no_sandbox,
            jobs=jobs,
            inner_jobs=7,
            progress=self.seen,
        )
        return self.executor.run(make_plan(target, store_knowledge(self.store), whole=whole))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with LocalStore(tmp_path / "store") as store:
        yield Bench(store)


def contents(bench: Bench, outputs: Mapping[str, Output]) -> bytes:
    return b"".join(bench.store.read_blob(outputs["out"].digest))


def test_steps_run_after_their_inputs_and_the_target_s_outputs_come_back(bench: Bench) -> None:
    source = fetch("src")
    one, two = step("one", source), step("two", source)
    assert contents(bench, bench.run(step("top", one, two))) == b"top"
    assert bench.ran[-1] == "top"
    assert sorted(bench.ran) == ["one", "top", "two"]
    assert bench.served.asked == ["src"]


def test_progress_is_told_of_everything_between_begin_and_end(bench: Bench) -> None:
    bench.run(step("top", fetch("src")))
    assert bench.seen.told == [
        ("begin", "top"),
        ("started", "src"),
        ("fetched", "src"),
        ("started", "top"),
        ("built", "top"),
        ("end", ""),
    ]


def test_nothing_to_do_does_nothing_and_says_nothing(bench: Bench) -> None:
    first = bench.run(step("top"))
    bench.ran.clear()
    bench.seen.told.clear()
    assert bench.run(step("top")) == first
    assert (bench.ran, bench.seen.told) == ([], [])


def test_a_step_whose_inputs_came_out_as_before_is_not_run_again(bench: Bench) -> None:
    # Four letters are the output: the new input differs in its id alone.
    first = bench.run(step("top", step("same, at first")))
    bench.ran.clear()
    assert bench.run(step("top", step("same, later"))) == first
    assert bench.ran == ["same, later"]
    assert ("reused", "top") in bench.seen.told


def test_an_output_that_is_gone_is_built_again(bench: Bench) -> None:
    target = step("top")
    outputs = bench.run(target)
    bench.store.blob_path(outputs["out"].digest).unlink()
    assert bench.run(target) == outputs
    assert bench.ran == ["top", "top"]
    assert is_present(bench.store, outputs["out"])


def test_a_builder_is_told_its_jobs_name_labels_and_timeout(bench: Bench) -> None:
    seen: list[Context] = []
    bench.actions["top"] = lambda _, context: seen.append(context)
    bench.run(
        Derivation(
            name="top", builder="script", version=1, build="any", host="any", arguments={"n": "top"},
            labels=("a", "b"), timeout_s=9,
        )
    )  # fmt: skip
    (context,) = seen
    assert (context.name, context.labels, context.jobs, context.timeout_s) == ("top", ("a", "b"), 7, 9)
    assert not Path(context.scratch).exists()


def test_no_more_steps_run_at_once_than_there_are_jobs(bench: Bench) -> None:
    guard, now, most = threading.Lock(), 0, 0

    def count(_: ResolvedDerivation, __: Context) -> None:
        nonlocal now, most
        with guard:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with guard:
            now -= 1

    steps = [step(f"{index}") for index in range(9)]
    bench.actions.update({one.name: count for one in steps})
    bench.run(step("top", *steps), jobs=3)
    assert most == 3


def test_a_failure_names_the_step_and_its_log_which_ends_with_it(bench: Bench) -> None:
    def fail(_: ResolvedDerivation, context: Context) -> None:
        context.log("on the way")
        context.log_bytes(b"raw \xff\n")
        raise BuildFailed("it broke", detail=("exit status  3",))

    bench.actions["bad"] = fail
    with pytest.raises(BuildFailed) as caught:
        bench.run(step("top", step("bad"), step("good")), jobs=1)
    error = caught.value
    assert (error.where, error.message) == ("bad", "it broke")
    assert error.log is not None
    assert Path(error.log).read_bytes() == b"on the way\nraw \xff\nfailed: it broke\n  exit status  3\n"
    assert ("failed", "bad") in bench.seen.told
    assert "top" not in bench.ran


def test_steps_that_fail_beside_each_other_are_all_told_by_name_each_with_its_log(bench: Bench) -> None:
    both = threading.Barrier(2)

    def fail(_: ResolvedDerivation, context: Context) -> None:
        both.wait(10)
        context.log(f"{context.name} speaks")
        raise BuildFailed("it broke")

    def refuse(_: ResolvedDerivation, __: Context) -> None:
        both.wait(10)
        time.sleep(0.05)  # the other one has failed by then
        raise InputErrors([Problem(where="x", message="wrong")])

    bench.actions.update({"one": fail, "another": refuse})
    with pytest.raises(SeveralFailed) as caught:
        bench.run(step("top", step("one"), step("another")))
    error = caught.value
    assert [(one.where, one.message) for one in error.problems()] == [("another: x", "wrong"), ("one", "it broke")]
    assert (error.message, error.exit_code) == ("2 steps failed", 3)
    logs = [Path(str(one.log)).read_text(encoding="utf-8") for one in error.errors]
    assert logs == ["failed: another: x: wrong\n", "one speaks\nfailed: it broke\n"]


def test_a_step_that_is_stopped_since_another_failed_is_no_failure_of_its_own(bench: Bench) -> None:
    started = threading.Event()

    def fail(_: ResolvedDerivation, __: Context) -> None:
        started.wait(10)
        raise BuildFailed("it broke")

    def wait(_: ResolvedDerivation, context: Context) -> None:
        started.set()
        context.cancel.wait(10)
        raise Interrupted("given up")

    bench.actions.update({"bad": fail, "slow": wait})
    with pytest.raises(BuildFailed, match="it broke"):
        bench.run(step("top", step("bad"), step("slow")))
    assert ("stopped", "slow") in bench.seen.told


def test_no_step_that_waits_for_its_turn_starts_after_a_failure(bench: Bench) -> None:
    def fail(_: ResolvedDerivation, __: Context) -> None:
        raise BuildFailed("it broke")

    steps = [step(f"{index}") for index in range(5)]
    bench.actions.update({one.name: fail for one in steps})
    with pytest.raises(BuildFailed, match="it broke"):
        bench.run(step("top", *steps), jobs=1)
    assert len(bench.ran) == 1


def test_what_was_finished_before_a_failure_is_kept(bench: Bench) -> None:
    def fail(_: ResolvedDerivation, __: Context) -> None:
        raise BuildFailed("it broke")

    bench.actions["bad"] = fail
    good = step("good")
    for _ in range(2):
        with pytest.raises(BuildFailed):
            bench.run(step("top", step("bad", good)), jobs=1)
    assert bench.ran == ["good", "bad", "bad"]


def test_problems_with_an_input_are_placed_in_the_step_once(bench: Bench) -> None:
    places = ("a: b", "bad: c", "", "bad:x")

    def refuse(_: ResolvedDerivation, __: Context) -> None:
        raise InputErrors([Problem(where=place, message="wrong") for place in places])

    bench.actions["bad"] = refuse
    with pytest.raises(InputErrors) as caught:
        bench.run(step("bad"))
    assert [p.where for p in caught.value.problems()] == ["bad", "bad: a: b", "bad: bad:x", "bad: c"]
    assert caught.value.log is not None


def test_every_fetch_that_fails_is_said_and_nothing_is_built_of_the_others(bench: Bench) -> None:
    started = threading.Event()
    errors = {"a": UpstreamGone("a is gone", hint="update a"), "b": Unavailable("b is late")}
    bench.served = Served(errors=errors)
    bench.actions["of c"] = lambda *_: started.set()
    with pytest.raises(UpstreamGone) as caught:
        bench.run(step("top", fetch("a"), fetch("b"), step("of c", fetch("c"))))
    assert caught.value.message == "2 of 3 artifacts could not be fetched"
    assert caught.value.detail == ("a is gone", "b is late")
    assert caught.value.log is None
    assert "top" not in bench.ran
    assert sorted(bench.served.asked) == ["a", "b", "c"]
    bench.served = Served()
    bench.run(step("top", fetch("a"), fetch("b"), step("of c", fetch("c"))))
    assert sorted(bench.served.asked) == ["a", "b"], "what came the first time is kept"


def test_a_host_that_refuses_stops_every_transfer(bench: Bench) -> None:
    bench.served = Served(errors={"a": HostRefuses("no space left")})
    with pytest.raises(HostRefuses, match="no space left"):
        bench.run(step("top", fetch("a"), fetch("b")))
    assert bench.served.stopped.is_set()


def test_a_full_disk_is_said_with_the_store_and_what_is_free(bench: Bench) -> None:
    def fill(_: ResolvedDerivation, __: Context) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    bench.actions["top"] = fill
    with pytest.raises(HostRefuses, match="no space left in the store") as caught:
        bench.run(step("top"))
    assert "everything finished is kept" in str(caught.value.hint)
    assert free_bytes(bench.store) > 0


def test_another_error_of_the_system_stays_itself(bench: Bench) -> None:
    def fail(_: ResolvedDerivation, __: Context) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/x")

    bench.actions["top"] = fail
    with pytest.raises(PermissionError):
        bench.run(step("top"))


def test_an_interrupt_sets_the_flag_that_running_steps_look_at(bench: Bench) -> None:
    ended: list[bool] = []

    def wait(_: ResolvedDerivation, context: Context) -> None:
        time.sleep(0.1)  # until the main thread waits
        os.kill(os.getpid(), signal.SIGINT)
        ended.append(context.cancel.wait(20))
        raise Interrupted("given up")

    bench.actions["slow"] = wait
    with pytest.raises(Interrupted, match="stopped"):
        bench.run(step("top", step("slow")))
    assert ended == [True]
    assert bench.served.stopped.is_set()
    assert ("stopped", "slow") in bench.seen.told
    assert "top" not in bench.ran


def test_a_transfer_that_does_not_end_is_left_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "_LAST_FETCHES_S", 0.01)

    def fail(_: ResolvedDerivation, __: Context) -> None:
        raise BuildFailed("it broke")

    bench.actions["bad"] = fail
    bench.served.hang = threading.Event()
    try:
        with pytest.raises(BuildFailed):
            bench.run(step("top", step("bad"), fetch("a")))
    finally:
        bench.served.hang.set()


def test_a_step_that_another_holds_is_given_up_when_the_run_is(bench: Bench) -> None:
    target = step("top", step("bad"))
    (held,) = (one.derivation for one in target.inputs.values())
    key = resolved_of(held, {}).id.hex
    with bench.store.locked(f"build-{key}"):
        threading.Thread(target=interrupt_when, args=(lambda: ("started", "bad") in bench.seen.told,)).start()
        with pytest.raises(Interrupted):
            bench.run(target)
    assert bench.ran == []


def interrupt_when(ready: Callable[[], bool]) -> None:
    while not ready():
        time.sleep(0.01)
    time.sleep(0.1)  # until the main thread waits
    os.kill(os.getpid(), signal.SIGINT)


def test_a_builder_of_another_version_is_refused_by_name(bench: Bench) -> None:
    old = Derivation(name="top", builder="compose", version=99, build="any", host="any", arguments={"n": "top"})
    with pytest.raises(BuildFailed, match="no builder compose/99"):
        bench.run(old)


def test_whether_an_output_is_present_is_asked_of_its_kind(bench: Bench) -> None:
    blob = put(bench.store, b"x")
    tree = bench.store.add_listing(EMPTY)
    assert is_present(bench.store, FlatOutput(blob))
    assert is_present(bench.store, TreeOutput(tree))
    assert not is_present(bench.store, TreeOutput(blob))
    assert not is_present(bench.store, FlatOutput(tree))


def test_a_realisation_says_how_it_came_to_be(bench: Bench) -> None:
    target = step("top")
    outputs = bench.run(target)
    (key,) = bench.store.database.resolved_ids([target.id]).values()
    row = bench.store.database.realisation(key)
    assert row is not None
    assert row.outputs == {"out": str(outputs["out"])}
    assert (row.builder, row.log) == ("facts/2", f"{target.id.hex}.log")
    assert len(row.engine) == 64


def test_what_no_such_step_gives_is_built_again_and_is_used_for_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = step("top", step("tool"))
    made = bench.run(target)
    bench.ran.clear()
    notes: list[str] = []
    monkeypatch.setattr(bench.seen, "note", notes.append)
    database = bench.store.database
    for name, outputs in (("tool", {}), ("top", {"out": f"nar:{sha256(b'x')}"})):
        ((_, _, resolved, _),) = database.find_derivations(name)
        row = database.realisation(resolved)
        assert row is not None
        one = next(one for one in closure(target) if one.name == name)
        database.replace_realisation(replace(row, outputs=outputs), one.id, one.name, one.encoded())
        substitution = Substitution(resolved=resolved, cache="team", signers={"bad": sha256(b"key")}, came_s=1)
        note_substituted(database, substitution)
    assert bench.run(target) == made
    assert bench.ran == ["tool", "top"]
    assert notes == [
        f"{name}: what had come from team by the word of bad was something else: replaced" for name in ("tool", "top")
    ]
    bench.ran.clear()
    assert bench.run(target) == made
    assert bench.ran == []
