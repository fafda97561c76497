# SPDX-License-Identifier: Apache-2.0
"""Scenarios of what is brought ahead, asked, watched and followed, and of what no deploy started: one function each,
which fails where ``derive`` does. Each begins with the first release serving, and may leave the site in any state.

Edge: runs commands in a lab.
"""

from __future__ import annotations

import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lab.project import BAD, FIRST, SECOND
from lab.scene import SERVICE, Facts, Scene

OLDER: Final = "older"
"""The name of a container that no deploy started, and not the service's."""


def brought_ahead(scene: Scene) -> Facts:
    """A release is brought ahead while another serves: nothing stops, image and files are there, nothing is to move."""
    node = scene.lab.names[-1]
    scene.lab.derive("stop", SERVICE, "--apply").answer  # noqa: B018 - it must succeed
    gone = f"docker rm -f {SERVICE}; docker image rm --force $(docker image ls --quiet)"
    scene.by_hand(node, gone).answer  # noqa: B018 - it must succeed
    ahead = ("deploy", FIRST, "--shape", scene.project.shape, "--pull-only")
    assert (scene.lab.derive(*ahead).code, _images(scene, node)) == (0, 0), "without --apply nothing moves"
    scene.lab.derive(*ahead, "--apply").answer  # noqa: B018 - it must succeed
    assert _images(scene, node) == 1
    assert set(scene.launches().values()) == {None}, "bringing ahead starts nothing"
    scene.deploy(FIRST).answer  # noqa: B018 - it must succeed
    before = _started(scene)
    scene.lab.derive("deploy", SECOND, "--shape", scene.project.shape, "--pull-only", "--apply").answer  # noqa: B018
    scene.expect(FIRST)
    assert _started(scene) == before, "what serves was touched"
    planned = scene.lab.derive("deploy", SECOND, "--shape", scene.project.shape, "--replace", "--json")
    body = json.loads(planned.out)["body"]
    assert [one["move_bytes"] for one in body["nodes"]] == [0] * len(scene.lab.names), body["nodes"]
    return {}


def why_not(scene: Scene) -> Facts:
    """What would refuse a deploy is told from what was last seen, with a worker's SSH away; nothing is touched."""
    asked = ("deploy", SECOND, "--shape", scene.project.shape, "--why-not")
    scene.lab.derive(*asked[:-1]).out  # noqa: B018 - a plan: what machines say is kept
    node = scene.lab.names[1]
    scene.lab.break_ssh(node)
    try:
        said = scene.lab.derive(*asked, "--replace")
        assert said.code == 0, said
        refused = scene.lab.derive("deploy", "probe-of-nobody", *asked[2:])
        assert refused.code == 2, refused
    finally:
        scene.lab.mend_ssh(node)
    scene.expect(FIRST)
    return {}


def watched(scene: Scene) -> Facts:
    """Status that watches tells of a container that dies, and its log ends when it does, with how."""
    node = scene.lab.names[1]
    watching, following = scene.lab.start("status", SERVICE, "--watch"), scene.lab.start("logs", node, "--follow")
    killed = threading.Event()

    def act(line: str) -> bool:
        if not killed.is_set() and SERVICE in line:
            with scene.lab.engine(node) as client:
                client.containers.get(SERVICE).kill()
            killed.set()
        elif "137" in line:
            watching.signal(signal.SIGINT)
            return True
        return False

    with ThreadPoolExecutor(1) as pool:
        follow = pool.submit(scene.watched, following, lambda _line: killed.is_set())
        told = scene.watched(watching, act)
        log = follow.result(timeout=60)
    assert told.code == 130, told.text
    assert "137" in log.text, log.text
    return {"code_of_logs": log.code}


def restarted(scene: Scene) -> Facts:
    """A rank that dies is restarted with all others within the budget; the next death is past it, and all stop."""
    node = scene.lab.names[1]
    running = scene.lab.start("supervise", SERVICE, "--restarts", "1")
    kills = []

    def act(line: str) -> bool:
        if f"{FIRST} serves" in line:
            kills.append(scene.launches())
            with scene.lab.engine(node) as client:
                client.containers.get(SERVICE).kill()
        return len(kills) > 1

    cut = scene.watched(running, act)
    assert cut.code == 1, cut.text
    assert kills[0] == kills[1], "another launch was restarted"
    assert set(scene.launches().values()) == {None}, "not all ranks were stopped"
    return {}


def old_container_stopped(scene: Scene) -> Facts:
    """A container that no deploy started is stopped by its name, its guard too, and only with --apply."""
    scene.lab.derive("stop", SERVICE, "--apply").answer  # noqa: B018 - it must succeed
    node = scene.lab.names[0]
    scene.start_foreign(node, OLDER)
    try:
        assert scene.lab.derive("stop", "--container", OLDER).code == 0
        assert _runs(scene, node, OLDER)
        assert scene.guards_foreign(node, OLDER)
        scene.lab.derive("stop", "--container", OLDER, "--apply").answer  # noqa: B018 - it must succeed
        assert not _runs(scene, node, OLDER)
        assert not scene.guards_foreign(node, OLDER)
    finally:
        scene.end_foreign(node, OLDER)
    return {}


def other_name_adopted(scene: Scene) -> Facts:
    """A container of another name is adopted: back where the deploy fails, else stopped and kept aside."""
    scene.lab.derive("stop", SERVICE, "--apply").answer  # noqa: B018 - it must succeed
    node = scene.lab.names[0]
    scene.start_foreign(node, OLDER)
    try:
        refused = scene.lab.derive(*scene.command(FIRST))
        assert refused.code == 1, refused
        failed = scene.deploy(BAD, "--change-shape", "--adopt", OLDER)
        assert failed.code == 1, failed
        assert _runs(scene, node, OLDER), failed.err
        assert scene.guards_foreign(node, OLDER), failed.err
        scene.deploy(FIRST, "--change-shape", "--adopt", OLDER).answer  # noqa: B018 - it must succeed
        scene.expect(FIRST)
        assert not _runs(scene, node, f"{OLDER}-before-derive")
        assert not scene.guards_foreign(node, OLDER)
    finally:
        scene.end_foreign(node, OLDER)
    return {}


def put_aside_for_good(scene: Scene) -> Facts:
    """A container that its engine starts always stays aside when the power of its node goes and comes back."""
    scene.lab.derive("stop", SERVICE, "--apply").answer  # noqa: B018 - it must succeed
    node = scene.lab.names[1]
    scene.start_foreign(node, restart="always")
    try:
        scene.deploy(FIRST, "--change-shape").answer  # noqa: B018 - it must succeed
        scene.expect(FIRST)
        scene.lab.kill(node)
        scene.lab.boot(node)
        assert not _runs(scene, node, f"{SERVICE}-before-derive"), "it runs again, with no guard"
        scene.deploy(FIRST).answer  # noqa: B018 - it must succeed
        scene.expect(FIRST)
    finally:
        scene.end_foreign(node)
    return {}


def _images(scene: Scene, node: str) -> int:
    return len(scene.by_hand(node, "docker image ls --quiet --no-trunc | sort -u").answer.split())


def _started(scene: Scene) -> dict[str, str]:
    found = {}
    for name in scene.lab.names:
        with scene.lab.engine(name) as client:
            found[name] = str(client.containers.get(SERVICE).attrs["State"]["StartedAt"])
    return found


def _runs(scene: Scene, node: str, name: str) -> bool:
    asked = f"docker ps --quiet --filter name=^{name}$"
    return bool(scene.by_hand(node, asked).answer)
