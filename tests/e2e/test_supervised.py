# SPDX-License-Identifier: Apache-2.0
"""A node without systemd: a real container of a real engine, below the real guard, by the supervisor sent there.

The engine uses control groups as this machine has them; the node is a mount namespace with a ``/run`` of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from docker.errors import NotFound

from derive.canonical import Digest
from derive.deploy.arming import arm, seen, stage_guard, start, steady, stop
from derive.deploy.guard import GuardFile, take_guard
from derive.deploy.lease import Fence
from derive.deploy.model import Target
from derive.deploy.node.guarded import guards_of, started_at
from derive.deploy.node_errors import EffectFailed
from derive.errors import Corrupt
from derive.recipes.resolved import Container, GuardPhase
from derive.store.local import LocalStore
from support.busybox import busybox_image
from support.cgroups import wait_until
from support.derived import AMD64, Derived
from support.docker_engine import DockerEngine, default_binaries
from support.engine_nodes import EngineNodes
from support.launching import small_launch, write_files
from support.memguard import NEVER_AVAILABLE
from support.node_here import NodeHere, fence_of, mounted_apart, target_of

pytestmark = pytest.mark.docker

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Place:
    """A node, its engine, the guard out of our own image, and a service's name that no other test has."""

    node: NodeHere
    engine: DockerEngine
    guard: GuardFile
    folder: Path
    service: str
    fence: Fence

    def target(self, **changes: Any) -> Target:
        """Return a launch of a container that sleeps; it ends at once when told to."""
        launch = small_launch(
            name=self.service,
            slice=f"derive-{self.service}.slice",
            folder=f"{self.folder}/{self.service}/current",
            reference="guarded:latest",
            entrypoint=("/busybox", "sh"),
            arguments=("-c", "trap 'exit 0' TERM; /busybox sleep 1000 & wait"),
            environment={},
            mounts=(),
            container=Container(network="none", stop_seconds=5),
            guard=(
                GuardPhase(phase="startup", floor_bytes=64 << 20, interval="0.05", wait_seconds=10),
                GuardPhase(phase="steady", floor_bytes=32 << 20, interval="0.05"),
            ),
        )
        target = target_of(replace(launch, **changes))
        write_files(target.bundle.node("spark1"), Path(launch.folder))
        return target

    def run(self, *steps: Any) -> None:
        """Do some steps, one after another."""
        for step in steps:
            asyncio.run(step)

    def arm(self, target: Target) -> None:
        self.run(stage_guard(self.node, target, self.guard, fence=self.fence))
        self.run(arm(self.node, target, self.guard, fence=self.fence))

    def start(self, target: Target) -> None:
        self.arm(target)
        self.run(start(self.node, target, fence=self.fence))

    def state(self) -> dict[str, Any]:
        """Return what the supervisor last wrote down."""
        return dict(json.loads(self.node.file(f"/run/derive/{self.service}/supervised.json").read_text()))

    @property
    def guards(self) -> dict[str, tuple[bool, str | None]]:
        return {guard.phase: (guard.alive, guard.says) for guard in asyncio.run(seen(self.node, self.service))}

    @property
    def status(self) -> str | None:
        """Return how the container is: ``running``, ``exited 137``; None where there is none."""
        try:
            container = self.engine.client.containers.get(self.service)
        except NotFound:
            return None
        return "running" if container.status == "running" else f"exited {container.attrs['State']['ExitCode']}"

    def ends(self, status: str) -> None:
        """Wait until container, guards and supervisor have ended."""
        pid = self.state()["pid"]
        wait_until(lambda: started_at(pid) is None and not guards_of(self.service) and self.status == status)


@pytest.fixture(scope="module")
def engine(two_nodes: EngineNodes) -> DockerEngine:
    running = two_nodes.engines["spark1"]
    busybox_image(running, "guarded")
    return running


@pytest.fixture(scope="module")
def guard(derived: Derived) -> GuardFile:
    with LocalStore(derived.store, reading=True) as store:
        return take_guard(store, Digest.parse(derived.digests[AMD64]))


@pytest.fixture(scope="module")
def node(engine: DockerEngine) -> Iterator[NodeHere]:
    with mounted_apart("mount -t tmpfs none /run") as inside:
        # The engine listens where the site's settings say, and nowhere else.
        yield NodeHere("spark1", inside, default_binaries() / "bin", f"{engine.folder}/docker.sock")


@pytest.fixture
def place(node: NodeHere, engine: DockerEngine, guard: GuardFile, tmp_path: Path) -> Iterator[Place]:
    service = f"s{os.getpid()}{tmp_path.name[-24:].replace('_', '').lower()}"
    fence = asyncio.run(fence_of(node, str(tmp_path)))
    made = Place(node, engine, guard, tmp_path, service, fence)
    try:
        yield made
    finally:
        with contextlib.suppress(NotFound):
            engine.client.containers.get(service).remove(force=True)
        made.run(stop(node, service, fence=fence, seconds=1))
        for folder in [*CGROUPS.glob(f"derive-{service}.slice"), *CGROUPS.glob(f"**/derive-{service}.slice")]:
            for group in sorted(folder.rglob("*/"), reverse=True):
                group.rmdir()
            folder.rmdir()


def test_a_guard_is_at_work_before_the_container_and_hands_over_and_ends_after_it(place: Place) -> None:
    target = place.target()
    place.arm(target)
    assert place.guards == {"startup": (True, "waiting")}
    assert place.status is None
    with pytest.raises(EffectFailed, match="nothing was changed"):
        place.run(start(place.node, target, fence=replace(place.fence, nonce="0" * 32)))
    for _ in range(2):  # what is asked for again is done once
        place.run(start(place.node, target, fence=place.fence))
        assert place.status == "running"
    for _ in range(2):
        place.run(steady(place.node, target, fence=place.fence))
        assert place.guards == {"startup": (False, None), "steady": (True, "guarding")}
    for _ in range(2):
        place.run(stop(place.node, place.service, fence=place.fence, seconds=5))
    place.ends("exited 0")
    assert not list((place.folder / place.service / "evidence").iterdir())


def test_without_a_good_first_look_no_container_is_started(place: Place) -> None:
    waits = GuardPhase(phase="startup", floor_bytes=never_available(), interval="0.05", wait_seconds=1)
    target = place.target(guard=(waits,))
    with pytest.raises(EffectFailed) as caught:
        place.arm(target)
    assert "the container did not appear in time" in "; ".join(caught.value.detail)
    with pytest.raises(EffectFailed, match="is not armed"):
        place.run(start(place.node, target, fence=place.fence))
    assert place.status is None


def test_a_program_that_is_not_the_image_s_is_not_armed(place: Place) -> None:
    target = place.target()
    place.run(stage_guard(place.node, target, replace(place.guard, data=b"#!/bin/sh\n"), fence=place.fence))
    with pytest.raises(Corrupt, match="not the one in the image"):
        place.run(arm(place.node, target, place.guard, fence=place.fence))
    assert place.guards == {}


@pytest.mark.parametrize("phase", ["startup", "steady"])
def test_a_guard_that_is_killed_takes_the_container_with_it(place: Place, phase: str) -> None:
    target = place.target()
    place.start(target)
    if phase == "steady":
        place.run(steady(place.node, target, fence=place.fence))
    os.kill(guards_of(place.service)[phase], signal.SIGKILL)
    place.ends("exited 137")
    assert place.state()["why"].startswith(f"the {phase} guard ended with -9;")


def test_a_supervisor_that_is_killed_takes_the_container_with_it(place: Place) -> None:
    place.start(place.target())
    os.kill(place.state()["pid"], signal.SIGKILL)
    place.ends("exited 137")


def test_a_steady_guard_that_cannot_begin_ends_the_container(place: Place) -> None:
    target = place.target()
    place.start(target)
    (place.folder / place.service / "evidence").rmdir()
    with pytest.raises(EffectFailed) as caught:
        place.run(steady(place.node, target, fence=place.fence))
    assert caught.value.detail[0] == "the steady guard ended with 1"
    place.ends("exited 137")


def test_a_container_that_ends_by_itself_ends_all(place: Place) -> None:
    place.start(place.target(arguments=("-c", "/busybox sleep 0.3; exit 7")))
    place.ends("exited 7")
    assert place.state()["why"] == "the container ended with 7"


def test_a_container_elsewhere_than_its_guard_looks_is_ended(place: Place) -> None:
    target = place.target()
    run = place.folder / place.service / "current/run"
    run.write_text(run.read_text().replace(f"--cgroup-parent=derive-{place.service}", "--cgroup-parent=/elsewhere"))
    place.start(target)
    place.ends("exited 137")
    assert "does not run in the control group that is guarded" in place.state()["why"]


def never_available() -> int:
    """Return a floor under which this machine always is."""
    return int(NEVER_AVAILABLE.removesuffix("KiB")) << 10
