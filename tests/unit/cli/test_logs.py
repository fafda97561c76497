# SPDX-License-Identifier: Apache-2.0
"""How ``derive logs`` ends, and which service it means; the nodes and their engines are FAKE."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from derive.cli import logs
from derive.deploy import look
from derive.deploy.model import Container
from derive.deploy.node_errors import ConnectionLost, NodeUnreachable
from derive.errors import DeriveError, InputErrors, Missing
from support.deploying import container_of, target

SITE = target().bundle.site
RUNS = container_of(target().bundle.launches[0])
ENDED = replace(RUNS, state="exited", exit_code=7, finished="2026-11-30T18:00:00Z")
AGAIN = replace(RUNS, started="2026-11-30T18:00:00Z")


@dataclass(slots=True)
class FakeNode:
    """A node whose container is each of these in turn; an error stands for one that cannot be asked."""

    answers: list[Container | DeriveError | None]
    breaks: bool = False
    name: str = "spark1"
    connection_number: int = 1

    async def connect(self) -> None:
        pass

    async def open_engine(self) -> Any:
        return self

    async def ask(self, _function: object, *_: object, **__: object) -> list[Container]:
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, DeriveError):
            raise found
        return [] if found is None else [found]


@dataclass(slots=True)
class FakeNodes:
    """What a lookout shows: one node, and the services that are known."""

    one: FakeNode
    known: tuple[str, ...]
    troubles: dict[str, DeriveError] = field(default_factory=dict)

    def node(self, _name: str) -> FakeNode:
        return self.one

    async def services(self) -> tuple[str, ...]:
        return self.known


def follow(
    monkeypatch: pytest.MonkeyPatch,
    node: FakeNode,
    *,
    service: str = "probe",
    here: tuple[str, ...] = ("probe",),
    there: tuple[str, ...] = ("probe",),
) -> int:
    """Follow the log of a container that writes one line."""

    @asynccontextmanager
    async def lookout(*_: object, only: Collection[str] | None = None) -> AsyncIterator[FakeNodes]:
        yield FakeNodes(node, there if only is None else here)

    async def following(*_: object, **__: object) -> AsyncIterator[bytes]:
        yield b"a line\n"
        if node.breaks:
            node.connection_number = 0
            raise DeriveError("the container engine refused, or did not answer")

    monkeypatch.setattr(look, "lookout", lookout)
    monkeypatch.setattr(look, "following", following)
    monkeypatch.setattr(logs, "site_of", lambda _: SITE)
    monkeypatch.setattr(logs, "_PAUSE_S", 0)
    given = {"node": "spark1", "service": service, "site": "lab.toml", "tail": None, "timestamps": False}
    return logs.run(argparse.Namespace(**given, follow=True, former=False, json=False))


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (ENDED, "the container ended: "),
        (None, "the container was removed"),
        (replace(RUNS, id="cd" * 32), "another has its name now"),
        (AGAIN, "the container ended, and was started again"),
    ],
)
def test_the_end_of_a_container_is_told(
    now: Container | None, said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # The engine takes it for running a moment longer.
    assert follow(monkeypatch, FakeNode([RUNS, RUNS, now])) == 0
    out, err = capfd.readouterr()
    assert out == "a line\n"
    assert said in err
    assert ("exit code 7" in err) is (now is ENDED)


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (FakeNode([RUNS, RUNS]), "it runs on"),
        (FakeNode([RUNS, NodeUnreachable("no route to host", node="spark1")]), "whether it goes on is not known"),
        (FakeNode([RUNS], breaks=True), "whether it goes on is not known"),
    ],
    ids=["runs-on", "unreachable", "broken-off"],
)
def test_a_connection_that_was_lost_is_no_end_of_the_container(
    node: FakeNode, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConnectionLost) as caught:
        follow(monkeypatch, node)
    (one,) = caught.value.problems()
    assert (caught.value.exit_code, said in one.message) == (3, True)
    assert one.hint == "follow it again: derive logs spark1 --follow --site lab.toml"


def test_a_service_that_no_node_knows_is_refused_as_by_the_other_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputErrors) as caught:
        follow(monkeypatch, FakeNode([RUNS]), service="nosuch")
    assert caught.value.problems()[0].message == "no node knows a service 'nosuch'"


def test_a_service_of_other_nodes_has_no_container_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Missing) as caught:
        follow(monkeypatch, FakeNode([None]), here=())
    assert caught.value.problems()[0].message == "spark1 has no container of probe"
