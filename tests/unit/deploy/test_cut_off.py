# SPDX-License-Identifier: Apache-2.0
"""The record of a deploy that was killed is written by the next one, once."""

from __future__ import annotations

from typing import Any

from derive.canonical import Digest
from derive.deploy.cut_off import cut_off
from derive.deploy.former import Former
from derive.deploy.history import Deployed, deployed
from derive.deploy.model import NodeState
from support.deploying import NOW_S, served, state

NEW, OLD = served("probe-2", "2"), served("probe-1", "1")
SITE = Digest("5" * 64)


def _former(**states: NodeState | None) -> Former:
    return Former(served=OLD, was_running=True, states=states)


def _going(step: str, **changes: Any) -> NodeState:
    return state(step, **{"wanted": NEW, "current": OLD, "healthy": (OLD,), **changes})


def _record(of: Former, *history: Deployed) -> Deployed | None:
    return cut_off(of, history, service="probe", site=SITE)


def test_it_says_what_was_to_run_how_far_that_came_and_what_ran_before() -> None:
    found = _record(_former(a=_going("start"), b=_going("ready"), c=state("serving", healthy=(OLD,))))
    assert found is not None
    assert (found.served, found.former, found.outcome) == (NEW, OLD, "interrupted")
    assert found.why == "cut off at the step ready"
    assert deployed(found.body()) == found


def test_one_that_ended_in_any_way_has_a_record_of_its_own() -> None:
    assert _record(_former(a=state("serving"), b=state("stopped"), c=state("failed"), d=None)) is None


def test_one_that_gave_up_going_back_has_one_too() -> None:
    going = _former(a=_going("undo"))
    first = _record(going)
    assert first is not None
    assert first.at_s == NOW_S
    assert _record(going, first) is None


def test_a_restart_after_a_death_is_no_deploy() -> None:
    assert _record(_former(a=_going("start", deploy="supervise-1"))) is None
