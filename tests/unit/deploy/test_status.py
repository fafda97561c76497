# SPDX-License-Identifier: Apache-2.0
"""What each node of a service runs, and whether that is as it should be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from derive.canonical import Digest, encode
from derive.deploy.model import NodeState
from derive.deploy.recovery import Kind, LeaseSeen
from derive.deploy.status import NodeSeen, Status, guard_text, services_of, status, status_text
from support.ended import GOOD_GUARD, SERVED, container, ended

STATE = NodeState(
    service="probe", deploy="d1", step="serving", wanted=SERVED, current=SERVED, healthy=(SERVED,), at_s=1796058000
)
LEASE = LeaseSeen(owner="operator@spark1 (process 7): derive deploy r8", nonce="n", alive=True, expires_in_s=40)


def seen(number: int, **changes: Any) -> NodeSeen:
    """Return a node that serves as it should, but for what is said."""
    one = NodeSeen(node=f"spark{number}", rank=number - 1, state=STATE, containers=(container(),), guards=(GOOD_GUARD,))
    return replace(one, **changes)


def judged(*second: NodeSeen) -> Status:
    """Judge a site whose first node is well."""
    return status("probe", [seen(1), *(second or (seen(2),))])


def test_nodes_that_all_run_the_same_and_are_guarded_are_well() -> None:
    found = judged()
    assert (found.is_well, found.is_amiss, found.amiss) == (True, False, ())
    assert found.situation.kind is Kind.SERVING


def test_the_table_has_a_row_for_each_node_with_release_and_launch() -> None:
    lines = status_text(judged()).splitlines()
    row = next(line for line in lines if line.startswith("spark2"))
    words = [word for word in row.split("  ") if word]
    assert [word.strip() for word in words] == [
        "spark2",
        "1",
        "r7",
        SERVED.launch_bundle.short,
        "running",
        "2026-11-30 17:00:00",
        SERVED.image.short,
        "steady, guarding",
    ]


def test_what_to_do_next_is_the_last_line() -> None:
    assert status_text(judged()).splitlines()[-1].startswith("next  ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"containers": ()}, "no container, and one is to run"),
        ({"containers": (ended(7, 137, oom_killed=True),)}, "killed by the kernel for want of memory (OOM)"),
        (
            {"containers": (container(labels={"io.derive.launch-bundle": "sha256:" + "9" * 64}),)},
            "runs the launch 9999",
        ),
        ({"containers": (container(image_ids=("sha256:" + "8" * 64,)),)}, "the engine knows it as 888888888888"),
        ({"containers": (container(labels={}),)}, "no deploy started this container"),
        ({"guards": (replace(GOOD_GUARD, alive=False),)}, "runs without a memory guard"),
        (
            {"guards": (replace(GOOD_GUARD, phase="startup"), replace(GOOD_GUARD, alive=False))},
            "the steady guard is not at work: sudo systemctl start derive-probe-guard-steady",
        ),
        ({"containers": (container(oom_killed=True),)}, "the kernel killed a process in the container"),
        ({"damaged": "its state cannot be read: not JSON"}, "its state cannot be read"),
    ],
)
def test_what_is_not_as_it_should_be_is_said_of_its_node(changes: dict[str, Any], words: str) -> None:
    found = judged(seen(2, **changes))
    (node, what) = found.amiss[0]
    assert node == "spark2"
    assert words in what
    assert (found.is_well, found.is_amiss) == (False, True)
    assert words in status_text(found)


def test_an_image_known_by_its_configs_digest_too_is_the_same_image_on_either_store() -> None:
    of_overlay2 = container(image_ids=("sha256:" + "5" * 64, str(SERVED.image)))
    of_containerd = container(image_ids=(str(SERVED.image),))
    assert judged(seen(2, containers=(of_overlay2,))).is_well
    assert judged(seen(2, containers=(of_containerd,))).is_well


def test_a_node_that_cannot_be_asked_is_neither_well_nor_known_to_be_amiss() -> None:
    found = judged(seen(2, trouble="no route to host"))
    assert (found.is_well, found.is_amiss) == (False, False)
    assert ("spark2", "cannot be asked: no route to host") in found.amiss


def test_a_deploy_that_was_cut_off_is_amiss_and_names_its_step() -> None:
    cut = replace(
        STATE, step="start", deploy="d2", wanted=replace(SERVED, release="r8", launch_bundle=Digest("7" * 64))
    )
    found = judged(seen(2, state=cut, containers=()))
    assert found.is_amiss
    assert "start" in status_text(found)
    assert "r8" in status_text(found)


def test_whoever_deploys_is_named_with_the_nodes_and_the_time_left() -> None:
    text = status_text(status("probe", [seen(1, lease=LEASE), seen(2, lease=LEASE)]))
    assert "lease  operator@spark1 (process 7): derive deploy r8: spark1, spark2, for 40.0 s more" in text


def test_a_lease_that_ran_out_is_said_to_be_expired() -> None:
    text = status_text(judged(seen(2, lease=replace(LEASE, alive=False, expires_in_s=0))))
    assert "derive deploy r8: spark2, expired" in text


def test_a_lease_whose_owner_is_gone_is_said_to_be_so() -> None:
    text = status_text(judged(seen(2, lease=replace(LEASE, alive=False))))
    assert "derive deploy r8: spark2, its process is gone" in text


def test_a_stopped_service_is_well() -> None:
    stopped = replace(STATE, step="stopped")
    found = status("probe", [seen(n, state=stopped, containers=(ended(7, 143),), guards=()) for n in (1, 2)])
    assert found.situation.kind is Kind.STOPPED
    assert found.is_well


def test_services_are_those_of_states_and_of_containers_that_deploys_started() -> None:
    other, foreign = container(name="other"), container(name="theirs", labels={})
    aside = container(name="probe-before-derive")
    assert services_of([seen(1, containers=(other, foreign, aside))], ["probe"]) == ("other", "probe")


def test_the_steady_guard_is_told_where_two_are_at_work() -> None:
    startup = replace(GOOD_GUARD, phase="startup", says="waiting")
    assert guard_text((GOOD_GUARD, startup)) == "steady, guarding"
    assert guard_text((startup,)) == "startup, waiting"
    assert guard_text(()) == "-"
    assert guard_text((replace(startup, alive=False),)) == "none at work"


def test_a_status_can_stand_in_a_record() -> None:
    found = judged(seen(2, lease=LEASE, containers=(ended(7),)), seen(3, trouble="off", containers=()))
    assert encode(found.document())
    assert found.document()["well"] is False


def test_while_one_deploys_nothing_is_amiss_and_that_is_said() -> None:
    going = replace(STATE, step="start")
    both = [seen(number, lease=LEASE, state=going, containers=(), guards=()) for number in (1, 2)]
    found = status("probe", both)
    assert (found.situation.kind, found.is_well, found.is_amiss) == (Kind.DEPLOYING, True, False)
    assert "is at work" in status_text(found)


def test_while_one_deploys_a_node_that_cannot_be_asked_is_not_known_to_be_well() -> None:
    found = status("probe", [seen(1, lease=LEASE), seen(2, trouble="no route to host")])
    assert (found.situation.kind, found.is_well, found.is_amiss) == (Kind.DEPLOYING, False, False)


def test_what_was_moved_aside_and_runs_again_is_amiss() -> None:
    aside = container(name="probe-before-derive", labels={})
    (said,) = [what for node, what in judged(seen(2, containers=(container(), aside))).amiss if node == "spark2"]
    assert said.startswith("probe-before-derive, which was moved aside, runs again, and nothing guards it: derive stop")


def test_a_halted_guard_is_none() -> None:
    halted = replace(GOOD_GUARD, alive=False, pid=17)
    (said,) = [what for node, what in judged(seen(2, guards=(halted,))).amiss if node == "spark2"]
    assert "(steady) is halted by a signal, and guards nothing: on the node: sudo kill -CONT 17" in said


def test_of_a_stopped_service_a_node_that_cannot_be_asked_is_not_known_and_nothing_is_amiss() -> None:
    stopped = replace(STATE, step="stopped")
    gone = seen(2, trouble="off", state=None, containers=(), guards=())
    found = status("probe", [seen(1, state=stopped, containers=(), guards=()), gone])
    assert not found.is_amiss
    assert not found.is_well
