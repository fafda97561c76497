# SPDX-License-Identifier: Apache-2.0
"""Scenarios of deploys that are cut off, at each step, by SSH or by a signal: one function each, which fails where
``derive`` does. Each begins with the first release serving, and may leave the site in any state.

Edge: runs commands in a lab.
"""

from __future__ import annotations

import threading

from lab.project import BAD, FIRST, SECOND
from lab.scene import SERVICE, STEPS, UNTOUCHED, Facts, Scene


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


def migration_killed(scene: Scene) -> Facts:
    """A deploy in place of an older container is killed: the next one that fails brings that container back."""
    scene.lab.derive("stop", SERVICE, "--apply").answer  # noqa: B018 - it must succeed
    node = scene.lab.names[0]
    scene.start_foreign(node)
    scene.killed_at("activate", SECOND, "--change-shape")
    assert not scene.guards_foreign(node)
    failed = scene.deploy(BAD, "--change-shape")
    assert failed.code == 1, failed
    scene.expect_foreign(node)
    assert [one for one in scene.launches(scene.lab.names[1:]).values() if one] == [], "a release runs beside it"
    scene.deploy(FIRST, "--change-shape").answer  # noqa: B018 - it must succeed
    scene.expect(FIRST)
    scene.by_hand(node, f"docker rm {SERVICE}-before-derive").answer  # noqa: B018 - nobody wants it any more
    return {}


def stopped_before_it_was_killed(scene: Scene) -> Facts:
    """A stopped service is deployed, and that is killed: the next deploy that fails leaves it stopped, as it was."""
    scene.lab.derive("stop", SERVICE, "--apply").answer  # noqa: B018 - it must succeed
    scene.killed_at("ready")
    failed = scene.deploy(BAD)
    assert failed.code == 1, failed
    assert "nothing running" in failed.err, failed.err
    assert set(scene.launches().values()) == {None}, "what somebody had stopped was started"
    assert scene.kind() == "stopped", scene.status()
    scene.deploy(FIRST).answer  # noqa: B018 - it must succeed
    scene.expect(FIRST)
    return {}


def former_image_gone(scene: Scene) -> Facts:
    """The former release's image goes while a deploy fails: it is brought to that node again, and all is as it was."""
    node = scene.lab.names[-1]
    gone = f"docker rm -f {SERVICE}; docker image rm --force $(docker image ls --quiet)"
    running = scene.lab.start(*scene.command(BAD, "--replace"))

    def act(line: str) -> bool:
        if " evidence " in line:
            scene.by_hand(node, gone).answer  # noqa: B018 - it must succeed
            return True
        return False

    cut = scene.watched(running, act)
    assert cut.code == 1, cut.text
    assert "undo distribute" in cut.text, cut.text
    scene.expect(FIRST)
    return {}


def confirmation_lost(scene: Scene) -> Facts:
    """A node is activated and its answer is lost: the deploy fails, and the old digest serves."""
    node = scene.lab.names[1]
    old = scene.launches()
    link = scene.link(node)
    running = scene.lab.start(*scene.command(SECOND, "--replace"))
    stop, broken = threading.Event(), threading.Event()

    def watch() -> None:
        while not stop.is_set():
            if scene.link(node) != link:
                scene.lab.break_ssh(node)
                broken.set()
                return

    def act(line: str) -> bool:
        # Not before the deploy has given up: what the node's kernel has to send outlives the end of its sshd.
        if broken.is_set() and line.partition("] ")[2].split()[1:2] in (["evidence"], ["undo"]):
            scene.lab.mend_ssh(node)
            return True
        return False

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        cut = scene.watched(running, act)
    finally:
        stop.set()
        watcher.join()
        scene.lab.mend_ssh(node)
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
