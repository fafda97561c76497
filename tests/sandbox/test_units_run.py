# SPDX-License-Identifier: Apache-2.0
"""The units of a launch, run by a systemd of their own: at no moment is there a container without a guard.

Docker and the guard are scripts that write down what they do; a file stands for the container.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from derive.render.templates import Templates
from support.cgroups import wait_until
from support.launching import example_site, node_files, project_files, project_shape, small_launch, write_files
from support.user_manager import Manager, user_manager

pytestmark = pytest.mark.sandbox

SERVICE = "derive-small.service"
STARTUP = "derive-small-guard-startup.service"
STEADY = "derive-small-guard-steady.service"

CONFIG = '{"prompt": "{{ x }} $HOME %h", "said": "it\'s \\"quoted\\" \\\\n", "words": ["a b", ""]}'

DOCKER = """#!/bin/bash
case "$1" in
run)
  printf '%s\\0' "$@" >TOLD
  echo "container starts" >>LOG
  echo $$ >HERE
  # Once it ends it ends: systemd sends TERM, too, to what is left after docker stop.
  trap 'trap "" TERM USR1; echo "container ends" >>LOG; rm HERE; exit 0' TERM USR1
  while :; do sleep 0.02; done ;;
stop) if [ -e HERE ]; then kill "$(cat HERE)"; fi; while [ -e HERE ]; do sleep 0.02; done ;;
esac
"""
GUARD = """#!/bin/bash
while [ $# -gt 0 ]; do
  case "$1" in --ready-file) ready=$2 ;; --phase) phase=$2 ;; esac
  shift
done
trap 'rm "$ready"; echo "$phase guard ends" >>LOG; exit 0' TERM
if [ -e BROKEN-$phase ]; then exit 1; fi
echo waiting >"$ready"
echo "$phase guard waits" >>LOG
until [ -e HERE ]; do sleep 0.02; done
echo guarding >"$ready"
while [ -e HERE ]; do sleep 0.02; done
rm "$ready"
echo "$phase guard ends" >>LOG
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A node with the units of a launch."""

    manager: Manager
    folder: Path

    @property
    def log(self) -> list[str]:
        """What happened since the last start of a test."""
        return (self.folder / "log").read_text().splitlines()

    def start(self, unit: str) -> int:
        return self.manager.systemctl("start", unit).returncode

    def are(self, service: str, startup: str, steady: str) -> None:
        """Wait until the three units are in these states."""
        for unit, state in ((SERVICE, service), (STARTUP, startup), (STEADY, steady)):
            self.manager.settles(unit, state)

    def signal_container(self) -> None:
        """Let the container end by itself."""
        self.manager.run("bash", "-c", f"kill -USR1 $(cat {self.folder}/here)")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    base = tmp_path_factory.mktemp("node")
    launch = small_launch(folder=f"{base}/small/current", mounts=(), arguments=("--config", CONFIG))
    files = node_files(launch, example_site(project_shape("probe", "triangle")), Templates(project_files()))
    current = write_files(files, base / "small/current")
    for path, text in {"bin/docker": DOCKER, "guard/5a5a5a5a5a5a/memguard": GUARD}.items():
        said = text
        for name in ("LOG", "HERE", "TOLD", "BROKEN"):
            said = said.replace(name, f"{base}/{name.lower()}")
        write_files({path: said.encode()}, base)
        (base / path).chmod(0o755)
    with user_manager(current / "systemd", base / "bin") as manager:
        yield Node(manager, base)


@pytest.fixture
def node(running: Node) -> Iterator[Node]:
    (running.folder / "log").write_text("")
    yield running
    running.manager.systemctl("stop", SERVICE, STEADY, STARTUP)
    running.manager.systemctl("reset-failed")
    for left in running.folder.glob("broken-*"):
        left.unlink()


def test_the_guard_is_there_before_the_container_and_hands_over_to_the_steady_one(node: Node) -> None:
    assert node.start(SERVICE) == 0
    node.are("active (running)", "active (running)", "inactive (dead)")
    assert node.start(STEADY) == 0
    node.are("active (running)", "active (exited)", "active (running)")
    assert node.manager.systemctl("stop", SERVICE).returncode == 0
    node.are("inactive (dead)", "inactive (dead)", "inactive (dead)")
    assert node.log == [
        "startup guard waits",
        "container starts",
        "steady guard waits",
        "startup guard ends",
        "container ends",
        "steady guard ends",
    ]


def test_json_in_an_argument_reaches_docker_through_the_unit_and_the_script(node: Node) -> None:
    node.start(SERVICE)
    words = (node.folder / "told").read_bytes().decode().split("\0")
    assert words[words.index("--config") + 1] == CONFIG
    assert json.loads(CONFIG)["said"] == 'it\'s "quoted" \\n'


@pytest.mark.parametrize(("unit", "phase"), [(STARTUP, "startup"), (STEADY, "steady")])
def test_a_guard_that_is_killed_takes_the_container_with_it(node: Node, unit: str, phase: str) -> None:
    node.start(SERVICE)
    if phase == "steady":
        node.start(STEADY)
    node.manager.systemctl("kill", "--signal=KILL", unit)
    states = {"startup": "inactive (dead)", "steady": "inactive (dead)", phase: "failed (failed)"}
    node.are("inactive (dead)", states["startup"], states["steady"])
    assert "container ends" in node.log


@pytest.mark.parametrize("unit", [STARTUP, STEADY])
def test_a_guard_that_is_stopped_stops_the_container_first(node: Node, unit: str) -> None:
    node.start(SERVICE)
    if unit == STEADY:
        node.start(STEADY)
    node.manager.systemctl("stop", unit)
    node.are("inactive (dead)", "inactive (dead)", "inactive (dead)")
    assert node.log[-2:] == ["container ends", f"{'steady' if unit == STEADY else 'startup'} guard ends"]


def test_without_a_guard_no_container_starts(node: Node) -> None:
    (node.folder / "broken-startup").touch()
    assert node.start(SERVICE) != 0
    node.are("inactive (dead)", "failed (failed)", "inactive (dead)")
    assert node.log == []


def test_a_steady_guard_that_cannot_begin_stops_the_container(node: Node) -> None:
    node.start(SERVICE)
    (node.folder / "broken-steady").touch()
    assert node.start(STEADY) != 0
    node.are("inactive (dead)", "inactive (dead)", "failed (failed)")


def test_a_steady_guard_without_a_container_is_not_started(node: Node) -> None:
    node.start(STEADY)
    node.are("inactive (dead)", "inactive (dead)", "inactive (dead)")
    assert node.log == []


def test_when_the_container_ends_by_itself_all_ends_and_the_next_start_has_its_guard_again(node: Node) -> None:
    node.start(SERVICE)
    node.start(STEADY)
    node.signal_container()
    node.are("inactive (dead)", "inactive (dead)", "inactive (dead)")
    assert node.start(SERVICE) == 0
    node.are("active (running)", "active (running)", "inactive (dead)")
    assert node.log[-2:] == ["startup guard waits", "container starts"]


def test_a_restart_begins_with_the_guard_of_the_start(node: Node) -> None:
    node.start(SERVICE)
    node.start(STEADY)
    node.manager.systemctl("restart", SERVICE)
    node.are("active (running)", "active (running)", "inactive (dead)")
    wait_until(lambda: node.log[-1] == "container starts")
    assert node.log[-4:] == ["container ends", "steady guard ends", "startup guard waits", "container starts"]
