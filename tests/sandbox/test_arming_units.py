# SPDX-License-Identifier: Apache-2.0
"""A node's guard and container by a systemd of their own: armed before there is a container, handed over, stopped.

Docker and the guard are scripts that write down what they do; a file stands for the container.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import sha256
from derive.deploy.arming import arm, launch_of, seen, stage_guard, start, steady, stop
from derive.deploy.guard import GuardFile
from derive.deploy.lease import Fence
from derive.deploy.model import Target
from derive.deploy.node_errors import EffectFailed
from derive.render.units import ready_file
from support.launching import IMAGE, small_launch, write_files
from support.node_here import NodeHere, fence_of, target_of
from support.user_manager import Manager, user_manager

pytestmark = pytest.mark.sandbox

SERVICE = "derive-small.service"
HOLD = "derive-small-armed.service"

DOCKER = """#!/bin/bash
case "$1" in
run)
  echo "container starts" >>LOG
  echo $$ >HERE
  trap 'echo "container ends" >>LOG; rm HERE; exit 0' TERM
  while :; do sleep 0.05; done ;;
stop) if [ -e HERE ]; then kill "$(cat HERE)"; fi; while [ -e HERE ]; do sleep 0.05; done ;;
esac
"""
GUARD = """#!/bin/bash
while [ $# -gt 0 ]; do
  case "$1" in --ready-file) ready=$2 ;; --phase) phase=$2 ;; esac
  shift
done
if [ -e BROKEN-$phase ]; then sleep 0.3; exit 1; fi
trap 'trap "" TERM; rm -f "$ready"; echo "$phase guard ends" >>LOG' EXIT
trap 'exit 0' TERM
echo waiting >"$ready"
echo "$phase guard waits" >>LOG
until [ -e HERE ]; do sleep 0.05; done
echo guarding >"$ready"
while [ -e HERE ]; do sleep 0.05; done
"""
OF_USER = '#!/bin/sh\nexec /usr/bin/%s --user "$@"\n'


@dataclass(frozen=True, slots=True)
class Place:
    """A node with a systemd of its own, and nothing installed."""

    node: NodeHere
    manager: Manager
    folder: Path
    fence: Fence
    guard: GuardFile

    def run(self, *steps: Any) -> None:
        for step in steps:
            asyncio.run(step)

    def arm(self, target: Target) -> None:
        self.run(arm(self.node, target, self.guard, fence=self.fence))

    def stop(self) -> None:
        self.run(stop(self.node, "small", fence=self.fence, seconds=5))

    @property
    def log(self) -> list[str]:
        return (self.folder / "log").read_text().splitlines()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    base = tmp_path_factory.mktemp("node")
    texts = {"bin/docker": DOCKER, **{f"bin/{name}": OF_USER % name for name in ("systemctl", "systemd-run")}}
    for path, text in texts.items():
        write_files({path: filled(text, base)}, base)
        (base / path).chmod(0o755)
    (base / "units").mkdir()
    program = filled(GUARD, base)
    with user_manager(base / "units", base / "bin") as manager:
        manager.run("mount", "--bind", str(base / "units"), "/etc/systemd/system")
        node = NodeHere("spark1", manager.inside, Path("/usr/local/bin"))
        fence = asyncio.run(fence_of(node, str(base)))
        yield Place(node, manager, base, fence, GuardFile(data=program, digest=sha256(program), layer=IMAGE))


@pytest.fixture
def target(place: Place) -> Iterator[Target]:
    target = target_of(small_launch(folder=f"{place.folder}/small/current", mounts=()))
    write_files(target.bundle.node("spark1"), place.folder / "small/current")
    (place.folder / "log").write_text("")
    place.run(stage_guard(place.node, target, place.guard, fence=place.fence))
    yield target
    place.stop()
    for left in place.folder.glob("broken-*"):
        left.unlink()


def filled(text: str, base: Path) -> bytes:
    for name in ("LOG", "HERE", "BROKEN"):
        text = text.replace(name, f"{base}/{name.lower()}")
    return text.encode()


def test_a_guard_waits_before_the_container_is_started_and_hands_over_and_ends_after_it(
    place: Place, target: Target
) -> None:
    place.arm(target)
    assert place.log == ["startup guard waits"]
    assert place.manager.state(SERVICE) == "inactive (dead)"
    place.run(start(place.node, target, fence=place.fence))
    assert place.manager.state(HOLD) == "inactive (dead)"
    for _ in range(2):  # what is asked for again is done once
        place.run(steady(place.node, target, fence=place.fence))
    place.stop()
    assert place.log == [
        "startup guard waits",
        "container starts",
        "steady guard waits",
        "startup guard ends",
        "container ends",
        "steady guard ends",
    ]
    found = asyncio.run(seen(place.node, "small"))
    assert [(guard.phase, guard.alive) for guard in found] == [("startup", False), ("steady", False)]
    # Of a unit that ended well systemd may still know how, or may have forgotten it.
    assert {guard.code for guard in found} <= {0, None}


def test_a_guard_that_cannot_begin_is_said_whatever_an_earlier_one_said_and_no_container_is_started(
    place: Place, target: Target
) -> None:
    (place.folder / "broken-startup").touch()
    said = ready_file(launch_of(place.node, target), "startup")
    place.manager.run("sh", "-c", f"mkdir -p {said.rpartition('/')[0]}; echo guarding >{said}")
    with pytest.raises(EffectFailed, match="no container is started without it") as caught:
        place.arm(target)
    assert caught.value.detail[0].endswith("is failed (failed), result exit-code, exit status 1")
    with pytest.raises(EffectFailed):
        place.run(start(place.node, target, fence=place.fence))
    assert place.log == []


def test_a_guard_that_an_earlier_deploy_left_armed_is_armed_anew(place: Place, target: Target) -> None:
    place.arm(target)
    place.arm(target)
    assert place.log == ["startup guard waits", "startup guard ends", "startup guard waits"]
    place.stop()
    assert place.log[-1] == "startup guard ends"


def test_a_service_that_runs_is_not_armed(place: Place, target: Target) -> None:
    place.arm(target)
    place.run(start(place.node, target, fence=place.fence))
    with pytest.raises(EffectFailed, match="is active: it is stopped before"):
        place.arm(target)


def test_a_steady_guard_without_a_container_is_no_success(place: Place, target: Target) -> None:
    place.arm(target)
    with pytest.raises(EffectFailed, match="the container does not run"):
        place.run(steady(place.node, target, fence=place.fence))


def test_a_launch_without_guards_has_its_units_and_loses_those_of_an_earlier_one(place: Place, target: Target) -> None:
    place.arm(target)
    place.stop()
    bare = target_of(small_launch(folder=f"{place.folder}/small/current", mounts=(), guard=()))
    write_files(bare.bundle.node("spark1"), place.folder / "small/current")
    place.run(arm(place.node, bare, None, fence=place.fence), start(place.node, bare, fence=place.fence))
    assert sorted(file.name for file in (place.folder / "units").iterdir()) == [SERVICE, "derive-small.slice"]
    assert place.log[-1] == "container starts"
    assert asyncio.run(seen(place.node, "small")) == ()


def test_a_guard_that_has_waited_for_too_long_is_armed_anew_before_the_container_starts(
    place: Place, target: Target
) -> None:
    place.arm(target)
    place.manager.systemctl("kill", "--signal=KILL", "derive-small-guard-startup.service")
    place.manager.settles("derive-small-guard-startup.service", "failed (failed)")
    place.run(start(place.node, target, fence=place.fence))
    assert place.log == ["startup guard waits", "startup guard waits", "container starts"]
