# SPDX-License-Identifier: Apache-2.0
"""What is done when a rank of a service that is watched dies; the nodes are FAKE, what is done to them is not."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import Digest
from derive.deploy.node_errors import Fenced, NodeSlow
from derive.deploy.recovery import LeaseSeen
from derive.deploy.status import NodeSeen
from derive.deploy.watching import Watch, watch
from derive.errors import CheckFailed, Interrupted
from support.watched_site import NAMES, TARGET, FakeSite, fake_site, watch_of

SECOND = NAMES[1]


@dataclass(slots=True)
class Watched:
    """A service that is watched until something that is waited for is said, or it ends by itself."""

    fake: FakeSite
    folder: Path
    said: list[str] = field(default_factory=list)

    def of(self, restarts: int = 2, **changes: Any) -> Watch:
        return watch_of(self.folder, self.said.append, restarts, **changes)

    def until(self, text: str, given: Watch | None = None) -> None:
        """Watch until that is said."""

        async def main() -> None:
            watching = asyncio.create_task(watch(given or self.of()))
            async with asyncio.timeout(10):
                while not watching.done() and not any(text in line for line in self.said):  # noqa: ASYNC110 - it may end
                    await asyncio.sleep(0.002)
            if watching.done():
                await watching
            watching.cancel()

        asyncio.run(main())

    @property
    def incidents(self) -> list[Any]:
        return [one.body for one in self.of().means.kept.incidents()]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Watched:
    return Watched(fake_site(monkeypatch), tmp_path)


def raises(error: Exception) -> Callable[[], Awaitable[None]]:
    async def do() -> None:
        raise error

    return do


def test_a_service_that_is_well_is_left_alone_and_that_is_said_once(watched: Watched) -> None:
    watched.fake.looks = [lambda: None] * 5
    watched.until("serves")
    assert watched.said == [f"probe: {TARGET.served.release} serves"]
    assert all(not one.said for one in watched.fake.nodes.values())


def test_one_ranks_death_stops_all_and_is_written_down_and_then_all_start_again(watched: Watched) -> None:
    watched.fake.nodes[SECOND].end(1)
    watched.until("serves again")
    assert watched.fake.running == list(NAMES)
    assert watched.fake.steps == {"serving"}
    assert all(one.said == ["stop", "engine stop", "start"] for one in watched.fake.nodes.values())
    death, restarted = watched.incidents
    assert (death["first"], death["decided"], death["deaths"][0]["exit_code"]) == (SECOND, "restart", 1)
    assert death["stopped"] == dict.fromkeys(NAMES)
    assert (restarted["event"], set(restarted["nodes"])) == ("restarted", set(NAMES))


def test_a_budget_that_is_spent_ends_it_with_all_ranks_stopped_and_remembered_to_be(watched: Watched) -> None:
    watched.fake.nodes[SECOND].end(139)
    with pytest.raises(CheckFailed, match="no restart was allowed") as caught:
        watched.until("nothing", watched.of(restarts=0))
    assert f"{SECOND}  first: ended by SIGSEGV, exit code 139" in caught.value.detail
    assert (watched.fake.running, watched.fake.steps) == ([], {"failed"})
    assert [one["decided"] for one in watched.incidents] == ["budget-spent"]


def test_a_restart_that_fails_counts_and_the_ranks_that_it_started_are_stopped(watched: Watched) -> None:
    watched.fake.nodes[SECOND].end(1)
    watched.fake.ready = [raises(CheckFailed("no progress")), raises(CheckFailed("no progress"))]
    with pytest.raises(CheckFailed, match="2 restarts are spent"):
        watched.until("nothing")
    assert (watched.fake.running, watched.fake.steps) == ([], {"failed"})
    assert [one["decided"] for one in watched.incidents] == ["restart", "restart", "budget-spent"]
    assert watched.incidents[1]["deaths"][0]["kind"] == "start"


@pytest.mark.parametrize("how", ["damaged", "no folder"])
def test_records_that_cannot_be_read_or_written_are_told_and_stop_no_restart(watched: Watched, how: str) -> None:
    kept = watched.of().means.kept
    if how == "damaged":
        kept.add_incident("probe", {"decided": "restart"}).write_bytes(b"{")
    else:
        kept.folder.write_text("a file where the folder should be")
    watched.fake.nodes[SECOND].end(1)
    watched.until("serves again")
    assert (watched.fake.running, watched.fake.steps) == (list(NAMES), {"serving"})
    assert any("not written down: " in line and str(kept.folder) in line for line in watched.said)
    assert any("earlier incidents cannot be read" in line for line in watched.said) is (how == "damaged")


def test_a_budget_holds_without_any_record(watched: Watched) -> None:
    watched.of().means.kept.folder.write_text("a file where the folder should be")
    watched.fake.nodes[SECOND].end(1)
    watched.fake.ready = [raises(CheckFailed("no progress"))] * 9
    with pytest.raises(CheckFailed, match="2 restarts are spent"):
        watched.until("nothing")
    assert (watched.fake.running, watched.fake.steps) == ([], {"failed"})


def test_restarts_of_an_earlier_supervisor_count(watched: Watched) -> None:
    watched.fake.nodes[SECOND].end(1)
    watched.until("serves again", watched.of(restarts=1))
    watched.said.clear()
    watched.fake.nodes[SECOND].end(1)
    with pytest.raises(CheckFailed, match="1 restart is spent"):
        watched.until("nothing", watched.of(restarts=1))


def test_a_lease_that_another_takes_meanwhile_ends_the_restart_and_nothing_more_is_done(watched: Watched) -> None:
    async def taken() -> None:
        assert watched.fake.held is not None
        watched.fake.held.lost = Fenced("another has it", node=SECOND)
        watched.fake.on_lost()
        await asyncio.sleep(10)

    watched.fake.nodes[SECOND].end(1)
    watched.fake.ready = [taken]
    watched.until("left as it is for now: another has it")
    assert all(one.said[-1] == "start" for one in watched.fake.nodes.values())
    assert watched.fake.steps == {"ready"}


def test_a_step_that_is_fenced_off_is_no_failed_start(watched: Watched) -> None:
    watched.fake.nodes[SECOND].end(1)
    watched.fake.ready = [raises(Fenced("another has it", node=SECOND))]
    watched.until("left as it is for now: another has it")
    assert [one["decided"] for one in watched.incidents] == ["restart"]


def test_a_lease_that_runs_out_in_a_restart_stops_what_was_started(watched: Watched) -> None:
    async def lost() -> None:
        assert watched.fake.held is not None
        watched.fake.held.lost = NodeSlow("no answer in time", node=SECOND)
        watched.fake.on_lost()
        await asyncio.sleep(10)

    watched.fake.nodes[SECOND].end(1)
    watched.fake.ready = [lost]
    with pytest.raises(CheckFailed, match="is stopped: no answer in time"):
        watched.until("nothing")
    assert (watched.fake.running, watched.fake.steps) == ([], {"failed"})


async def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(10)


def test_ctrl_c_in_a_restart_stops_all_ranks_and_remembers_it(watched: Watched) -> None:
    watched.fake.nodes[SECOND].end(1)
    watched.fake.ready = [ctrl_c]
    with pytest.raises(Interrupted, match="all ranks are stopped"):
        watched.until("nothing")
    assert (watched.fake.running, watched.fake.steps) == ([], {"failed"})


def test_the_third_ctrl_c_gives_up_the_stop_too(watched: Watched) -> None:
    async def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.01)
        await ctrl_c()

    async def once_more() -> None:
        watched.fake.stops = [twice]
        await ctrl_c()

    watched.fake.nodes[SECOND].end(1)
    watched.fake.ready = [once_more]
    with pytest.raises(Interrupted, match="ranks may still run"):
        watched.until("nothing")


def test_a_node_that_takes_no_more_writing_is_stopped_all_the_same(watched: Watched) -> None:
    watched.fake.nodes[SECOND].end(1)
    watched.fake.nodes[NAMES[2]].full = True
    with pytest.raises(CheckFailed):
        watched.until("nothing", watched.of(restarts=0))
    assert watched.fake.running == []
    assert watched.incidents[0]["stopped"] == {**dict.fromkeys(NAMES), NAMES[2]: "no space left"}


def test_a_container_that_somebody_started_past_its_unit_is_stopped_too(watched: Watched) -> None:
    third = watched.fake.nodes[NAMES[2]]
    assert third.container is not None
    third.container = replace(third.container, id="by hand")
    watched.fake.nodes[SECOND].end(1)
    with pytest.raises(CheckFailed):
        watched.until("nothing", watched.of(restarts=0))
    assert watched.fake.running == []


def test_a_node_that_is_lost_is_left_out_and_nothing_is_started_without_it(watched: Watched) -> None:
    watched.fake.nodes[SECOND].lost = "no route to host"
    with pytest.raises(CheckFailed, match=f"{SECOND} does not answer"):
        watched.until("nothing")
    assert watched.fake.running == [SECOND], "it may run on there: nobody can tell"
    assert watched.fake.nodes[SECOND].said == []
    assert set(watched.incidents[0]["stopped"]) == {NAMES[0], NAMES[2]}


def test_a_node_that_fell_silent_after_its_rank_had_ended_is_waited_for(watched: Watched) -> None:
    def silent() -> None:
        watched.fake.nodes[SECOND].lost = "no route to host"

    watched.fake.nodes[SECOND].end(7)
    watched.fake.looks = [lambda: None, lambda: None, silent]
    watched.until("left as it is for now: no route to host")
    assert watched.fake.running == [NAMES[0], NAMES[2]]


def test_a_death_that_is_none_at_the_third_look_stops_nothing(watched: Watched) -> None:
    second = watched.fake.nodes[SECOND]
    before = second.container

    def again() -> None:
        second.container = before

    second.end(1)
    watched.fake.looks = [lambda: None, lambda: None, again]
    watched.until("every rank that answers lives again")
    assert watched.fake.running == list(NAMES)


def test_what_would_render_to_another_launch_is_not_watched(watched: Watched) -> None:
    other = replace(TARGET, served=replace(TARGET.served, launch_bundle=Digest("9" * 64)))
    with pytest.raises(CheckFailed, match="renders to another launch"):
        watched.until("nothing", watched.of(aim=other))


def test_while_somebody_is_at_work_nothing_is_done(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = LeaseSeen(owner="operator@spark1: derive deploy r8", nonce="n", alive=True, expires_in_s=40)
    seen = watched.fake.look

    async def leased(_self: FakeSite, service: str) -> tuple[NodeSeen, ...]:
        return tuple(replace(one, lease=lease) for one in await seen(service))

    watched.fake.nodes[SECOND].end(1)
    monkeypatch.setattr(FakeSite, "look", leased)
    watched.until("not watched: operator@spark1: derive deploy r8 is at work")
    assert watched.fake.running == [NAMES[0], NAMES[2]]
