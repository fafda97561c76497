# SPDX-License-Identifier: Apache-2.0
"""The guard of an earlier deployment's container, before a real systemd: stopped, brought back, and gone at its end.

The container's engine is FAKE: it says yes to everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from derive.deploy import engines
from derive.deploy.effects import unit_states
from derive.deploy.former import Standing
from derive.deploy.lease import Fence
from derive.deploy.model import Stood
from derive.deploy.room import put_aside, put_back
from support.cgroups import wait_until
from support.launching import write_files
from support.node_here import NodeHere, fence_of
from support.user_manager import Manager, user_manager

pytestmark = pytest.mark.sandbox

GUARD = "notebook-memguard.service"
UNIT = f"/run/systemd/system/{GUARD}"
ASIDE = Standing(node="spark1", kind=Stood.CONTAINER, name="notebook", container="ab", running=True, guard=GUARD)


class OfEngine(NodeHere):
    """A node whose engine has a container that nothing is known of."""

    async def ask(self, function: Callable[..., Any], *_: Any, **__: Any) -> Any:
        return [] if function is engines.containers else True


@dataclass(frozen=True, slots=True)
class Place:
    """A node with a systemd of its own, as the deploy that is under way there has it."""

    node: NodeHere
    manager: Manager
    fence: Fence
    service: str = "probe"

    @property
    def folder(self) -> str:
        return self.fence.folder

    @property
    def held(self) -> Any:
        return self

    def make_room(self) -> str:
        return self._done(put_aside)

    def go_back(self) -> str:
        return self._done(put_back)

    def _done(self, function: Any) -> str:
        text: str = asyncio.run(function(self, self.node, ASIDE))
        return text

    @property
    def load(self) -> str:
        return asyncio.run(unit_states(self.node, [GUARD]))[GUARD].load


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    base = tmp_path_factory.mktemp("node")
    for name in ("systemctl", "systemd-run"):
        write_files({f"bin/{name}": b'#!/bin/sh\nexec /usr/bin/%s --user "$@"\n' % name.encode()}, base)
        (base / "bin" / name).chmod(0o755)
    (base / "units").mkdir()
    with user_manager(base / "units", base / "bin") as manager:
        # A user's manager looks there for what a machine's looks for in the folder beside.
        manager.run("mkdir", "-p", "/run/systemd/user")
        manager.run("mount", "--bind", "/run/systemd/system", "/run/systemd/user")
        node = OfEngine("spark1", manager.inside, Path("/usr/local/bin"))
        yield Place(node, manager, asyncio.run(fence_of(node, str(base))))


@pytest.fixture
def guarded(place: Place) -> Iterator[Place]:
    """Yield the node with a transient guard, as that deployment starts it."""
    ran = place.manager.run("/usr/local/bin/systemd-run", f"--unit={GUARD}", "--", "/bin/sleep", "1000")
    assert ran.returncode == 0, ran.stderr
    yield place
    place.manager.systemctl("stop", GUARD)


def test_a_transient_guard_is_brought_back_and_gone_again_once_it_has_ended(guarded: Place) -> None:
    place = guarded
    assert place.make_room().startswith(f"{GUARD} stopped, ")
    assert place.load == "not-found"
    assert place.go_back() == f"{GUARD} and notebook runs again"
    assert place.manager.state(GUARD) == "active (running)"
    # Whatever else is installed meanwhile: a guard whose unit is not known could not be stopped by the next deploy.
    place.manager.systemctl("daemon-reload")
    assert place.load == "loaded"
    place.manager.systemctl("kill", "--signal=TERM", GUARD)
    wait_until(lambda: place.load == "not-found", seconds=10)
    assert not place.node.file(UNIT).exists()


def test_a_guard_that_was_brought_back_is_stopped_and_brought_back_by_the_next_deploy_too(guarded: Place) -> None:
    place = guarded
    for _ in range(2):
        place.make_room()
        assert place.load == "not-found"
        assert not place.node.file(UNIT).exists()
        place.go_back()
        assert place.manager.state(GUARD) == "active (running)"
    text = place.node.file(UNIT).read_text()
    assert text.count("ExecStopPost=") == 1
    assert text.count('ExecStart="') == 1
