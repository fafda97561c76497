# SPDX-License-Identifier: Apache-2.0
"""Which release a rollback brings, by what nodes remember and by records."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from derive.canonical import Digest
from derive.deploy import last_good
from derive.deploy.history import Deployed, Outcome
from derive.deploy.kept import Kept
from derive.deploy.last_good import recorded_good, remembered_good
from derive.deploy.model import NodeState, Served
from derive.deploy.node_errors import NodeUnreachable, together
from derive.errors import DeriveError, InputErrors
from support.deploying import NOW_S, served, state, target

ONE, TWO, THREE = (served(f"probe-{digit}", digit) for digit in "123")


def _remembered(*states: NodeState | None, service: str | None = None) -> Served:
    return remembered_good({"probe": {f"spark{rank}": one for rank, one in enumerate(states)}}, service)


def _recorded(*ends: tuple[Served, Outcome, Served | None]) -> Served:
    return recorded_good(tuple(_deployed(*end) for end in ends), None)


def _deployed(brought: Served, outcome: Outcome, former: Served | None) -> Deployed:
    return Deployed(
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
        ({"a": {}, "b": {}}, None, "several services are there"),
        ({"probe": {}}, "prob", "no node knows a service 'prob'"),
    ],
)
def test_where_there_is_none_or_not_just_one_service_that_is_said(
    states: dict[str, dict[str, NodeState | None]], service: str | None, message: str
) -> None:
    with pytest.raises(InputErrors) as caught:
        remembered_good(states, service)
    assert caught.value.problems()[0].message.startswith(message)


SITE = target().bundle.site


def _asked(lost: list[str], monkeypatch: pytest.MonkeyPatch, data: Path, service: str | None = None) -> Served:
    """Ask FAKE nodes, of which some are not reached."""

    async def states(_site: object) -> object:
        raise together([NodeUnreachable("no route to host", node=name) for name in lost])

    monkeypatch.setattr(last_good, "_states", states)
    return asyncio.run(last_good.last_good(SITE, {"XDG_DATA_HOME": str(data)}, service)).served


@pytest.mark.parametrize("lost", [["spark2"], [node.name for node in SITE.nodes]])
@pytest.mark.parametrize("service", [None, "probe"])
def test_where_nodes_cannot_be_asked_and_nothing_is_recorded_here_the_nodes_errors_are_told(
    lost: list[str], service: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(DeriveError) as caught:
        _asked(lost, monkeypatch, tmp_path, service)
    assert caught.value.exit_code == 3
    assert [one.where for one in caught.value.problems()] == lost


def test_where_nodes_cannot_be_asked_records_that_cannot_be_read_are_told_beside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = Kept.of(SITE.name, {"XDG_DATA_HOME": str(tmp_path)}).folder / "deploys"
    folder.mkdir(parents=True)
    (folder / "0001-probe-1.json").write_text("{")
    with pytest.raises(DeriveError) as caught:
        _asked(["spark2"], monkeypatch, tmp_path)
    assert caught.value.exit_code == 3
    assert caught.value.problems()[0].where == "spark2"
    assert str(folder) in caught.value.problems()[1].where


def test_where_nodes_cannot_be_asked_the_records_say_where_they_can(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = Kept.of(SITE.name, {"XDG_DATA_HOME": str(tmp_path)})
    for one in (_deployed(ONE, "done", None), _deployed(TWO, "done", ONE)):
        kept.add_deploy(one)
    assert _asked(["spark2"], monkeypatch, tmp_path) == ONE
    with pytest.raises(DeriveError) as caught:
        _asked(["spark2"], monkeypatch, tmp_path, "other")
    assert caught.value.exit_code == 3
