# SPDX-License-Identifier: Apache-2.0
"""A build is ended when it is given up, when its time is up, and when nobody answers; never for being silent alone."""

from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import dataclass, field

import pytest

from derive.buildkit import watch
from derive.buildkit.inspected import Builder, Node
from derive.buildkit.watch import Patience, Silent, Watch
from derive.errors import Unavailable
from derive.sandbox.outcome import Cancelled, TimedOut

NODE = Node(name="n", endpoint="e", is_running=True, version="v", platforms=("linux/amd64",))
BUILDER = Builder(name="far", driver="remote", nodes=(NODE,))
IMPATIENT = Patience(silence_s=0.05, answer_s=1.0, misses=2)


@dataclass
class Quiet:
    """A build that tells one thing, and then nothing until it is ended, or for so long."""

    lasts_s: float = 60.0
    ended: threading.Event = field(default_factory=threading.Event)

    def lines(self) -> Generator[str, None, None]:
        yield "begun"
        self.ended.wait(self.lasts_s)

    def end(self) -> None:
        self.ended.set()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the builders that were asked; each of them lives."""
    names: list[str] = []

    def find(name: str, *, within_s: float) -> Builder:
        assert within_s == IMPATIENT.answer_s
        names.append(name)
        return BUILDER

    monkeypatch.setattr(watch, "find_builder", find)
    return names


def test_a_builder_that_does_not_answer_ends_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str, *, within_s: float) -> Builder:
        raise Unavailable(f"{name} does not answer within {within_s:g} s")

    monkeypatch.setattr(watch, "find_builder", find)
    watched = Watch(build=Quiet(), builder=BUILDER, patience=IMPATIENT)
    assert list(watched.lines()) == ["begun"]
    assert watched.stopped == Silent("far")
    assert str(watched.stopped) == "builder far does not answer"


def test_a_builder_that_answers_may_be_silent(asked: list[str]) -> None:
    watched = Watch(build=Quiet(lasts_s=1.0), builder=BUILDER, patience=IMPATIENT)
    assert list(watched.lines()) == ["begun"]
    assert watched.stopped is None
    assert set(asked) == {"far"}


def test_a_build_that_is_given_up_ends(asked: list[str]) -> None:
    cancel = threading.Event()
    cancel.set()
    watched = Watch(build=Quiet(), builder=BUILDER, patience=Patience(), cancel=cancel)
    assert list(watched.lines()) == ["begun"]
    assert watched.stopped == Cancelled()
    assert asked == []


def test_time_counts_from_the_beginning_alone(asked: list[str]) -> None:
    waiting = Watch(build=Quiet(lasts_s=0.5), builder=BUILDER, patience=Patience(), timeout_s=0.1)
    assert list(waiting.lines()) == ["begun"]
    assert waiting.stopped is None
    running = Watch(build=Quiet(), builder=BUILDER, patience=Patience(), timeout_s=0.1)
    for _ in running.lines():
        running.begin()
    assert running.stopped == TimedOut(0.1)
    assert asked == []


def test_a_reader_that_leaves_ends_the_build() -> None:
    build = Quiet()
    told = Watch(build=build, builder=BUILDER, patience=Patience()).lines()
    next(told)
    told.close()
    assert build.ended.is_set()
