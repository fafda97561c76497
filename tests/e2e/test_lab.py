# SPDX-License-Identifier: Apache-2.0
"""Deploys of a release at a site of three nodes, built from namespaces: real SSH, systemd, Docker and cables.

The nodes are of every kind: with systemd and overlay2, with the containerd store, and without systemd. FAKE are RDMA
devices and the amount of memory. Tests build on each other in their order. `make lab` has all that can go wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lab.everything import KINDS
from lab.project import FIRST, SECOND, make_project
from lab.scene import SERVICE, Scene
from lab.testbed import lab, why_unavailable
from support.derived import AMD64, Derived
from support.require import skip_or_fail

pytestmark = pytest.mark.docker

BY_HAND = (
    f"systemctl stop derive-{SERVICE}.service; docker rm -f {SERVICE} >/dev/null 2>&1 || true;"
    f" bash /var/lib/derive/{SERVICE}/current/run --detach --env=BY_HAND=1"
)

SEND = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO: a packet may not be split
sender.sendto(bytes(int(sys.argv[1])), (sys.argv[2], 9))
"""


@pytest.fixture(scope="module")
def scene(derived: Derived) -> Iterator[Scene]:
    if (reason := why_unavailable()) is not None:
        skip_or_fail(reason)
    with lab("triangle", store=derived.store, kinds=KINDS) as made:
        yield Scene(made, make_project(made, (FIRST, SECOND)))


def test_cables_carry_9000_bytes_whole_and_lead_where_the_site_file_says(scene: Scene) -> None:
    sent = [scene.lab.run("spark1", ["python3", "-c", SEND, size, "10.12.1.2"]) for size in ("8972", "8973")]
    assert [one.code for one in sent] == [0, 1]
    assert "Message too long" in sent[1].err
    seen = json.loads(scene.lab.run("spark1", ["sudo", "-n", "lldpctl", "-f", "json0"]).answer)
    ends = {
        (port["name"], port["chassis"][0]["name"][0]["value"], port["port"][0]["descr"][0]["value"])
        for port in seen["lldp"][0]["interface"]
    }
    assert ends == {
        ("enp1s0f0np0", "spark2", "enp1s0f1np1"),
        ("enP2p1s0f0np0", "spark2", "enP2p1s0f1np1"),
        ("enp1s0f1np1", "spark3", "enp1s0f0np0"),
        ("enP2p1s0f1np1", "spark3", "enP2p1s0f0np0"),
    }
    facts = [f"/home/operator/{name}.json" for name in scene.lab.names]
    assert scene.lab.derive("site", "check", "--facts", *facts).code == 0


def test_a_release_is_deployed_to_nodes_of_every_kind_and_seen_to_serve(scene: Scene) -> None:
    planned = scene.lab.derive("deploy", FIRST, "--shape", scene.project.shape)
    assert planned.code == 0, planned
    assert set(scene.launches().values()) == {None}, "a plan changes nothing"
    done = scene.lab.derive(*scene.command(FIRST))
    assert done.code == 0, done.err
    scene.expect(FIRST)


def test_a_deploy_has_asked_every_node_for_its_neighbours(scene: Scene) -> None:
    for name in scene.lab.names:
        kept = f"/home/operator/.local/share/derive/sites/lab/facts/{name}.json"
        facts = json.loads(scene.lab.run("spark1", ["cat", kept]).answer)["facts"]
        assert {one["host"] for one in facts["neighbours"]} == {*scene.lab.names} - {name}


def test_one_image_is_the_same_on_overlay2_and_on_containerd(scene: Scene, derived: Derived) -> None:
    shown = {node["node"]: node["container"]["image_ids"] for node in scene.status()["nodes"]}
    ids = {}
    for name in scene.lab.names:
        with scene.lab.engine(name) as client:
            ids[name] = str(client.containers.get(SERVICE).attrs["Image"])
    assert ids["spark1"] == ids["spark3"] != ids["spark2"] == derived.digests[AMD64]
    assert all(ids[name] in shown[name] and derived.digests[AMD64] in shown[name] for name in ids), shown


def test_what_was_changed_by_hand_is_reported_and_not_repaired(scene: Scene) -> None:
    assert scene.lab.derive("drift", SERVICE).code == 0
    scene.by_hand("spark1", BY_HAND).answer  # noqa: B018 - it must succeed
    found = scene.lab.derive("drift", SERVICE)
    assert found.code == 1, found
    assert [line.split()[0] for line in found.out.splitlines() if "BY_HAND" in line] == ["spark1"]
    with scene.lab.engine("spark1") as client:
        assert "BY_HAND=1" in client.containers.get(SERVICE).attrs["Config"]["Env"]


def test_a_release_is_brought_ahead_while_another_goes_on_serving(scene: Scene) -> None:
    before = scene.launches()
    done = scene.lab.derive("deploy", SECOND, "--shape", scene.project.shape, "--pull-only", "--apply")
    assert done.code == 0, done.err
    assert scene.launches() == before
    asked = scene.lab.derive("deploy", SECOND, "--shape", scene.project.shape, "--replace", "--why-not")
    assert asked.code == 0, asked


def test_another_release_takes_its_place_with_consent_alone_and_ends_the_log_that_is_followed(scene: Scene) -> None:
    refused = scene.lab.derive(*scene.command(SECOND))
    assert (refused.code, "--replace" in refused.err) == (1, True), refused
    following = scene.lab.start("logs", "spark2", "--follow")
    done = scene.deploy(SECOND)
    assert done.code == 0, done.err
    scene.expect(SECOND)
    followed = following.process.communicate(timeout=60)[0].decode()
    assert (following.process.returncode, "ended" in followed) == (0, True), followed


def test_a_rollback_brings_back_the_last_healthy_release(scene: Scene) -> None:
    done = scene.lab.derive("rollback", SERVICE, "--apply")
    assert done.code == 0, done.err
    scene.expect(FIRST)


def test_a_deploy_that_is_killed_is_told_by_status_and_made_good_by_the_next(scene: Scene) -> None:
    cut = scene.killed_at("start")
    assert cut.code != 0
    situation = scene.status()["situation"]
    assert (situation["kind"], situation["wanted"]["release"]) == ("interrupted", SECOND)
    assert situation["step"] in {"arm", "start"}, "a node remembers a step once it has begun there"
    done = scene.deploy(SECOND)
    assert done.code == 0, done.err
    scene.expect(SECOND)
