# SPDX-License-Identifier: Apache-2.0
"""From what was asked and seen to a plan, and to what is put aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from derive.deploy.consents import Consent
from derive.deploy.former import Stood
from derive.deploy.model import Container, NodeState
from derive.deploy.plan import Seen
from derive.deploy.planning import Asked, planned, standing_in_the_way
from derive.deploy.policy import Standing
from derive.deploy.recovery import judge
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


def test_what_a_deploy_that_was_cut_off_put_aside_is_put_back_by_the_next_that_fails() -> None:
    cut = state(step="stop", wanted=PROBE.served, current=None, healthy=())
    aside = by_hand(name="probe-before-derive", state="exited")
    (one,) = standing_in_the_way(asked(), seen({NODES[0]: (aside,)}, dict.fromkeys(NODES, cut)))
    assert (one.name, one.aside, one.running) == ("probe", "probe-before-derive", True)


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
