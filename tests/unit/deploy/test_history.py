# SPDX-License-Identifier: Apache-2.0
"""Deploys are recorded whole, and say how long the next one takes and what can be gone back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import Digest
from derive.deploy.deploys import add_deploy, read_deploys
from derive.deploy.history import Deployed, StepTook, deployed, expected_seconds, last_healthy
from derive.deploy.model import Step
from derive.images.documents import DocumentError
from support.deploying import NOW_S, served

NS = 1_000_000_000
NEW = served("probe-2", "2")


def one(seconds: Mapping[Step, float] | None = None, **changes: Any) -> Deployed:
    """Return a deploy that went well, with changes."""
    took = {Step.FACTS: 1.0, Step.START: 3.5} if seconds is None else seconds
    found = Deployed(
        served=NEW,
        service="probe",
        site=Digest("f" * 64),
        nodes={"spark1": "ab" * 32, "spark2": None},
        steps=tuple(StepTook(step=step, duration_ns=int(second * NS)) for step, second in took.items()),
        outcome="done",
        why=None,
        former=served("probe-1", "1"),
        by="Ada",
        at_s=NOW_S,
        moved_bytes=7,
    )
    return replace(found, **changes)


@pytest.mark.parametrize(
    "changes", [{}, {"outcome": "failed", "why": "a rank ended", "former": None, "moved_bytes": None}, {"steps": ()}]
)
def test_a_deploy_is_read_as_it_was_written(changes: Mapping[str, Any]) -> None:
    written = one(**changes)
    assert deployed(written.body()) == written


def test_deploys_of_a_site_are_a_chain_of_records(tmp_path: Path) -> None:
    first = add_deploy(tmp_path, one())
    add_deploy(tmp_path, one(outcome="rolled-back", why="no answer"))
    assert first.name == "0001-probe-2.json"
    assert [found.outcome for found in read_deploys(tmp_path)] == ["done", "rolled-back"]
    assert read_deploys(tmp_path / "none") == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "well"},
        {"served": None},
        {"steps": [{"step": "dance", "duration_ns": 1}]},
        {"site": "x"},
        {"nodes": 1},
    ],
)
def test_what_is_no_deploy_is_refused(changes: Mapping[str, Any]) -> None:
    with pytest.raises(DocumentError):
        deployed({**one().body(), **changes})


def test_a_step_takes_the_median_of_the_newest_five_rounded_up() -> None:
    past = [one({Step.START: seconds}) for seconds in (500, 1, 9, 2.2, 3, 100)]
    assert expected_seconds(past, NEW) == {Step.START: 3}


def test_deploys_that_did_not_go_well_say_nothing_of_time() -> None:
    assert expected_seconds([one(outcome="rolled-back"), one(outcome="interrupted")], NEW) == {}


def test_another_shape_says_only_what_does_not_depend_on_it() -> None:
    other = one(served=served("probe-1", "1", shape="ring4"))
    assert expected_seconds([other], NEW) == {Step.FACTS: 1}


def test_another_release_of_the_shape_says_all() -> None:
    assert set(expected_seconds([one(served=served("probe-1", "1"))], NEW)) == {Step.FACTS, Step.START}


def test_moving_takes_as_long_as_the_bytes_at_the_pace_of_before() -> None:
    past = [one({Step.DISTRIBUTE: 10}, moved_bytes=1000), one({Step.DISTRIBUTE: 0.5}, moved_bytes=0)]
    assert expected_seconds(past, NEW, move_bytes=5000) == {Step.DISTRIBUTE: 50}
    assert expected_seconds(past, NEW, move_bytes=0) == {Step.DISTRIBUTE: 1}
    assert expected_seconds(past[1:], NEW, move_bytes=5000) == {}


def test_what_is_gone_back_to_is_the_newest_that_went_well_and_is_another() -> None:
    old, older = served("probe-1", "1"), served("probe-0", "0")
    past = [one(served=older), one(served=old), one(), one(served=served("probe-3", "3"), outcome="rolled-back")]
    assert last_healthy(past, NEW, service="probe") == old
    assert last_healthy(past, None, service="probe") == NEW
    assert last_healthy(past, NEW, service="other") is None
