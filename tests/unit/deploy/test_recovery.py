# SPDX-License-Identifier: Apache-2.0
"""What a site is in the middle of, and what to do next, from whatever its nodes remember and run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from derive.canonical import encode
from derive.deploy.model import Container, NodeState, Served, Step
from derive.deploy.recovery import Kind, LeaseSeen, Situation, judge
from derive.deploy.situation import told_of_each_other
from support.deploying import container_of, served, state, target

OLD, NEW = served("probe-1", "1"), served("probe-2", "2")
NODES = ("spark1", "spark2", "spark3")
LEASE = LeaseSeen(owner="ada@spark1 (process 7): derive deploy probe-2", nonce="n", alive=True, expires_in_s=40)


def runs(one: Served | None, name: str = "probe", **changes: Any) -> tuple[Container, ...]:
    """Return the containers of a node that runs a release; None: one that no deploy started."""
    launch = target().bundle.launches[0]
    labels = {} if one is None else {"io.derive.launch-bundle": str(one.launch_bundle)}
    return (container_of(launch, **{"name": name, "labels": labels, **changes}),)


def judged(
    states: Mapping[str, NodeState | None] | NodeState | None,
    containers: Mapping[str, Any] | tuple[Container, ...] | None,
    lease: LeaseSeen | None = None,
) -> Situation:
    """Judge three nodes; what is given once is the same on all of them."""
    remembered = states if isinstance(states, Mapping) else dict.fromkeys(NODES, states)
    seen = containers if isinstance(containers, Mapping) else dict.fromkeys(NODES, containers)
    return judge(remembered, seen, dict.fromkeys(NODES, lease), service="probe")


def spread(*values: Any) -> dict[str, Any]:
    return dict(zip(NODES, values, strict=True))


SERVING = state()


def test_one_node_that_knows_that_a_deploy_has_ended_tells_of_the_leases_of_all() -> None:
    gone = replace(LEASE, alive=False, is_gone=True, expires_in_s=0)
    other = replace(LEASE, nonce="m")
    assert told_of_each_other(spread(gone, LEASE, None)) == spread(
        gone, replace(LEASE, alive=False, is_gone=True), None
    )
    assert told_of_each_other(spread(gone, other, LEASE))["spark2"] == other


def test_one_lease_that_has_expired_says_nothing_of_the_others() -> None:
    expired = replace(LEASE, alive=False, expires_in_s=0)
    assert told_of_each_other(spread(expired, LEASE, LEASE)) == spread(expired, LEASE, LEASE)


def test_all_nodes_run_what_they_remember_serving() -> None:
    found = judged(SERVING, runs(NEW))
    assert (found.kind, found.served, found.former) == (Kind.SERVING, NEW, OLD)
    assert found.headline == "probe-2 (triangle) serves on 3 nodes"
    assert found.next == "nothing to do"


def test_nothing_was_ever_deployed() -> None:
    found = judged(None, ())
    assert (found.kind, found.served, found.former) == (Kind.NOTHING, None, None)
    assert found.next == "deploy one: derive deploy RELEASE --shape SHAPE --apply"


def test_a_service_that_was_stopped_can_be_started_again() -> None:
    found = judged(state("stopped"), runs(NEW, state="exited", exit_code=0))
    assert found.kind is Kind.STOPPED
    assert found.headline == "probe is stopped; probe-2 ran last"
    assert found.next == "start it: derive deploy probe-2 --shape triangle --apply"


def test_one_rank_that_has_ended_is_said_with_where_to_look() -> None:
    found = judged(SERVING, spread(runs(NEW), runs(NEW, state="exited", exit_code=137), runs(NEW)))
    assert found.kind is Kind.MIXED
    assert found.headline == "probe-2 is to serve; spark1, spark3 run probe-2; spark2 runs nothing"
    assert found.next.startswith("see why: derive logs spark2; then derive deploy probe-2 --shape triangle --apply")


def test_nodes_that_run_different_launches_are_mixed() -> None:
    found = judged(spread(SERVING, SERVING, state(current=OLD, wanted=OLD)), spread(runs(NEW), runs(NEW), runs(OLD)))
    assert found.kind is Kind.MIXED
    assert "spark3 runs probe-1" in found.headline


@pytest.mark.parametrize("step", [Step.DISTRIBUTE, Step.STAGE])
def test_a_deploy_that_was_cut_off_before_anything_stopped_left_the_former_serving(step: Step) -> None:
    before = state(step.value, wanted=NEW, current=OLD, healthy=(OLD,))
    found = judged(before, runs(OLD))
    assert (found.kind, found.step, found.served, found.wanted) == (Kind.INTERRUPTED, step.value, OLD, NEW)
    assert found.headline == f"the deploy of probe-2 was cut off at the step {step.value}; probe-1 goes on serving"
    assert found.next == "deploy it again: derive deploy probe-2 --shape triangle --apply --replace"


def test_a_deploy_that_was_cut_off_later_says_what_each_node_runs_and_both_ways_out() -> None:
    begun = state("start", wanted=NEW, current=NEW, healthy=(OLD,))
    stopped = state("stop", wanted=NEW, current=OLD, healthy=(OLD,))
    found = judged(spread(begun, stopped, begun), spread((), runs(OLD), runs(NEW)))
    assert (found.kind, found.step, found.former) == (Kind.INTERRUPTED, "start", OLD)
    assert found.headline == (
        "the deploy of probe-2 was cut off at the step start; "
        "spark1 runs nothing; spark2 runs probe-1; spark3 runs probe-2"
    )
    assert found.next == (
        "deploy it again: derive deploy probe-2 --shape triangle --apply --replace; "
        "or go back: derive deploy probe-1 --shape triangle --apply --replace"
    )


def test_the_newest_deploy_counts_where_nodes_are_in_two() -> None:
    older = state("start", deploy="d1", wanted=OLD, current=OLD, healthy=(), at_s=1)
    found = judged(spread(older, state("stage", wanted=NEW, current=OLD, healthy=()), older), ())
    assert (found.step, found.wanted) == ("stage", NEW)


def test_a_step_that_is_not_known_is_a_cut_off_deploy_all_the_same() -> None:
    found = judged(state("polish", wanted=NEW), runs(NEW))
    assert (found.kind, found.step) == (Kind.INTERRUPTED, "polish")


def test_whoever_has_the_lease_is_at_work_and_is_waited_for() -> None:
    found = judged(state("start", wanted=NEW, current=NEW), runs(NEW), LEASE)
    assert found.kind is Kind.DEPLOYING
    assert found.headline == f"{LEASE.owner} is at work, probe-2 at the step start"
    assert "40 s" in found.next


def test_a_lease_whose_owner_is_gone_holds_nothing_up() -> None:
    assert judged(SERVING, runs(NEW), replace(LEASE, alive=False)).kind is Kind.SERVING


def test_a_deploy_that_failed_both_ways_is_failed() -> None:
    found = judged(state("failed", wanted=NEW, current=OLD, healthy=(OLD,)), ())
    assert (found.kind, found.wanted, found.former) == (Kind.FAILED, NEW, OLD)
    assert found.next.endswith("or go back: derive deploy probe-1 --shape triangle --apply")


def test_a_container_that_no_deploy_started_is_foreign() -> None:
    found = judged(None, runs(None))
    assert found.kind is Kind.FOREIGN
    assert "--replace" in found.next
    assert "derive stop --container probe --apply" in found.next


def test_a_foreign_container_beside_ours_is_mixed() -> None:
    found = judged(SERVING, spread(runs(NEW), runs(None), runs(NEW)))
    assert found.kind is Kind.MIXED
    assert "spark2 runs a container that no deploy started" in found.headline


def test_containers_of_other_names_are_of_no_concern() -> None:
    assert judged(None, runs(None, name="kraken")).kind is Kind.NOTHING


def test_one_node_that_cannot_be_asked_makes_serving_unknown() -> None:
    found = judged(SERVING, spread(runs(NEW), None, runs(NEW)))
    assert (found.kind, found.served) == (Kind.UNKNOWN, NEW)
    assert found.headline == "probe-2 serves on spark1, spark3; spark2 cannot be asked"


def test_no_node_can_be_asked() -> None:
    assert judged(None, None).kind is Kind.UNKNOWN


def test_a_service_that_runs_though_it_was_stopped_is_said() -> None:
    found = judged(state("stopped"), runs(NEW))
    assert found.kind is Kind.MIXED
    assert found.headline == "it was stopped, and spark1, spark2, spark3 run probe-2"


def test_what_runs_and_no_node_remembers_is_named_by_its_launch() -> None:
    found = judged(None, runs(NEW))
    assert found.kind is Kind.MIXED
    assert f"run {NEW.launch_bundle.short}" in found.headline


def test_what_can_be_gone_back_to_is_what_every_node_was_well_with() -> None:
    older = served("probe-0", "0")
    states = spread(
        state("failed", wanted=NEW, healthy=(OLD, older)),
        state("failed", wanted=NEW, healthy=(older,)),
        state("failed", wanted=NEW, healthy=(OLD, older)),
    )
    assert judged(states, ()).former == older


def test_a_situation_is_part_of_a_record() -> None:
    assert encode(judged(SERVING, runs(NEW)).document())
