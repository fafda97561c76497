# SPDX-License-Identifier: Apache-2.0
"""A deploy that fails starts again what ran when it began, and nothing that had ended before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from derive.deploy.former import former_of
from derive.deploy.model import Before, NodeState, Step
from derive.deploy.refused import failure_of
from derive.deploy.undo import Back
from derive.errors import DeriveError
from support.deploying import container_of, served, state, target

LAUNCH = target().bundle.launches[0]
ENDED = {"a": (container_of(LAUNCH, state="exited", exit_code=137),), "b": ()}
OLD = served("probe-1", "1")
WAS = Before(current=OLD, running=True)


def _states(step: str, deploy: str = "d2", before: Before | None = None) -> dict[str, NodeState | None]:
    one = state(step, deploy=deploy, wanted=OLD, current=OLD, healthy=(OLD,))
    return dict.fromkeys("ab", replace(one, before=before))


@pytest.mark.parametrize("before", [None, WAS])
def test_what_supervise_stopped_for_good_is_not_started_by_a_deploy_that_fails(before: Before | None) -> None:
    former = former_of(_states("failed", "supervise-1", before), ENDED, (), service="probe")
    assert (former.served, former.starts) == (OLD, False)
    assert not former.before("a").running


def test_what_had_ended_by_itself_is_not_started_either() -> None:
    assert not former_of(_states("serving"), ENDED, (), service="probe").starts


@pytest.mark.parametrize("state", ["running", "paused", "restarting"])
def test_what_runs_on_one_node_alone_ran(state: str) -> None:
    containers: dict[str, Any] = {"a": (), "b": (container_of(LAUNCH, state=state),)}
    assert former_of(_states("failed", "supervise-1", WAS), containers, (), service="probe").starts


def test_what_ran_before_a_deploy_that_did_not_come_back_ran() -> None:
    assert former_of(_states("failed", before=WAS), ENDED, (), service="probe").starts


def test_where_nothing_ran_it_is_said_that_nothing_runs() -> None:
    failure = failure_of(DeriveError("no completion"), Step.READY, Back(to=None), None, went=True)
    assert failure.problems()[-1].message == "the deploy ended at ready: all is as it was before, with nothing running"
