# SPDX-License-Identifier: Apache-2.0
"""From what was asked and seen to a plan, and to what is put aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from derive.deploy.conduct import is_left
from derive.deploy.consents import Consent
from derive.deploy.model import Aside, Before, Container, NodeState, Stood
from derive.deploy.plan import Plan, Seen
from derive.deploy.planning import Asked, planned, standing_in_the_way
from derive.deploy.policy import Standing
from derive.deploy.recovery import judge
from derive.deploy.show_plan import plan_text
from derive.errors import Problem
from derive.recipes.resolved import Promotion
from derive.records.chain import read_chain
from support.deploying import NOW_S, container_of, machines, served, serving, site_of, state, target
from support.released import release_of

PROBE = target()
NODES = tuple(launch.node for launch in PROBE.bundle.launches)
OLD = served("probe-1", "1")
_STANDING = Standing(
    chain=read_chain({}),
    release=release_of(PROBE.served.image),
    promotion=Promotion(),
    published=True,
    now_s=NOW_S,
    branch="origin/main",
)


def asked(*consents: Consent, adopt: str | None = None) -> Asked:
    return Asked(
        target=PROBE,
        site=site_of(PROBE),
        standing=_STANDING,
        history=(),
        consents=frozenset(consents),
        adopt=adopt,
    )


def seen(containers: Mapping[str, Sequence[Container]], states: Mapping[str, NodeState | None] | None = None) -> Seen:
    known: Mapping[str, NodeState | None] = states or dict.fromkeys(NODES)
    return Seen(
        machines=machines(PROBE),
        containers={name: containers.get(name, ()) for name in NODES},
        states=known,
        moves=dict.fromkeys(NODES, 0),
        situation=judge(known, containers, service=PROBE.service),
        seen_s=NOW_S,
    )


def by_hand(**changes: Any) -> Container:
    """Return a container that no deploy started, with the service's name."""
    return container_of(PROBE.bundle.launches[0], labels={}, **changes)


def needs(of: Asked, found: Seen) -> set[Consent]:
    return {one.consent for one in planned(of, found).needed}


def test_a_container_of_the_name_that_no_deploy_started_is_put_aside_with_its_guard() -> None:
    (one,) = standing_in_the_way(asked(), seen({NODES[0]: (by_hand(),)}))
    assert (one.node, one.kind, one.name, one.running) == (NODES[0], Stood.CONTAINER, "probe", True)
    assert one.guard == "probe-memguard.service"


def test_what_a_deploy_started_under_the_name_is_not_put_aside() -> None:
    assert standing_in_the_way(asked(), seen(serving(PROBE))) == ()


def test_a_container_that_is_named_is_put_aside_whatever_it_is() -> None:
    other = by_hand(name="notebook", entrypoint=(), arguments=("sleep", "9"), host={})
    found = seen({NODES[1]: (other,)})
    assert standing_in_the_way(asked(), found) == ()
    (one,) = standing_in_the_way(asked(adopt="notebook"), found)
    assert (one.node, one.name) == (NODES[1], "notebook")


def test_to_name_what_stands_in_the_way_is_to_agree_that_it_is_replaced() -> None:
    found = seen({NODES[0]: (by_hand(),)})
    assert Consent.REPLACE not in planned(asked(), found).given
    assert Consent.REPLACE in planned(asked(adopt="probe"), found).given


def _against(of: Asked, found: Seen) -> list[tuple[str, str]]:
    return [(one.node, one.id) for one in planned(of, found).findings]


def test_a_container_on_the_machines_network_that_is_named_gives_its_port_and_memory() -> None:
    other = by_hand(name="notebook", entrypoint=(), arguments=("serve",), host={"NetworkMode": "host"})
    found = seen({NODES[1]: (other,)})
    port = PROBE.bundle.launches[1].port
    busy = replace(found.machines[NODES[1]], listening=frozenset({port}), memory_available=1 << 20)
    found = replace(found, machines={**found.machines, NODES[1]: busy})
    assert _against(asked(adopt="notebook"), found) == []
    assert {check for _, check in _against(asked(), found)} >= {"port.free"}


@pytest.mark.parametrize("name", ["probe", "notebook", "probe-before-derive"])
def test_a_container_that_is_gone_once_it_has_stopped_is_not_put_aside(name: str) -> None:
    passing = by_hand(name=name, entrypoint=(), arguments=("serve",), host={"AutoRemove": True})
    found = seen({NODES[1]: (passing,)})
    assert _against(asked(Consent.REPLACE, adopt=name), found) == [(NODES[1], "container.kept")]
    assert _against(replace(asked(adopt=name), only_ahead=True), found) == []


def _cut(*, running: bool = True, **changes: Any) -> dict[str, NodeState | None]:
    """Return what nodes remember after a deploy was cut off that had put the container ``probe`` aside."""
    put = Aside(kind="container", name="probe", running=running, guard="probe-memguard.service")
    before = Before(current=None, running=False, aside=(put,))
    known: dict[str, Any] = {"step": "stop", "wanted": PROBE.served, "current": None, "healthy": (OLD,)}
    one = state(**{**known, "before": before, **changes})
    return dict.fromkeys(NODES, one)


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize(
    "there",
    [
        by_hand(name="probe-before-derive", state="exited"),
        by_hand(state="exited"),
    ],
    ids=["aside", "stopped-and-not-yet-renamed"],
)
def test_what_a_deploy_that_was_cut_off_put_aside_is_put_back_by_the_next_that_fails(
    there: Container, running: bool
) -> None:
    (one,) = standing_in_the_way(asked(), seen({NODES[0]: (there,)}, _cut(running=running)))
    assert (one.node, one.name, one.aside, one.running) == (NODES[0], "probe", "probe-before-derive", running)


def test_what_was_put_aside_by_a_deploy_that_went_well_stays_there() -> None:
    aside = by_hand(name="probe-before-derive", state="exited")
    known: dict[str, NodeState | None] = dict.fromkeys(NODES, state(step="serving"))
    assert standing_in_the_way(asked(), seen({NODES[0]: (aside,)}, known)) == ()


def test_a_restart_policy_is_remembered_while_its_container_stands_aside() -> None:
    always = {"RestartPolicy": {"Name": "always", "MaximumRetryCount": 0}}
    (one,) = standing_in_the_way(asked(), seen({NODES[0]: (by_hand(host=always),)}))
    assert one.remembered().restart == "always"
    known = state(step="stop", before=Before(current=None, running=False, aside=(one.remembered(),)))
    aside = by_hand(name="probe-before-derive", state="exited", host={})
    (again,) = standing_in_the_way(asked(), seen({NODES[0]: (aside,)}, {**dict.fromkeys(NODES), NODES[0]: known}))
    assert (again.name, again.restart) == ("probe", "always")


def test_what_was_put_aside_and_runs_again_is_stopped_under_its_name_and_does_not_come_back() -> None:
    found = seen({NODES[0]: (by_hand(name="probe-before-derive"),)})
    (one,) = standing_in_the_way(asked(), found)
    assert (one.aside, one.running, one.was_aside) == ("probe-before-derive", False, True)
    assert one.guard == "probe-memguard.service"
    plan = planned(asked(Consent.REPLACE), found)
    assert plan.aside == ()
    assert "probe-before-derive" in plan_text(plan)
    assert not [one for one in plan.problems() if "kept as" in one.message]


def test_the_same_container_is_put_aside_once_though_it_has_two_names() -> None:
    there = by_hand(name="probe-before-derive")
    (one,) = standing_in_the_way(asked(), seen({NODES[0]: (there,)}, _cut()))
    assert (one.name, one.running) == ("probe", True)


def test_where_nothing_is_known_to_go_back_to_that_is_what_is_agreed_to() -> None:
    states = {**dict.fromkeys(NODES, state(current=PROBE.served)), NODES[1]: None}
    (need,) = planned(asked(), seen(serving(PROBE), states)).needed
    assert need.consent is Consent.REPLACE
    assert need.because[-1] == f"when it fails, nothing is gone back to: {NODES[1]} remembers no release that ran well"


def test_the_plan_says_that_such_a_container_comes_back_and_no_release() -> None:
    aside = by_hand(name="probe-before-derive", state="exited")
    plan = planned(asked(), seen({NODES[0]: (aside,)}, _cut()))
    assert (plan.former, plan.aside) == (None, ("probe",))
    assert "back to what ran: probe" in plan_text(plan)


def test_where_the_name_to_be_kept_under_is_taken_that_is_said_before_anything_stops() -> None:
    both = (by_hand(), by_hand(name="probe-before-derive", state="exited"))
    problems = planned(asked(Consent.REPLACE), seen({NODES[0]: both})).problems()
    said = [one.message for one in problems if one.where == NODES[0]]
    assert said == ["probe cannot be kept as probe-before-derive: that is there already"]


def test_to_bring_an_image_ahead_nobody_has_to_agree_to_anything_and_nothing_stops() -> None:
    plan = planned(replace(asked(), only_ahead=True), seen({NODES[0]: (by_hand(),)}))
    assert plan.needed == ()
    text = plan_text(plan)
    assert "--replace" not in text
    assert {line.split()[-1] for line in text.splitlines() if line.split()[:1] == [NODES[0]]} == {"nothing"}
    assert text.splitlines()[-1].endswith("--apply --pull-only") is plan.may_apply


def test_after_a_deploy_was_cut_off_between_two_nodes_the_shape_is_that_of_all_nodes() -> None:
    cut = state(step="start", wanted=OLD, current=OLD, healthy=(OLD,))
    labels = {**PROBE.bundle.launches[1].labels, "io.derive.launch-bundle": str(OLD.launch_bundle)}
    found = seen({NODES[1]: (container_of(PROBE.bundle.launches[1], labels=labels),)}, dict.fromkeys(NODES, cut))
    assert Consent.REPLACE in needs(asked(), found)
    assert Consent.CHANGE_SHAPE not in needs(asked(), found)


def test_where_nobody_was_asked_what_the_last_deploy_left_counts_as_running() -> None:
    from derive.deploy.history import Deployed
    from derive.render.site_digest import site_digest

    last = Deployed(
        served=OLD,
        service=PROBE.service,
        site=site_digest(PROBE.bundle.site),
        nodes=dict.fromkeys(NODES),
        steps=(),
        outcome="done",
        why=None,
        former=None,
        by="Ada",
        at_s=NOW_S,
    )
    plan = planned(replace(asked(), history=(last,)), None)
    assert {one.consent for one in plan.needed} >= {Consent.REPLACE}


def test_where_nothing_is_known_of_any_machine_that_stands_against_it_once_for_each() -> None:
    found = planned(asked(), None)
    assert [(one.where, one.message) for one in found.problems() if one.where in NODES] == [
        (name, "nothing is known of this machine") for name in NODES
    ]
    assert not found.may_apply


def test_what_this_machine_lacks_stands_against_it() -> None:
    lacking = Problem(where="release:probe-2", message="no such image", hint="derive image probe")
    assert lacking in planned(replace(asked(), lacks=(lacking,)), seen({})).problems()


def about_adopt(found: Plan) -> list[tuple[str, str | None]]:
    return [(one.message, one.hint) for one in found.problems() if one.where == "--adopt"]


def test_a_container_to_adopt_that_no_node_has_stands_against_it_with_the_likely_name() -> None:
    theirs = {NODES[1]: (by_hand(name="kraken"),)}
    assert about_adopt(planned(asked(adopt="krake"), seen(theirs))) == [
        ("no node has a container 'krake'", "did you mean kraken?")
    ]
    assert about_adopt(planned(asked(adopt="kraken"), seen(theirs))) == []
    # Nobody looked at what runs.
    assert about_adopt(planned(asked(adopt="krake"), None)) == []


def test_what_a_deploy_that_was_cut_off_put_aside_may_be_named_again() -> None:
    aside = by_hand(name="probe-before-derive", state="exited")
    assert about_adopt(planned(asked(adopt="probe"), seen({NODES[0]: (aside,)}, _cut()))) == []


def test_the_services_own_container_is_not_adopted_and_that_is_said() -> None:
    found = seen(serving(PROBE))
    ((message, hint),) = about_adopt(planned(asked(adopt="probe"), found))
    assert "a deploy started it" in message
    assert hint == "leave --adopt out"
    assert standing_in_the_way(asked(adopt="probe"), found) == ()


def test_what_runs_as_it_should_is_not_left_alone_where_another_container_is_to_go() -> None:
    assert is_left(asked())
    assert not is_left(asked(adopt="kraken"))
    assert not is_left(asked(Consent.REPLACE))
    both = {name: (*ones, by_hand(name="kraken")) for name, ones in serving(PROBE).items()}
    states: dict[str, NodeState | None] = dict.fromkeys(NODES, state(current=PROBE.served, healthy=(PROBE.served,)))
    assert "--replace" in [one.where for one in planned(asked(adopt="kraken"), seen(both, states)).problems()]
