# SPDX-License-Identifier: Apache-2.0
"""Which release a rollback brings, by what nodes remember and by records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from derive.canonical import Digest
from derive.deploy.history import Deployed, Outcome
from derive.deploy.last_good import recorded_good, remembered_good
from derive.deploy.model import NodeState, Served
from derive.errors import InputErrors
from support.deploying import NOW_S, served, state

ONE, TWO, THREE = (served(f"probe-{digit}", digit) for digit in "123")


def _remembered(*states: NodeState | None, service: str | None = None) -> Served:
    return remembered_good({"probe": {f"spark{rank}": one for rank, one in enumerate(states)}}, service)


def _recorded(*ends: tuple[Served, Outcome, Served | None]) -> Served:
    some = tuple(
        Deployed(
            served=brought,
            service="probe",
            site=Digest("5" * 64),
            nodes={},
            steps=(),
            outcome=outcome,
            why=None,
            former=former,
            by="Ada",
            at_s=NOW_S,
        )
        for brought, outcome, former in ends
    )
    return recorded_good(some, None)


def test_it_is_the_one_before_the_one_that_serves() -> None:
    serves = state(wanted=TWO, current=TWO, healthy=(TWO, ONE))
    assert _remembered(serves, serves) == ONE
    assert _recorded((ONE, "done", None), (TWO, "done", ONE)) == ONE


def test_after_a_deploy_that_was_killed_it_is_the_one_that_served_till_then_though_nobody_recorded_that() -> None:
    cut = state("start", wanted=THREE, current=THREE, healthy=(TWO, ONE))
    assert _remembered(cut, replace(cut, step="ready")) == TWO
    assert _recorded((ONE, "done", None), (TWO, "done", ONE), (THREE, "interrupted", TWO)) == ONE


def test_a_node_that_was_never_well_with_it_rules_it_out() -> None:
    serves = state(wanted=THREE, current=THREE, healthy=(THREE, TWO, ONE))
    assert _remembered(serves, replace(serves, healthy=(THREE, ONE))) == ONE


@pytest.mark.parametrize(
    ("states", "service", "message"),
    [
        ({"probe": {"spark1": state(wanted=ONE, current=ONE, healthy=(ONE,))}}, None, "no other release ran well here"),
        ({}, None, "nothing was deployed"),
        ({"a": {}, "b": {}}, None, "several services were deployed"),
        ({"probe": {}}, "prob", "no service 'prob' was deployed here"),
    ],
)
def test_where_there_is_none_or_not_just_one_service_that_is_said(
    states: dict[str, dict[str, NodeState | None]], service: str | None, message: str
) -> None:
    with pytest.raises(InputErrors) as caught:
        remembered_good(states, service)
    assert caught.value.problems()[0].message.startswith(message)
