# SPDX-License-Identifier: Apache-2.0
"""Builders that a person names, whose hosts have a guard: asked first, watched meanwhile, refused where not idle."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from derive.build.execute import store_knowledge
from derive.build.plan import Plan, make_plan
from derive.build.service import Options, executor, preflight
from derive.buildkit import builders
from derive.buildkit.inspected import Builder
from derive.certificates.worker import ask_worker
from derive.cli.exporting import assembled
from derive.derivations.model import Platform
from derive.errors import HostRefuses, InputErrors, Interrupted, Unavailable
from derive.schedule import guards
from derive.schedule.choose import choose
from derive.schedule.guards import ask, guards_of, require_idle, watched
from derive.schedule.idle import Verdict
from derive.store.local import LocalStore
from support.idle_hosts import Listed, listing_engine, wait_for
from support.steps import step

TEXT = """
[executors.plain]
builder = "plain"
platforms = ["linux/amd64"]
[executors.spark2]
builder = "spark"
platforms = ["linux/amd64"]
[executors.spark2.guard]
idle = ["dsv41-*"]
memory-needed = "1MiB"
memory-floor = "1MiB"
memory-a-job = "1MiB"
cores-kept = 0
lock = "{folder}/lock"
"""


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listed]:
    (tmp_path / "derive").mkdir()
    (tmp_path / "derive" / "config.toml").write_text(TEXT.format(folder=tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("DERIVE_ENGINE_SOCKET", str(tmp_path / "engine.sock"))
    monkeypatch.setattr(guards, "_PAUSE_S", 0.01)
    with listing_engine(tmp_path / "engine.sock") as found:
        yield found


@pytest.fixture
def serving(listed: Listed) -> Listed:
    listed.running["dsv41-tp4"] = []
    return listed


def chosen(text: str, *, offline: bool = False) -> list[str] | None:
    found = choose((), os.environ, executor=text, offline=offline)
    assert found is None or not found.here
    return None if found is None else [entry.name for entry in found.entries]


ARM64_ALONE = 'builder = "plain"\nplatforms = ["linux/arm64"]'
SERVES = ("spark2  it serves: dsv41-tp4 runs",)


@pytest.mark.usefixtures("listed")
def test_a_builder_with_a_guard_is_placed_on_under_it_and_one_without_is_used_as_it_is() -> None:
    assert chosen("buildkit=spark") == ["spark2"]
    assert chosen("buildkit=plain,spark") == ["plain", "spark2"]
    assert chosen("buildkit=plain") is None
    assert chosen("buildkit=other") is None


@pytest.mark.usefixtures("listed")
def test_a_builder_without_an_executor_is_refused_beside_one_with_a_guard() -> None:
    with pytest.raises(InputErrors) as caught:
        chosen("buildkit=spark,other")
    (problem,) = caught.value.problems()
    assert problem.where == "--executor buildkit=spark,other"
    assert problem.message == "the builder other is no executor's, and cannot be used beside spark, which has a guard"


@pytest.mark.usefixtures("listed")
def test_the_current_builder_is_held_to_its_guard_too_and_a_plan_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def find_builder(name: str = "") -> Builder:
        asked.append(name)
        return Builder(name="spark", driver="remote", nodes=(), is_current=True)

    monkeypatch.setattr(builders, "find_builder", find_builder)
    assert chosen("buildkit", offline=True) is None
    assert asked == []
    assert chosen("buildkit") == ["spark2"]
    assert asked == [""]


class Answers:
    """Builders, of which some answer."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __call__(self, name: str, platform: str) -> None:
        assert platform in ("linux/amd64", "linux/arm64")
        if name not in self.names:
            raise Unavailable(f"no node of the builder {name} answers")


def planned(store: LocalStore, build: Platform = "linux/amd64") -> Plan:
    target = replace(step("a", "script", {"root": step("root", "compose")}), build=build)
    return make_plan(target, store_knowledge(store))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as found:
        yield found


@pytest.mark.usefixtures("serving")
@pytest.mark.parametrize("named", [{"executor": "buildkit=spark"}, {"on": ("spark2",)}])
def test_a_host_that_a_plan_cannot_do_without_is_asked_before_anything_begins(
    named: Mapping[str, Any], store: LocalStore
) -> None:
    options = Options(jobs=1, **named)
    with pytest.raises(HostRefuses) as caught:
        preflight(planned(store), store, options)
    made = executor(store, options)
    assert caught.value.detail == SERVES
    assert made.executor is None
    assert made.placer is not None


@pytest.mark.usefixtures("serving")
@pytest.mark.parametrize("on", [(), ("spark2", "here"), ("spark2", "plain")])
def test_a_host_is_not_asked_beforehand_where_somebody_else_could_do_the_same(
    on: tuple[str, ...], store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: object) -> Verdict:
        raise AssertionError

    monkeypatch.setattr(guards, "ask", ask)
    monkeypatch.setattr(builders, "usable_builder", Answers("plain"))
    preflight(planned(store), store, Options(jobs=1, on=on))


@pytest.mark.usefixtures("serving")
def test_a_builder_that_a_plan_cannot_do_without_is_asked_before_anything_begins(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builders, "usable_builder", Answers())
    for on in (("plain",), ("plain", "spark2")):
        with pytest.raises(Unavailable, match="nobody can run steps of linux/amd64 now") as caught:
            preflight(planned(store), store, Options(jobs=1, on=on))
        assert caught.value.detail == ("plain  no node of the builder plain answers", *SERVES[: len(on) - 1])


@pytest.mark.usefixtures("serving")
def test_what_another_runs_of_one_platform_is_no_help_for_another(
    tmp_path: Path, store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builders, "usable_builder", Answers("plain"))
    config = tmp_path / "derive" / "config.toml"
    config.write_text(config.read_text().replace('builder = "plain"\nplatforms = ["linux/amd64"]', ARM64_ALONE))
    with pytest.raises(HostRefuses) as caught:
        preflight(planned(store), store, Options(jobs=1, on=("spark2", "plain")))
    assert caught.value.detail == SERVES
    preflight(planned(store, "linux/arm64"), store, Options(jobs=1, on=("spark2", "plain")))


def test_this_machine_with_a_guard_is_asked_for_what_only_it_can_do(
    tmp_path: Path, listed: Listed, store: LocalStore
) -> None:
    config = tmp_path / "derive" / "config.toml"
    text = config.read_text()
    config.write_text(text[text.index("[executors.spark2]") :].replace('builder = "spark"\n', ""))
    plan = make_plan(step("root", "compose"), store_knowledge(store))
    preflight(plan, store, Options(jobs=1))
    listed.running["dsv41-tp4"] = []
    with pytest.raises(HostRefuses) as caught:
        preflight(plan, store, Options(jobs=1))
    assert caught.value.detail == SERVES


def test_a_lock_that_is_free_a_moment_later_hinders_nothing(
    tmp_path: Path, listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where this machine's own watch is only just ending."""
    assert listed.socket
    ((name, guard),) = guards_of(("spark",), os.environ)
    held = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    threading.Timer(0.2, os.close, (held,)).start()
    monkeypatch.setattr(guards, "_PAUSE_S", 0.3)
    assert ask(name, guard).may


@pytest.mark.usefixtures("serving")
def test_an_image_is_assembled_by_no_builder_whose_host_is_not_idle() -> None:
    with pytest.raises(HostRefuses) as caught:
        assembled("buildkit=spark", *cast("tuple[Any, Any, Any, Any, Any]", (None,) * 5))
    assert caught.value.detail == SERVES


@pytest.mark.usefixtures("listed")
def test_a_host_that_is_idle_is_no_hindrance() -> None:
    require_idle(("spark",), os.environ)


@pytest.mark.usefixtures("serving")
def test_a_worker_is_asked_what_it_is_under_its_guard() -> None:
    nothing: Any = None
    with pytest.raises(HostRefuses) as caught:
        ask_worker(nothing, "spark", nothing, "linux/amd64", nothing, steps=1)
    assert caught.value.detail == SERVES


def test_what_runs_under_a_guard_is_stopped_by_a_server_that_starts(listed: Listed) -> None:
    def work() -> None:
        with watched(("spark",), os.environ) as stop:
            listed.running["dsv41-tp4"] = []
            wait_for(stop.is_set)
            raise Interrupted("stopped")

    with pytest.raises(HostRefuses) as caught:
        work()
    assert caught.value.detail == SERVES


@pytest.mark.usefixtures("listed")
def test_a_person_who_stops_it_is_no_refusal() -> None:
    with pytest.raises(Interrupted), watched(("spark",), os.environ):
        raise Interrupted("stopped")
