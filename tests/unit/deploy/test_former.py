# SPDX-License-Identifier: Apache-2.0
"""What a deploy goes back to when it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from derive.canonical import Digest
from derive.deploy.former import STOPPED, Standing, changes_machines, former_of, launches_of, mended
from derive.deploy.model import Aside, Before, NodeState, Served, Step, Stood
from support.deploying import container_of, target


def _served(name: str) -> Served:
    digest = Digest(name * 64)
    return Served(
        release=f"r{name}",
        release_digest=digest,
        recipe="probe",
        shape="triangle",
        image=digest,
        shape_bundle=digest,
        launch_bundle=digest,
    )


def _state(step: str, *healthy: str, wanted: str | None = None) -> NodeState:
    newest = _served(healthy[0]) if healthy else None
    return NodeState(
        service="probe",
        deploy="d",
        step=step,
        wanted=_served(wanted) if wanted else newest,
        current=newest,
        healthy=tuple(map(_served, healthy)),
        at_s=1,
    )


def test_what_serves_is_gone_back_to_and_started() -> None:
    former = former_of({"a": _state("serving", "1"), "b": _state("serving", "1")}, {}, (), service="probe")
    assert former.served == _served("1")
    assert former.starts


def test_where_nothing_was_ever_deployed_nothing_is_started() -> None:
    former = former_of({"a": None, "b": None}, {}, (), service="probe")
    assert former.served is None
    assert not former.starts


def test_a_service_that_somebody_stopped_stays_stopped() -> None:
    former = former_of({"a": _state(STOPPED, "1"), "b": _state(STOPPED, "1")}, {}, (), service="probe")
    assert former.served == _served("1")
    assert not former.starts


def test_a_container_that_no_deploy_started_is_no_reason_to_start_what_somebody_stopped() -> None:
    launch = target().bundle.launches[0]
    foreign, ours = container_of(launch, labels={}), container_of(launch)
    states = {"a": _state(STOPPED, "1")}
    assert not former_of(states, {"a": (foreign,)}, (), service="probe").starts
    assert former_of(states, {"a": (ours,)}, (), service="probe").starts


def test_after_a_deploy_that_was_cut_off_what_was_healthy_before_it_is_gone_back_to() -> None:
    states = {"a": _state("start", "1", wanted="2"), "b": _state("ready", "1", wanted="2")}
    former = former_of(states, {}, (), service="probe")
    assert former.served == _served("1")
    assert former.starts


def test_where_one_node_was_told_that_all_is_well_and_another_was_not_both_go_back_to_what_both_know() -> None:
    states = {"a": _state("serving", "2", "1"), "b": _state("observe", "1", wanted="2")}
    assert former_of(states, {}, (), service="probe").served == _served("1")


def test_a_node_that_was_set_up_anew_has_nothing_to_go_back_to() -> None:
    assert former_of({"a": _state("serving", "1"), "b": None}, {}, (), service="probe").served is None


def test_only_from_the_step_stop_on_is_anything_that_runs_touched() -> None:
    assert [step for step in Step if not changes_machines(step)] == [
        Step.LEASE,
        Step.FACTS,
        Step.PREFLIGHT,
        Step.DISTRIBUTE,
        Step.STAGE,
    ]


def test_a_container_stands_aside_under_a_name_of_its_own() -> None:
    standing = Standing(node="a", kind=Stood.CONTAINER, name="ds41f", container="1", running=True)
    assert standing.aside == "ds41f-before-derive"


def _before(*, running: bool, aside: tuple[Aside, ...] = ()) -> Before:
    return Before(current=_served("1"), running=running, aside=aside)


def _cut(running: bool, step: str = "start") -> NodeState:
    return replace(_state(step, "1", wanted="2"), before=_before(running=running))


@pytest.mark.parametrize("running", [True, False])
def test_after_a_deploy_that_was_cut_off_what_was_to_run_before_it_decides_not_what_runs_now(running: bool) -> None:
    launch = target().bundle.launches[0]
    states = {"a": _cut(running), "b": _state(STOPPED, "1")}
    former = former_of(states, {"a": (container_of(launch),)}, (), service="probe")
    assert former.starts is running
    assert former.before("a").running is running


def test_a_deploy_that_did_not_come_back_leaves_what_was_before_it_to_be_gone_back_to() -> None:
    assert not former_of({"a": _cut(running=False, step="failed")}, {}, (), service="probe").starts


def test_a_container_that_runs_in_place_of_the_service_comes_back_and_not_the_service() -> None:
    standing = Standing(node="a", kind=Stood.CONTAINER, name="probe", container="1", running=True)
    states = {"a": _state("serving", "1")}
    assert not former_of(states, {}, (standing,), service="probe").starts
    other = replace(standing, name="notebook")
    assert former_of(states, {}, (other,), service="probe").starts


def test_what_a_node_was_in_is_carried_from_one_deploy_that_was_cut_off_to_the_next() -> None:
    standing = Standing(node="a", kind=Stood.CONTAINER, name="ds41f", container="1", running=True, guard="g.service")
    first = former_of({"a": _state(STOPPED, "1"), "b": None}, {}, (standing,), service="probe").before("a")
    assert first.aside == (Aside(kind="container", name="ds41f", running=True, guard="g.service"),)
    cut = replace(_state("activate", "1", wanted="2"), current=_served("2"), before=first)
    again = former_of({"a": cut, "b": None}, {}, (standing,), service="probe")
    assert again.before("a") == first
    assert again.before("b").aside == ()


def _mended(lost: NodeState | None = None, *, files: str = "1", link: str | None = "1", **others: Any) -> Any:
    states = {"a": replace(_state("serving", "1", "0"), **others), "b": lost}
    there = {"b": {_served(one).launch_bundle for one in files}}
    return mended(states, there, {"b": None if link is None else _served(link).launch_bundle})["b"]


def test_what_one_node_forgot_and_has_the_files_of_the_others_remember_for_it() -> None:
    found = _mended()
    assert (found.current, found.healthy, found.step) == (_served("1"), (_served("1"),), "serving")
    assert former_of({"a": _state("serving", "1"), "b": found}, {}, (), service="probe").starts


def test_what_a_node_was_set_up_anew_without_is_nothing_that_it_was_well_with() -> None:
    assert _mended(files="", link=None) is None


def test_what_a_node_remembers_itself_counts_and_what_stood_beside_another_is_not_beside_it() -> None:
    own = _state("stop", "0")
    assert _mended(own) == own
    aside = Aside(kind="container", name="c", running=True, guard=None)
    assert _mended(before=_before(running=True, aside=(aside,))).before == _before(running=True)


def test_the_files_that_a_container_was_started_from_are_known_by_its_label() -> None:
    launch = target().bundle.launches[0]
    odd = container_of(launch, labels={"io.derive.launch-bundle": "x"})
    assert launches_of((container_of(launch), odd), "probe") == {target().bundle.launch}
    assert launches_of((container_of(launch),), "other") == frozenset()


def test_something_that_ran_and_cannot_be_gone_back_to_is_lost_and_nothing_that_did_not() -> None:
    launch = target().bundle.launches[0]
    states = {"a": _state("serving", "1"), "b": None}
    runs, ended = {"a": (container_of(launch),)}, {"a": (container_of(launch, state="exited"),)}
    assert former_of(states, runs, (), service="probe").lost
    assert not former_of(states, ended, (), service="probe").lost
    assert not former_of({"a": None, "b": None}, {"a": ()}, (), service="probe").lost
    assert not former_of({"a": _state("serving", "1")}, runs, (), service="probe").lost
