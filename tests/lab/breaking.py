# SPDX-License-Identifier: Apache-2.0
"""Scenarios of machines that lose a cable, power, memory or disk: one function each, which fails where
``derive`` does. Each begins with the first release serving, and may leave the site in any state.

Edge: runs commands in a lab.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from lab.project import FIRST, SECOND
from lab.scene import SERVICE, Facts, Scene

MIB: Final = 1 << 20


def cable_cut(scene: Scene) -> Facts:
    """With a cable out, what serves goes on, and a deploy is refused that says which; one passes afterwards."""
    one, other = scene.lab.names[0], scene.lab.names[1]
    scene.lab.cut(one, other)
    try:
        refused = scene.deploy(SECOND)
        assert refused.code == 1, refused
        assert one in refused.err + refused.out, refused
        assert other in refused.err + refused.out, refused
        assert "carrier" in refused.err + refused.out, refused
        scene.expect(FIRST)
    finally:
        scene.lab.mend(one, other)
    scene.deploy(SECOND).answer  # noqa: B018 - it must succeed
    scene.expect(SECOND)
    return {}


def node_lost(scene: Scene) -> Facts:
    """A node without power is named by status, a deploy is refused, and with the node back one brings all up again."""
    gone = scene.lab.names[-1]
    scene.lab.kill(gone)
    found = scene.status()
    (row,) = [one for one in found["nodes"] if one["node"] == gone]
    assert row["trouble"], row
    refused = scene.deploy(SECOND)
    assert refused.code in {1, 3}, refused
    assert gone in refused.err, refused.err
    others = scene.lab.names[:-1]
    assert None not in scene.launches(others).values(), "what serves elsewhere was touched"
    scene.lab.boot(gone)
    assert scene.kind() == "mixed", scene.status()
    scene.deploy(SECOND).answer  # noqa: B018 - it must succeed
    scene.expect(SECOND)
    return {}


def node_lost_in_deploy(scene: Scene) -> Facts:
    """A worker that loses power while containers start fails the deploy; the former release is back once it is up."""
    gone = scene.lab.names[1]
    cut = scene.at_step("start", lambda: scene.lab.kill(gone))
    assert cut.code in {1, 3}, cut.text
    assert f"{gone}  what runs there is not known" in cut.text, cut.text
    assert f"once {gone} can be reached: derive deploy {FIRST}" in cut.text, cut.text
    others = [name for name in scene.lab.names if name != gone]
    assert set(scene.launches(others).values()) == {None}, "ranks wait for one that will not come"
    scene.lab.boot(gone)
    found = scene.status()
    assert not found["well"], found
    scene.deploy(FIRST).answer  # noqa: B018 - it must succeed
    scene.expect(FIRST)
    return {"code": cut.code}


def head_lost_in_deploy(scene: Scene) -> Facts:
    """The head loses power in the middle of a deploy, with the operator on it; after its boot a deploy recovers."""
    running = scene.lab.start(*scene.command(SECOND, "--replace"))
    stream = running.process.stdout
    assert stream is not None
    with stream:
        for raw in stream:
            if b"  start " in raw:
                scene.lab.kill(scene.lab.head)
                break
    running.process.wait(timeout=60)
    scene.lab.boot(scene.lab.head)
    found = scene.status()
    assert not found["well"], found
    assert found["situation"]["next"], found
    scene.deploy(SECOND).answer  # noqa: B018 - it must succeed
    scene.expect(SECOND)
    return {"kind_after_boot": found["situation"]["kind"]}


def starved_when_steady(scene: Scene) -> Facts:
    """A node below its floor has its container killed by the guard; status says so, and a deploy brings it back."""
    node = scene.lab.names[1]
    began = time.monotonic_ns()
    scene.lab.starve(node, 256 * MIB)
    try:
        while scene.launches([node])[node] is not None:
            assert time.monotonic_ns() - began < 30e9, "the guard did not kill"
            time.sleep(0.02)
        took = time.monotonic_ns() - began
    finally:
        scene.lab.feed(node)
    found = scene.status()
    assert not found["well"], found
    assert node in {one["node"] for one in found["amiss"]}, found["amiss"]
    evidence = scene.by_hand(node, f"cat /var/lib/derive/{SERVICE}/evidence/*.json").out
    assert "below-floor" in evidence, evidence
    scene.deploy(FIRST).answer  # noqa: B018 - it must succeed
    scene.expect(FIRST)
    return {"starved_until_seen_dead_ns": took}


def starved_at_start(scene: Scene) -> Facts:
    """A node that is below its floor while containers start fails the deploy; fed again, the former one serves."""
    node = scene.lab.names[1]
    feed = threading.Timer(4, scene.lab.feed, [node])

    def act() -> None:
        scene.lab.starve(node, 256 * MIB)
        feed.start()

    try:
        cut = scene.at_step("start", act)
    finally:
        feed.cancel()
        scene.lab.feed(node)
    assert cut.code == 1, cut.text
    assert FIRST in cut.text, cut.text
    return {"kind": scene.kind()}


def disk_full(scene: Scene) -> Facts:
    """With a node's disk full a deploy is refused before anything stops, naming node and folder."""
    node = scene.lab.names[-1]
    scene.lab.fill(node)
    try:
        refused = scene.deploy(SECOND)
        assert refused.code in {1, 3}, refused
        assert node in refused.err + refused.out, refused
        scene.expect(FIRST)
    finally:
        scene.lab.empty(node)
    scene.deploy(SECOND).answer  # noqa: B018 - it must succeed
    scene.expect(SECOND)
    return {"code": refused.code}


def disk_full_before_the_image(scene: Scene) -> Facts:
    """A node that has not the image, nor room for it, is found before a byte is moved; with room, it gets it."""
    node = scene.lab.names[-1]
    scene.lab.derive("stop", SERVICE, "--apply").answer  # noqa: B018 - it must succeed
    gone = scene.by_hand(node, "docker container prune --force; docker image prune --all --force; docker image ls -q")
    assert gone.answer.splitlines()[-1:] != [""], gone
    scene.lab.fill(node, 64 * MIB)
    try:
        refused = scene.deploy(FIRST)
        assert refused.code in {1, 3}, refused
        assert node in refused.err + refused.out, refused
    finally:
        scene.lab.empty(node)
    scene.deploy(FIRST).answer  # noqa: B018 - it must succeed
    scene.expect(FIRST)
    return {"code": refused.code}
