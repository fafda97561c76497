# SPDX-License-Identifier: Apache-2.0
"""What going back says of what runs again; FAKE are the nodes, on which everything succeeds unless it is to fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import pytest

from derive.deploy import steps, undo
from derive.deploy.former import Former, Standing
from derive.deploy.model import Step, Stood
from derive.errors import DeriveError, Unavailable


@dataclass
class FakeNode:
    name: str


@dataclass
class FakeWork:
    """A deploy whose nodes do what they are told."""

    former: Former
    said: list[str] = field(default_factory=list)
    service: str = "probe"
    with_systemd: frozenset[str] = frozenset()

    @property
    def reach(self) -> Any:
        async def each(function: Callable[[Any], Awaitable[Any]]) -> dict[str, Any]:
            return {name: await function(FakeNode(name)) for name in ("spark1", "spark2")}

        return type("Reach", (), {"each": staticmethod(each)})

    async def tried(
        self, _step: str, function: Callable[[Any], Awaitable[str]], only: Collection[str] | None = None
    ) -> dict[str, str | DeriveError]:
        answers: dict[str, str | DeriveError] = {}
        for name in sorted(only or ("spark1", "spark2")):
            try:
                answers[name] = await function(FakeNode(name))
            except DeriveError as error:
                answers[name] = error
        return answers

    def say(self, step: str, text: str) -> None:
        self.said.append(f"{step}: {text}")


def _stood(node: str, *, running: bool = True) -> Standing:
    return Standing(node=node, kind=Stood.CONTAINER, name="ds41f", container="ab", running=running)


def gone_back(monkeypatch: pytest.MonkeyPatch, *others: Standing, refuses: str = "") -> tuple[undo.Back, list[str]]:
    """Go back to what no deploy started."""

    async def nothing(*_: object) -> str:
        return ""

    async def put_back(_work: object, node: FakeNode, _one: Standing) -> str:
        if node.name == refuses:
            raise Unavailable("no answer", where=node.name)
        return "runs again"

    monkeypatch.setattr(steps, "take_down", nothing)
    monkeypatch.setattr(undo, "put_back", put_back)
    for name in ("_leave_stopped", "_write_failure", "_left_with"):
        monkeypatch.setattr(undo, name, nothing)
    work: Any = FakeWork(Former(served=None, was_running=False, others=others))
    return asyncio.run(undo.go_back(work, Step.READY)), work.said


def test_what_is_put_back_and_runs_is_named_with_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    back, said = gone_back(monkeypatch, _stood("spark1"), _stood("spark2"))
    assert back.others == (("spark1", "ds41f"), ("spark2", "ds41f"))
    assert said == ["undo: begins: back to ds41f on spark1, spark2", "undo: done: ds41f on spark1, spark2"]


def test_what_did_not_run_before_is_put_back_and_runs_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    back, said = gone_back(monkeypatch, _stood("spark1", running=False))
    assert back.others == ()
    assert said[-1] == "undo: done: nothing running"


def test_what_could_not_be_put_back_is_not_among_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    back, said = gone_back(monkeypatch, _stood("spark1"), _stood("spark2"), refuses="spark2")
    assert (back.others, back.is_whole) == ((("spark1", "ds41f"),), False)
    assert said[-1] == "undo: failed"
