# SPDX-License-Identifier: Apache-2.0
"""Hosts watched over a real sshd: facts, one build at a time, the floor, servers that start, lost connections."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.deploy.node_errors import NodeUnreachable
from derive.schedule.config import Guard
from derive.schedule.idle import Running, may_build
from derive.schedule.idle_watch import Watch, look
from support.idle_hosts import Listed, available_bytes, listing_engine, take_memory_until, wait_for
from support.nodes import Sshd, sshd_nodes

MIB = 1 << 20


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd_nodes(tmp_path_factory.mktemp("ssh") / "sshd") as running:
        yield running


@pytest.fixture
def listed(tmp_path: Path) -> Iterator[Listed]:
    with listing_engine(tmp_path / "engine.sock") as found:
        yield found


class Host:
    """A host reached over SSH, whose guard lets this machine build."""

    def __init__(self, sshd: Sshd, listed: Listed, folder: Path) -> None:
        self.settings = replace(sshd.settings, engine_socket=listed.socket)
        self.guard = Guard(
            host="spark1",
            user=getpass.getuser(),
            idle=("dsv41-*",),
            memory_needed=MIB,
            memory_floor=MIB,
            memory_a_job=MIB,
            cores_kept=0,
            lock=str(folder / "lock"),
        )

    def watch(self, guard: Guard | None = None) -> Watch:
        return Watch("spark1", guard or self.guard, self.settings, every_s=0.05)


@pytest.fixture
def host(sshd: Sshd, listed: Listed, tmp_path: Path) -> Host:
    return Host(sshd, listed, tmp_path)


def begun(watch: Watch) -> Watch:
    watch.begin()
    assert watch.wait().may, watch.verdict
    return watch


def test_a_host_says_its_memory_its_processors_and_what_runs(host: Host, listed: Listed) -> None:
    listed.running = {"other": [], "service": ["io.derive.launch-bundle"]}
    facts = look("spark1", host.guard, host.settings)
    assert facts.available_bytes <= facts.total_bytes
    assert abs(facts.available_bytes - available_bytes()) < facts.total_bytes // 2
    assert facts.cpus >= 1
    assert facts.containers == (Running(name="other"), Running(name="service", deployed=True))
    assert (facts.holder, facts.unread) == (None, "")


def test_this_machine_is_asked_without_ssh(host: Host) -> None:
    facts = look("here", replace(host.guard, host=None, user=None), host.settings)
    assert facts.containers == ()


def test_a_host_whose_engine_refuses_may_run_any_containers(host: Host, listed: Listed) -> None:
    listed.broken = True
    facts = look("spark1", host.guard, host.settings)
    assert (facts.containers, facts.unread) == (None, "the engine answered 500")
    assert not may_build(facts, host.guard).may


def test_one_build_at_a_time_holds_a_host_and_frees_it_at_its_end(host: Host) -> None:
    first = begun(host.watch())
    second = host.watch()
    second.begin()
    assert second.wait().reasons[0].startswith(f"another build runs there; holder {getpass.getuser()}@")
    holder = look("spark1", host.guard, host.settings).holder
    assert holder is not None
    assert getpass.getuser() in holder
    first.close()
    wait_for(lambda: look("spark1", host.guard, host.settings).holder is None)
    begun(host.watch()).close()


def test_a_host_that_serves_is_not_held(host: Host, listed: Listed) -> None:
    listed.running = {"dsv41-tp4": []}
    watch = host.watch()
    watch.begin()
    assert watch.wait().reasons == ("it serves: dsv41-tp4 runs",)
    wait_for(lambda: look("spark1", host.guard, host.settings).holder is None)
    watch.close()


def test_a_server_that_starts_is_seen(host: Host, listed: Listed) -> None:
    watch = begun(host.watch())
    listed.running = {"dsv41-tp4": []}
    wait_for(lambda: bool(watch.stop))
    assert watch.stop == ("it serves: dsv41-tp4 runs",)
    assert look("spark1", host.guard, host.settings).holder is not None  # what it ran may still be ending
    watch.close()


def test_memory_below_the_floor_is_seen_and_the_least_of_it_is_known(host: Host) -> None:
    floor = available_bytes() - 640 * MIB
    watch = begun(host.watch(replace(host.guard, memory_floor=floor)))
    take_memory_until(lambda: bool(watch.stop))
    assert "below the floor" in watch.stop[0]
    assert watch.lowest_bytes is not None
    assert watch.lowest_bytes < floor
    watch.close()


def test_a_connection_that_is_lost_stops_what_runs_there_and_frees_the_host(host: Host, sshd: Sshd) -> None:
    watch = begun(host.watch())
    assert sshd.cut()
    wait_for(lambda: bool(watch.stop))
    assert watch.stop[0].startswith("nobody can see any more how it stands: the connection to spark1 was lost")
    wait_for(lambda: look("spark1", host.guard, host.settings).holder is None)
    watch.close()


def test_a_program_that_is_killed_there_stops_what_runs(host: Host) -> None:
    watch = begun(host.watch())
    lock = Path(host.guard.lock)
    wait_for(lambda: bool(lock.read_text()))
    _kill_holder(lock)
    wait_for(lambda: bool(watch.stop))
    watch.close()


def test_a_host_that_is_not_reached_is_told(host: Host, sshd: Sshd, tmp_path: Path) -> None:
    text = sshd.config.read_text().replace(f"Port {sshd.server.port}", "Port 1")
    (tmp_path / "config").write_text(text)
    host.settings = replace(host.settings, files=(tmp_path / "config",))
    with pytest.raises(NodeUnreachable):
        look("spark1", host.guard, host.settings)
    watch = host.watch()
    watch.begin()
    assert not watch.wait().may
    watch.close()


def test_a_lock_that_cannot_be_taken_keeps_the_host_from_building(host: Host, tmp_path: Path) -> None:
    watch = host.watch(replace(host.guard, lock=str(tmp_path)))
    watch.begin()
    assert not watch.wait().may
    watch.close()


def _kill_holder(lock: Path) -> None:
    """Kill whatever process of this machine has the file of a lock open."""
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            if any(one.readlink() == lock for one in folder.iterdir()):
                os.kill(int(folder.parent.name), signal.SIGKILL)
