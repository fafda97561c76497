# SPDX-License-Identifier: Apache-2.0
"""What a stop goes on with where a node cannot be asked, and what it lets nodes remember."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from derive.deploy.stopping import Stopped, _answered, _Seen, _services, _stopped, _text
from derive.errors import DeriveError
from support.deploying import container_of, state, target

LAUNCH = target().bundle.launches[0]


def test_a_node_that_cannot_be_asked_keeps_no_other_from_being_stopped() -> None:
    reached: Any = type("Reach", (), {"names": ("a", "b", "c")})()  # FAKE: no connection is behind it
    error, lost = DeriveError("no python3"), {"d": DeriveError("no route")}
    assert _answered(reached, {"a": 1, "b": error, "c": 3}, lost) == {"a": 1, "c": 3}
    assert (reached.names, lost["b"]) == (("a", "c"), error)
    with pytest.raises(DeriveError):
        _answered(reached, {"a": error, "c": error}, lost)


def test_what_is_not_known_of_a_node_is_said() -> None:
    error = DeriveError("x")
    found = Stopped(
        name="probe",
        ran={"a": "1, running", "b": "1, running"},
        now={"a": "stopped"},
        unreachable={
            "b": error,
            "c": error,
        },
    )
    assert [row[2] for row in found.rows()] == ["stopped", "not known", "not known"]


def test_a_service_that_no_node_remembers_and_that_runs_is_known() -> None:
    aside, foreign = container_of(LAUNCH, name="x-before-derive"), container_of(LAUNCH, name="y", labels={})
    seen = {"a": _Seen({one.name: one for one in (container_of(LAUNCH), aside, foreign)}, ("other",))}
    assert _services(seen) == ["other", "probe"]


def test_what_ran_well_before_a_stop_is_remembered_after_it() -> None:
    kept = _stopped("probe", state())
    assert (kept.step, kept.current, kept.healthy) == ("stopped", state().current, state().healthy)
    assert _stopped("probe", None).healthy == ()


def test_a_container_that_its_engine_removes_once_it_ends_is_told_before_it_is_stopped() -> None:
    one = container_of(LAUNCH, name="y", labels={})
    assert _text(one) == "what no deploy started, running"
    assert _text(replace(one, host={**one.host, "AutoRemove": True})).endswith(
        "running, removed by its engine once it ends (--rm)"
    )
