# SPDX-License-Identifier: Apache-2.0
"""Scenarios of deploys, stops and hands, on a site whose machines are well: one function each, which fails where
``derive`` does. Each begins with the first release serving, and may leave the site in any state.

Edge: runs commands in a lab.
"""

from __future__ import annotations

import signal
import time

from lab.project import BAD, FIRST, SECOND
from lab.scene import SERVICE, Facts, Scene


def deploy_and_rollback(scene: Scene) -> Facts:
    """A release is deployed in place of another, observed as it should be, and rolled back."""
    began = time.monotonic_ns()
    scene.deploy(SECOND).answer  # noqa: B018 - it must succeed
    took = time.monotonic_ns() - began
    scene.expect(SECOND)
    assert scene.lab.derive("drift", SERVICE).code == 0
    scene.lab.derive("rollback", SERVICE, "--apply").answer  # noqa: B018 - it must succeed
    scene.expect(FIRST)
    return {"deploy_ns": took}


def plan_changes_nothing(scene: Scene) -> Facts:
    """A plan prints what would be done, asks for the consent that is missing, and changes nothing on any node."""
    folders = "/var/lib/derive /etc/systemd/system /run/derive"
    files = f"find {folders} ! -type d ! -name 'lease*' -printf '%p %l %s %T@\\n' 2>/dev/null | sort"
    tree = f"{files}; docker ps --all --no-trunc --quiet"
    before = [scene.by_hand(name, tree).out for name in scene.lab.names]
    said = scene.lab.derive("deploy", SECOND, "--shape", scene.project.shape)
    assert SECOND in said.out, said
    assert "--replace" in said.out + said.err, said
    refused = scene.lab.derive(*scene.command(SECOND))
    assert refused.code in {1, 2}, refused
    assert "--replace" in refused.err, refused
    after = [scene.by_hand(name, tree).out for name in scene.lab.names]
    assert after == before, (before, after)
    return {"code_of_the_plan": said.code}


def failed_start(scene: Scene) -> Facts:
    """A release whose program ends at once fails: the former one serves again, and logs are kept of every rank."""
    failed = scene.deploy(BAD)
    assert failed.code == 1, failed
    assert FIRST in failed.err, failed.err
    scene.expect(FIRST)
    kept = [scene.lab.derive("logs", name, "--former") for name in scene.lab.names]
    assert {one.code for one in kept} == {0}, kept
    assert "no-such-option" in "".join(one.out for one in kept), kept
    return {}


def interrupted(scene: Scene) -> Facts:
    """Ctrl-C after the former release was stopped brings it back, with exit code 130."""
    running = scene.lab.start(*scene.command(SECOND, "--replace"))

    def act(line: str) -> bool:
        if "  start " in line:
            running.signal(signal.SIGINT)
            return True
        return False

    cut = scene.watched(running, act)
    assert cut.code == 130, cut.text
    scene.expect(FIRST)
    return {}


def drifted(scene: Scene) -> Facts:
    """A container that was started again by hand with another variable is reported, and not repaired."""
    node = scene.lab.names[0]
    start = (
        f"systemctl stop derive-{SERVICE}.service; docker rm -f {SERVICE} >/dev/null 2>&1 || true;"
        f" bash /var/lib/derive/{SERVICE}/current/run --detach --env=BY_HAND=1"
    )
    scene.by_hand(node, start).answer  # noqa: B018 - it must succeed
    found = scene.lab.derive("drift", SERVICE)
    assert found.code == 1, found
    assert "BY_HAND" in found.out, found.out
    assert node in found.out, found.out
    with scene.lab.engine(node) as client:
        assert "BY_HAND=1" in client.containers.get(SERVICE).attrs["Config"]["Env"], "it was repaired"
    scene.deploy(FIRST).answer  # noqa: B018 - it must succeed
    assert scene.lab.derive("drift", SERVICE).code == 0
    return {}


def stopped(scene: Scene) -> Facts:
    """A service is stopped on all nodes, status says so with exit code 0, and a deploy starts it again."""
    scene.lab.derive("stop", SERVICE).answer  # noqa: B018 - a plan
    scene.expect(FIRST)
    scene.lab.derive("stop", SERVICE, "--apply").answer  # noqa: B018 - it must succeed
    assert set(scene.launches().values()) == {None}
    assert scene.kind() == "stopped"
    scene.lab.derive(*scene.command(FIRST)).answer  # noqa: B018 - nothing runs, so there is nothing to replace
    scene.expect(FIRST)
    return {}


def one_rank_dies(scene: Scene) -> Facts:
    """The death of one rank stops all others cleanly, and the incident names the one that died first."""
    node = scene.lab.names[1]
    running = scene.lab.start("supervise", SERVICE, "--restarts", "0")
    try:
        time.sleep(4)
        assert running.process.poll() is None, "it does not watch"
        with scene.lab.engine(node) as client:
            client.containers.get(SERVICE).kill()
        stream = running.process.stdout
        assert stream is not None
        text = stream.read().decode(errors="replace")
        code = running.process.wait(timeout=120)
    finally:
        if running.process.poll() is None:
            running.signal(signal.SIGKILL)
    assert code == 1, text
    assert node in text, text
    assert set(scene.launches().values()) == {None}, "not all ranks were stopped"
    scene.deploy(FIRST).answer  # noqa: B018 - it must succeed
    scene.expect(FIRST)
    return {}


def two_operators(scene: Scene) -> Facts:
    """Of two deploys at once one goes through, and the other is refused by the lease, naming who has it."""
    first = scene.lab.start(*scene.command(SECOND, "--replace"))
    second: list[object] = []

    def act(line: str) -> bool:
        if "  facts " in line:
            second.append(scene.deploy(FIRST))
            return True
        return False

    cut = scene.watched(first, act)
    (refused,) = second
    assert cut.code == 0, cut.text
    assert getattr(refused, "code", 0) in {1, 3}, refused
    assert "operator@spark1" in getattr(refused, "err", ""), refused
    scene.expect(SECOND)
    return {}


def old_names_adopted(scene: Scene) -> Facts:
    """A container and guard with the names of before are replaced by a deploy, and come back where that fails."""
    scene.lab.derive("stop", SERVICE, "--apply").answer  # noqa: B018 - it must succeed
    node = scene.lab.names[0]
    scene.start_foreign(node)
    refused = scene.lab.derive(*scene.command(FIRST))
    assert refused.code in {1, 2}, refused
    assert "--replace" in refused.err, refused
    assert scene.guards_foreign(node)
    failed = scene.deploy(BAD, "--change-shape")
    assert failed.code == 1, failed
    assert "undo" in failed.err, failed.err
    scene.expect_foreign(node)
    scene.deploy(FIRST, "--change-shape").answer  # noqa: B018 - it must succeed
    scene.expect(FIRST)
    assert not scene.guards_foreign(node)
    names = scene.by_hand(node, "docker ps --all --format '{{.Names}}'").answer.split()
    assert f"{SERVICE}-before-derive" in names, names
    return {"kept": f"{SERVICE}-before-derive"}
