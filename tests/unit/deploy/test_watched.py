# SPDX-License-Identifier: Apache-2.0
"""Whether a service that is watched goes on, and what is done when a rank has died."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from derive.canonical import Digest
from derive.deploy.incident import Budget, deaths
from derive.deploy.model import NodeState
from derive.deploy.recovery import LeaseSeen
from derive.deploy.status import NodeSeen
from derive.deploy.watched import Died, Paused, Verdict, Well, decide, died_lines, judge
from support.ended import GOOD_GUARD, SERVED, container, ended, kill, rank

SECOND = 10**9
NOW = 2_000 * SECOND
STATE = NodeState(
    service="probe", deploy="d1", step="serving", wanted=SERVED, current=SERVED, healthy=(SERVED,), at_s=1
)
BUDGET = Budget(restarts=2, within_s=600)


def seen(number: int, **changes: Any) -> NodeSeen:
    """Return a node that serves as it should, but for what is said."""
    one = NodeSeen(
        node=f"spark{number}",
        rank=number - 1,
        state=STATE,
        containers=(container(),),
        guards=(GOOD_GUARD,),
        answered_ns=NOW,
    )
    return replace(one, **changes)


def judged(*nodes: NodeSeen) -> Verdict:
    return judge("probe", nodes, now_ns=NOW, silent_ns=60 * SECOND)


def test_a_service_whose_ranks_all_live_is_well() -> None:
    found = judged(seen(1), seen(2))
    assert found == Well(served=SERVED)
    assert found.text == "r7 serves"


def test_a_rank_that_ended_is_a_death() -> None:
    found = judged(seen(1), seen(2, containers=(ended(7, 137),)))
    assert isinstance(found, Died)
    assert [one.node for one in found.deaths] == ["spark2"]


def test_nothing_has_died_while_somebody_is_at_work() -> None:
    lease = LeaseSeen(owner="operator@spark1: derive deploy r8", nonce="n", alive=True, expires_in_s=40)
    found = judged(seen(1, lease=lease), seen(2, containers=()))
    assert found == Paused(why="operator@spark1: derive deploy r8 is at work")


def test_a_lease_of_a_process_that_is_gone_pauses_nothing() -> None:
    lease = LeaseSeen(owner="operator@spark1: derive deploy r8", nonce="n", alive=False, expires_in_s=40)
    assert isinstance(judged(seen(1, lease=lease), seen(2, containers=())), Died)


@pytest.mark.parametrize(
    "state",
    [
        None,
        replace(STATE, step="stopped"),
        replace(STATE, step="start"),
        replace(STATE, current=None),
        replace(STATE, current=replace(SERVED, launch_bundle=Digest("9" * 64))),
    ],
)
def test_nothing_has_died_where_a_node_does_not_remember_that_the_same_serves(state: NodeState | None) -> None:
    assert isinstance(judged(seen(1), seen(2, state=state, containers=())), Paused)


def test_a_node_that_does_not_answer_is_waited_for_and_then_counts_as_dead() -> None:
    silent = seen(2, trouble="no route to host", answered_ns=NOW - 59 * SECOND)
    assert judged(seen(1), silent) == Well(served=SERVED, silent=("spark2",))
    found = judged(seen(1), replace(silent, answered_ns=NOW - 61 * SECOND))
    assert isinstance(found, Died)
    assert (found.deaths[0].node, found.deaths[0].kind) == ("spark2", "lost")


def test_a_node_that_never_answered_is_no_death() -> None:
    assert isinstance(judged(seen(1), seen(2, trouble="no route to host", answered_ns=0)), Well)


def test_where_no_node_answers_nothing_is_known() -> None:
    assert isinstance(judged(seen(1, trouble="off"), seen(2, trouble="off")), Paused)


def test_a_death_within_the_budget_is_followed_by_a_restart() -> None:
    assert decide(deaths([rank(0, ended(7))]), BUDGET, 1) == ("restart", "restart 2 of 2 in 600 s")


def test_a_spent_budget_ends_it() -> None:
    assert decide(deaths([rank(0, ended(7))]), BUDGET, 2) == ("budget-spent", "2 restarts are spent, of 600 s")


def test_a_budget_of_none_ends_with_the_first_death() -> None:
    none = Budget(restarts=0, within_s=600)
    assert decide(deaths([rank(0, ended(7))]), none, 0) == ("budget-spent", "no restart was allowed")


def test_nothing_is_started_while_a_node_does_not_answer() -> None:
    found = deaths([rank(0, container(), trouble="off", answered_ns=1), rank(1, ended(7))])
    assert decide(found, BUDGET, 0) == ("cannot-restart", "spark1 does not answer")


def test_nothing_is_started_on_a_machine_that_is_not_as_a_launch_needs_it() -> None:
    found = deaths([rank(0, ended(7))])
    assert decide(found, BUDGET, 0, ["spark1: no space"]) == ("cannot-restart", "spark1: no space")


def test_who_died_first_is_told_with_the_others_after_it() -> None:
    found = deaths([rank(0, ended(9.5)), rank(1, ended(7, 137), kills=(kill(7),)), rank(2, None)])
    lines = died_lines(found, {"spark1": 0, "spark2": 1, "spark3": 2})
    assert [line.partition(": ")[0] for line in lines] == [
        "spark2  first",
        "spark1  then, 2.5 s later",
        "spark3  then",
    ]
    assert "memory guard" in lines[0]
