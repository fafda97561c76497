# SPDX-License-Identifier: Apache-2.0
"""Scenarios of deploys that are cut off, at each step, by SSH or by a signal: one function each, which fails where
``derive`` does. Each begins with the first release serving, and may leave the site in any state.

Edge: runs commands in a lab.
"""

from __future__ import annotations

import threading
import time

from lab.project import FIRST, SECOND
from lab.scene import STEPS, UNTOUCHED, Facts, Scene


def ssh_lost(scene: Scene) -> Facts:
    """SSH to a worker breaks at each step: the deploy ends well, or says what runs and another one recovers."""
    node, ends = scene.lab.names[1], {}
    for step in STEPS:
        scene.settle(FIRST)
        cut = scene.at_step(step, lambda: scene.lab.drop_ssh(node))
        ends[step] = f"{cut.code}, then {_recovered(scene, step, cut.code)}"
    return {"by_step": ends}


def ssh_hangs(scene: Scene) -> Facts:
    """The management network of a worker goes away while containers start, and comes back after the deploy gave up."""
    node = scene.lab.names[1]
    try:
        cut = scene.at_step("start", lambda: scene.lab.break_ssh(node))
    finally:
        scene.lab.mend_ssh(node)
    assert cut.code in {1, 3}, cut.text
    assert node in cut.text, cut.text
    return {"code": cut.code, "then": _recovered(scene, "start", cut.code)}


def killed_at_each_step(scene: Scene) -> Facts:
    """A deploy that is killed with -9 at each step: status says what is, and a new deploy recovers."""
    ends = {}
    for step in STEPS:
        scene.settle(FIRST)
        cut = scene.killed_at(step)
        assert cut.code != 0, (step, cut.text)
        ends[step] = _recovered(scene, step, cut.code)
    return {"by_step": ends}


def confirmation_lost(scene: Scene) -> Facts:
    """A node is activated and its answer is lost: the deploy fails, and the old digest serves."""
    node = scene.lab.names[1]
    old = scene.launches()
    link = scene.link(node)
    running = scene.lab.start(*scene.command(SECOND, "--replace"))
    stop = threading.Event()
    acted: list[str | None] = []

    def watch() -> None:
        while not stop.is_set():
            if scene.link(node) != link:
                scene.lab.break_ssh(node)
                acted.append(scene.link(node))
                time.sleep(8)
                scene.lab.drop_ssh(node)
                scene.lab.mend_ssh(node)
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        cut = scene.watched(running, lambda _: True)
    finally:
        stop.set()
        watcher.join()
        scene.lab.mend_ssh(node)
    assert acted, "the link did not move"
    assert cut.code not in {0, 130}, cut.text
    assert scene.launches() == old, cut.text
    scene.expect(FIRST)
    return {"code": cut.code}


def _recovered(scene: Scene, step: str, code: int) -> str:
    """Hold that what the site is in fits the exit code, and that a deploy brings it up; return what it was in."""
    found = scene.status()
    situation = found["situation"]
    serves = situation["served"] and situation["served"]["release"]
    if code == 0:
        assert (situation["kind"], serves) == ("serving", SECOND), (step, situation)
    elif step in UNTOUCHED:
        assert serves == FIRST, (step, situation)
        scene_launches = set(scene.launches().values())
        assert len(scene_launches) == 1, (step, scene_launches)
        assert None not in scene_launches, (step, "what served was touched")
    scene.deploy(SECOND).answer  # noqa: B018 - it must succeed
    scene.expect(SECOND)
    return str(situation["kind"])
