# SPDX-License-Identifier: Apache-2.0
"""What `derive executors` and `derive plan` say of executors that are configured."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from derive.build.plan import Action, Plan, Step
from derive.build.prices import Past, Sample, forecast
from derive.cli.executors import _text, run
from derive.cli.plan import _tell_not_asked
from derive.cli.plan import _text as plan_text
from derive.deploy.node_errors import NodeError
from derive.errors import InputErrors
from derive.schedule.choose import Chosen, timetable
from derive.schedule.config import ExecutorEntry, Guard
from derive.schedule.idle import Verdict, reason_of
from derive.schedule.seen import Seen
from derive.store.local import LocalStore
from support.steps import step

GUARDED = """
[executors.mine]
jobs = 2
speed = 1.5
[executors.mine.guard]
memory-needed = "8000TiB"
lock = "{folder}/lock"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("DERIVE_ENGINE_SOCKET", str(tmp_path / "no-engine"))
    (tmp_path / "derive").mkdir()
    return tmp_path / "derive" / "config.toml"


def args(tmp_path: Path, *names: str, json: bool = False) -> argparse.Namespace:
    return argparse.Namespace(names=list(names), store=str(tmp_path / "store"), json=json)


def test_without_any_it_says_where_to_write_one(
    config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(args(tmp_path)) == 0
    out, err = capfd.readouterr()
    assert (out, err) == ("", f"no executor is configured: write [executors.NAME] in {config}\n")


def test_a_name_that_no_executor_has_is_told_as_the_argument_that_it_is(config: Path, tmp_path: Path) -> None:
    config.write_text(GUARDED.format(folder=tmp_path))
    with pytest.raises(InputErrors) as caught:
        run(args(tmp_path, "nope"))
    assert [(one.where, one.message) for one in caught.value.problems()] == [("NAME", "no executor 'nope'")]


def test_this_machine_is_asked_for_as_here_too(config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config.write_text(GUARDED.format(folder=tmp_path))
    assert run(args(tmp_path, "here")) == 1
    assert capfd.readouterr().out.splitlines()[1].startswith("mine")
    config.write_text("")
    assert run(args(tmp_path, "here")) == 0
    told = f"this machine has no table of its own, and needs none: write [executors.NAME] in {config}\n"
    assert capfd.readouterr().err == told


@pytest.mark.parametrize(("jobs", "told"), [(1, "idle, 1 job"), (3, "idle, 3 jobs")])
def test_jobs_are_counted_as_one_or_several(jobs: int, told: str) -> None:
    mine = ExecutorEntry(name="mine", builder=None, platforms=(), guard=Guard())
    assert _text((Seen(entry=mine, speed=None, verdict=Verdict(jobs=jobs)),)).endswith(told)


def test_a_host_that_cannot_be_asked_is_told_in_a_line_without_columns() -> None:
    error = NodeError("cannot be reached", node="spark2", effect="idle-facts", detail=["host      builder@spark2"])
    assert reason_of(error).endswith("; host builder@spark2")


def test_a_host_that_may_not_build_is_told_with_the_reason_and_one(
    config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config.write_text(GUARDED.format(folder=tmp_path))
    assert run(args(tmp_path)) == 1
    head, row = capfd.readouterr().out.splitlines()
    assert head.split() == ["name", "builder", "platforms", "jobs", "speed", "buildkit", "now"]
    assert row.split()[:7] == ["mine", "this", "machine", "its", "own", "2", "1.50"]
    assert "GiB available, and a build begins with 8192000.0 GiB" in row


def test_the_record_holds_all_that_the_table_says(
    config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config.write_text(GUARDED.format(folder=tmp_path))
    assert run(args(tmp_path, "mine", json=True)) == 1
    record = json.loads(capfd.readouterr().out)
    (one,) = record["body"]["executors"]
    assert (record["kind"], one["name"], one["ready"], one["guard"]["jobs"]) == ("executors", "mine", False, 0)
    assert one["available_bytes"] > 0


def test_a_plan_says_where_each_step_runs_and_when_it_ends(tmp_path: Path) -> None:
    root = step("root", "compose")
    low = replace(step("low", "script", {"root": root}), build="linux/arm64")
    top = step("top", "compose", {"low": low})
    plan = Plan(
        target=top,
        steps=tuple(Step(derivation=one, action=Action.BUILD, reason="why") for one in (root, low, top)),
    )
    samples: dict[tuple[str, str], list[Sample]] = {
        (one.name, one.host): [Sample(derivation=one.id, duration_ns=4 * 10**9, weight_bytes=0, written_bytes=1 << 20)]
        for one in (root, low, top)
    }
    found = forecast(plan, Past(samples=samples, rates={}, predecessors={}), 1)
    spark = ExecutorEntry(name="spark", builder="b", platforms=("linux/arm64",), rate=1 << 20, speed=2000)
    with LocalStore(tmp_path / "store") as store:
        times = timetable(plan, found, Chosen(entries=(spark,), here=False), store, 1)
    lines = plan_text(plan, found, 10**12, times, everything=True).splitlines()
    assert lines[0].split() == ["takes", "where", "ends"]
    # One second each way, half a second to begin, and two in place of four.
    assert [line.split()[2:8] for line in lines[1:4]] == [
        ["4.00", "s", "here", "4.00", "s", "root"],
        ["4.00", "s", "spark", "8.50", "s", "low"],
        ["4.00", "s", "here", "12.5", "s", "top"],
    ]
    assert "expected 12.5 s on here, spark; to move 2.1 MB" in lines
    without = plan_text(plan, found, 10**12, None, everything=True).splitlines()
    assert without[0].split() == ["build", "compose", "4.00", "s", "root", "why"]


def test_a_plan_names_whom_it_did_not_ask() -> None:
    spark = ExecutorEntry(name="spark", builder="b", platforms=("linux/arm64",), guard=Guard())
    mine = ExecutorEntry(name="mine", builder=None, platforms=())
    assert Chosen(entries=(mine, spark), here=True).not_asked == {"builders": ("b",), "guarded": ("spark",)}


def test_a_person_is_told_whom_a_plan_did_not_ask(capfd: pytest.CaptureFixture[str]) -> None:
    spark = ExecutorEntry(name="spark", builder="b", platforms=("linux/arm64",), guard=Guard())
    _tell_not_asked(Chosen(entries=(spark,), here=True))
    _tell_not_asked(Chosen(entries=(), here=True))
    told = "planned as if all were there and idle; not asked: builders b; guarded spark (derive executors asks)\n"
    assert capfd.readouterr().err == told
