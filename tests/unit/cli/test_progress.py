# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import sys

import pytest

from derive.build.plan import Action, Plan, Step
from derive.canonical import Json, sha256
from derive.cli.progress import Bars, Lines, progress_for_stderr
from derive.derivations.model import Derivation


def step(name: str, builder: str = "script") -> Derivation:
    arguments: dict[str, Json] = {"name": name, "sha256": sha256(name.encode()).hex, "size": 1000}
    return Derivation(name=name, builder=builder, version=1, build="any", host="any", arguments=arguments)


def plan(*derivations: Derivation) -> Plan:
    steps = tuple(
        Step(derivation=one, action=Action.BUILD if one.fixed is None else Action.FETCH, reason="")
        for one in derivations
    )
    return Plan(target=derivations[-1], steps=steps)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_bars_and_everything_else_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(progress_for_stderr(), Bars)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(progress_for_stderr(), Lines)


def test_lines_say_what_is_ahead_and_each_step_that_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    fetch, one, two = step("f.deb", "fetch-deb"), step("one"), step("two")
    lines = Lines()
    lines.begin(plan(fetch, one, two), None)
    lines.finished(fetch, "fetched", 10)
    lines.finished(one, "built", 1_260_000_000)
    lines.finished(two, "failed", 0)
    lines.end()
    assert capsys.readouterr().err.splitlines() == [
        "two: 1 to fetch, 2 to build",
        "fetched 1/1",
        "built 1/2  one  1.3 s",
        "failed 2/2  two  0.0 s",
    ]


def test_a_step_that_runs_elsewhere_says_where(capsys: pytest.CaptureFixture[str]) -> None:
    one, two, three, four = step("one"), step("two"), step("three"), step("four")
    lines = Lines()
    lines.begin(plan(one, two, three, four), None)
    for derivation, where, outcome in (
        (one, "big", "built"),
        (two, None, "built"),
        (three, "big", "failed"),
        (four, "big", "reused"),
    ):
        lines.started(derivation, where)
        lines.finished(derivation, outcome, 0)
    assert capsys.readouterr().err.splitlines()[1:] == [
        "built 1/4  one on big  0.0 s",
        "built 2/4  two  0.0 s",
        "failed 3/4  three on big  0.0 s",
        "reused 4/4  four  0.0 s",
    ]


def test_a_step_that_was_lost_elsewhere_and_then_ran_here_counts_once(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = step("one"), step("two")
    lines = Lines()
    lines.begin(plan(one, two), None)
    lines.started(one, "big")
    lines.finished(one, "stopped", 0)
    lines.started(one)
    lines.finished(one, "built", 0)
    assert capsys.readouterr().err.splitlines()[1:] == ["stopped  one on big  0.0 s", "built 1/2  one  0.0 s"]


def test_bars_name_where_a_step_runs_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    one = step("one")
    bars = Bars()
    bars.begin(plan(one, step("two")), None)
    bars.started(one, "big")
    assert bars._progress is not None
    bars._progress.refresh()
    bars.finished(one, "failed", 1)
    bars.end()
    shown = terminal.getvalue()
    assert "0/2" in shown
    assert "failed  one on big" in shown


def test_many_fetches_are_a_line_for_each_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    fetches = [step(f"{index}.deb", "fetch-deb") for index in range(200)]
    lines = Lines()
    lines.begin(plan(*fetches), None)
    for one in fetches:
        lines.finished(one, "fetched", 1)
    said = capsys.readouterr().err.splitlines()
    assert said[1:] == [f"fetched {count}/200" for count in range(20, 201, 20)]


def test_unpacking_is_silent_unless_it_is_slow_or_fails(capsys: pytest.CaptureFixture[str]) -> None:
    quick, slow, bad, last = (step(name, "unpack") for name in ("quick", "slow", "bad", "last"))
    lines = Lines()
    lines.begin(plan(quick, slow, bad, step("end")), None)
    lines.finished(quick, "built", 1)
    lines.finished(slow, "built", 3_000_000_000)
    lines.finished(bad, "failed", 1)
    lines.finished(last, "built", 1)
    assert [line.split()[2] for line in capsys.readouterr().err.splitlines()[1:]] == ["slow", "bad", "last"]


def test_a_fetch_that_fails_is_named_and_one_that_was_stopped_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = step("a.deb", "fetch-deb"), step("b.deb", "fetch-deb")
    lines = Lines()
    lines.begin(plan(one, two), None)
    lines.finished(one, "failed", 1)
    lines.finished(two, "stopped", 1)
    assert capsys.readouterr().err.splitlines()[1:] == ["failed  a.deb  0.0 s"]


def test_a_check_says_same_or_differs(capsys: pytest.CaptureFixture[str]) -> None:
    for progress in (Lines(), Bars()):
        progress.checked(step("one"), 0)
        progress.checked(step("two"), 2)
        progress.checked(step("quiet", "unpack"), 0)
        progress.checked(step("loud", "unpack"), 1)
        assert capsys.readouterr().err.splitlines() == ["same  one", "differs  two", "differs  loud"]


def test_bars_end_with_nothing_left_on_the_terminal_but_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    fetch, one, two = step("f.deb", "fetch-deb"), step("one"), step("two")
    bars = Bars()
    bars.begin(plan(fetch, one, two), None)
    for derivation, outcome in ((fetch, "fetched"), (one, "built"), (two, "failed")):
        bars.started(derivation)
        bars.finished(derivation, outcome, 1)
    bars.end()
    shown = terminal.getvalue()
    assert "failed  two" in shown
    assert "2/2" in shown


def test_bars_that_never_began_end_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    bars = Bars()
    bars.finished(step("one"), "built", 1)
    bars.end()
    assert capsys.readouterr().err == ""
