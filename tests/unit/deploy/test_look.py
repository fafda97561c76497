# SPDX-License-Identifier: Apache-2.0
"""Looks at nodes time and again; the nodes are FAKE, as is what each answers: no SSH leads to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from derive.canonical import Digest
from derive.deploy import engines, look
from derive.deploy.effects import StateSeen
from derive.deploy.look import Lookout, ahead_of_here
from derive.deploy.node_errors import ConnectionLost, NodeUnreachable
from derive.deploy.remote import Ran
from derive.errors import Corrupt, DeriveError
from support.deploying import container_of, served, state, target

TARGET = target()
NAMES = tuple(launch.node for launch in TARGET.bundle.launches)
BEGAN_NS = 7


@dataclass(slots=True)
class FakeNode:
    """A node; ``broken`` is raised by whatever is asked, ``opens`` is how a lost connection comes back."""

    name: str
    rank: int
    is_connected: bool = True
    broken: Exception | None = None
    hangs: bool = False
    opens: Callable[[], Coroutine[Any, Any, None]] | None = None
    connects: int = 0
    link: Digest | None = field(default_factory=lambda: served().launch_bundle)
    odd: str | None = None
    damaged: str | None = None
    lease: Exception | None = None

    async def connect(self) -> None:
        self.connects += 1
        assert self.opens is not None
        await self.opens()
        self.is_connected = True

    async def ask(self, *_: object) -> Any:
        if self.broken is not None:
            raise self.broken
        if self.hangs:
            await asyncio.sleep(60)
        return [container_of(TARGET.bundle.launches[self.rank])]

    async def run(self, _argv: object, **_: object) -> Ran:
        return Ran(code=0, out=b"5000000000\n", err=b"")


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[FakeNode]:
    async def read_state(node: FakeNode, *_: object) -> StateSeen:
        known = state() if node.damaged is None else None
        return StateSeen(state=known, damaged=node.damaged, link=node.link, launches=(), odd=node.odd)

    async def read_lease(node: FakeNode, *_: object) -> Any:
        if node.lease is not None:
            raise node.lease

    async def guards(*_: object) -> Any:
        return ()

    monkeypatch.setattr(look, "read_state", read_state)
    monkeypatch.setattr(look, "read_lease", read_lease)
    monkeypatch.setattr(look, "guards_seen", guards)
    monkeypatch.setattr(look, "OPEN_S", 0.01)
    monkeypatch.setattr(look, "LOOK_S", 0.05)
    return [FakeNode(name, rank) for rank, name in enumerate(NAMES)]


def lookout_of(nodes: list[Any]) -> Lookout:
    return Lookout(site=TARGET.bundle.site, lines=tuple(look._Line(one) for one in nodes), began_ns=BEGAN_NS)


def run(nodes: list[Any], function: Callable[[Lookout], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(function(lookout_of(nodes)))


def test_a_node_that_cannot_be_asked_says_why_and_keeps_what_it_was_last_seen_with(nodes: list[FakeNode]) -> None:
    async def check(out: Lookout) -> None:
        (_, before, _) = await out.look("probe")
        nodes[1].broken = ConnectionLost("the connection was lost", node=NAMES[1])
        (first, now, _) = await out.look("probe")
        assert (first.trouble, now.trouble) == (None, "the connection was lost")
        assert (now.containers, now.answered_ns) == (before.containers, before.answered_ns)
        assert list(out.troubles) == [NAMES[1]]
        nodes[1].broken = None
        assert (await out.look("probe"))[1].trouble is None
        assert not out.troubles

    run(nodes, check)


def test_one_that_never_answered_counts_from_when_the_looking_began(nodes: list[FakeNode]) -> None:
    async def check(out: Lookout) -> None:
        nodes[2].broken = NodeUnreachable("no route", node=NAMES[2])
        found = (await out.look("probe"))[2]
        assert (found.answered_ns, found.containers) == (BEGAN_NS, ())

    run(nodes, check)


def test_a_node_that_hangs_is_given_up_and_holds_up_no_other(nodes: list[FakeNode]) -> None:
    async def check(out: Lookout) -> None:
        nodes[1].hangs = True
        found = await out.look("probe")
        assert [one.trouble is None for one in found] == [True, False, True]
        assert found[1].trouble == "no answer in 0 s"

    run(nodes, check)


def test_a_lost_connection_is_opened_once_in_the_background_and_used_when_it_is_there(nodes: list[FakeNode]) -> None:
    async def check(out: Lookout) -> None:
        there = asyncio.Event()

        async def opens() -> None:
            await there.wait()

        nodes[1].is_connected, nodes[1].opens = False, opens
        for _ in range(2):
            found = await out.look("probe")
            assert (found[0].trouble, found[1].trouble) == (None, "no connection")
        there.set()
        await asyncio.sleep(0)
        assert (await out.look("probe"))[1].trouble is None
        assert nodes[1].connects == 1

    run(nodes, check)


def test_a_connection_that_is_refused_says_why_and_is_tried_again_at_the_next_look(nodes: list[FakeNode]) -> None:
    async def check(out: Lookout) -> None:
        async def refused() -> None:
            raise NodeUnreachable("the host's key is not known", node=NAMES[1])

        nodes[1].is_connected, nodes[1].opens = False, refused
        for number in (1, 2):
            assert (await out.look("probe"))[1].trouble == "the host's key is not known"
            assert nodes[1].connects == number

    run(nodes, check)


def test_a_link_that_leads_elsewhere_than_the_state_says_is_damage(nodes: list[FakeNode]) -> None:
    async def check(out: Lookout) -> None:
        nodes[0].link = Digest("9" * 64)
        said = (await out.look("probe"))[0].damaged
        assert said is not None
        assert said.startswith("its link leads to the launch 999999999999, and its state says ")

    run(nodes, check)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"link": None}, "/probe/current is gone"),
        ({"link": None, "odd": "is a folder"}, "/probe/current is a folder"),
        ({"damaged": "cannot be read as JSON"}, "/probe/state.json cannot be read (cannot be read as JSON): the next"),
        ({"lease": Corrupt("/x/lease.json is no lease")}, "takes it over: /x/lease.json is no lease"),
    ],
    ids=["no link", "a folder", "state", "lease"],
)
def test_a_damaged_file_is_named_and_hides_nothing_of_what_runs(
    nodes: list[FakeNode], changes: dict[str, Any], said: str
) -> None:
    async def check(out: Lookout) -> None:
        for name, value in changes.items():
            setattr(nodes[0], name, value)
        found = (await out.look("probe"))[0]
        assert found.trouble is None
        assert said in (found.damaged or "")
        assert found.container("probe") is not None

    run(nodes, check)


def test_a_nodes_clock_is_compared_with_the_middle_of_its_answer(
    nodes: list[FakeNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([4_000_000_000, 4_200_000_000])
    monkeypatch.setattr(time, "time_ns", lambda: next(times))
    node: Any = nodes[0]
    assert asyncio.run(ahead_of_here(node)) == 900_000_000


def followed(parts: list[bytes | DeriveError], monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return what a container's log gives, whose engine yields or raises these."""

    def follow(*_: object, **__: object) -> Iterator[bytes]:
        for part in parts:
            if isinstance(part, DeriveError):
                raise part
            yield part

    async def main() -> None:
        client: Any = None
        async for part in look.following(client, "probe"):
            found.append(part)  # noqa: PERF401 - what came before an error counts

    found: list[bytes] = []
    monkeypatch.setattr(engines, "follow", follow)
    try:
        asyncio.run(main())
    except DeriveError as error:
        found.append(error.message.encode())
    return found


def test_a_log_is_followed_to_its_end_however_much_of_it_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[bytes | DeriveError] = [b"%d\n" % number for number in range(200)]
    assert followed(parts, monkeypatch) == parts


def test_a_log_that_breaks_off_says_why_after_what_came(monkeypatch: pytest.MonkeyPatch) -> None:
    assert followed([b"one\n", DeriveError("the connection was lost")], monkeypatch) == [
        b"one\n",
        b"the connection was lost",
    ]
