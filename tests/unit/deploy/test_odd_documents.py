# SPDX-License-Identifier: Apache-2.0
"""Documents on nodes and of the operator in which anything stands in any place: read, or said to be damaged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import Digest, encode
from derive.cli.at_site import services_at
from derive.deploy.deploys import read_deploys
from derive.deploy.history import Deployed, deployed
from derive.deploy.kept import Kept
from derive.deploy.lease import Owner, parse_lease
from derive.deploy.model import Aside, Before
from derive.deploy.node.guarded import supervised
from derive.deploy.node_state import parse_state, state_document
from derive.deploy.recovery import judge
from derive.deploy.service import recorded
from derive.errors import CheckFailed, Corrupt, DeriveError, InputErrors
from derive.images.documents import DocumentError
from support.deploying import NOW_S, served, state

ODD: tuple[Any, ...] = (None, 1, -1, 2**70, 1.5, float("inf"), "", "x", "\ud800", "sha256:", [], [None], {}, True)
WHOLE = state(
    before=Before(
        current=served(),
        running=True,
        aside=(Aside(kind="container", name="old", running=True, guard="old-memguard.service", restart="always"),),
    )
)
LEASE = {
    "nonce": "n",
    "owner": Owner(user="u", host="h", boot_id="b", pid_namespace="p", pid=1, started=1, what="w").document(),
    "taken_s": 1,
    "expires_s": 2,
    "left_s": 1,
}
DEPLOYED = Deployed(
    served=served(),
    service="probe",
    site=Digest("5" * 64),
    nodes={"spark1": "c1", "spark2": None},
    steps=(),
    outcome="rolled-back",
    why="x",
    former=served(),
    by="somebody",
    at_s=NOW_S,
    moved_bytes=1,
)


def odd_ones(document: Any) -> Iterator[Any]:
    """Yield a document with each of its places, at whatever depth, taken by each odd value, or left out."""
    for key in document if isinstance(document, dict) else range(len(document)):
        yield from (_with(document, key, one) for one in ODD)
        if isinstance(document, dict):
            yield {name: value for name, value in document.items() if name != key}
        if isinstance(document[key], dict | list):
            yield from (_with(document, key, one) for one in odd_ones(document[key]))


def _with(document: Any, key: Any, value: Any) -> Any:
    copy = document.copy()
    copy[key] = value
    return copy


def test_a_state_with_anything_in_any_place_is_read_and_can_be_written_again_or_is_said_to_be_none() -> None:
    document = json.loads(json.dumps(state_document(WHOLE)))
    assert parse_state(document, "here") == WHOLE
    read = 0
    for one in (*odd_ones(document), None, [], "x", 1):
        try:
            found = parse_state(one, "spark1")
        except Corrupt as error:
            assert error.hint  # noqa: PT017 - a state that is read is as good
        else:
            encode(state_document(found))
            judge({"spark1": found}, {"spark1": ()}, service="probe")
            read += 1
    assert read > 10


def test_a_lease_with_anything_in_any_place_is_read_or_said_to_be_none() -> None:
    document: Any = json.loads(json.dumps(LEASE))
    assert parse_lease(document, "spark1").left_s == 1
    for one in (*odd_ones(document), None, [], "x", 1):
        try:
            parse_lease(one, "spark1")
        except Corrupt as error:
            assert error.where == "spark1"  # noqa: PT017 - see above


def test_a_record_of_a_deploy_with_anything_in_any_place_is_read_or_said_to_be_none() -> None:
    document: Any = json.loads(json.dumps(DEPLOYED.body()))
    assert deployed(document) == DEPLOYED
    for one in odd_ones(document):
        try:
            deployed(one)
        except DocumentError:
            continue


def test_what_a_supervisor_wrote_with_anything_in_any_place_is_read_or_taken_for_nothing(tmp_path: Path) -> None:
    whole: dict[str, Any] = {"pid": 1, "started": 1, "since_ns": 1, "state": "steady", "launch": "l", "why": None}
    whole["guards"] = {"steady": {"pid": 1, "code": None}}
    (tmp_path / "supervised.json").write_text(json.dumps(whole))
    assert supervised(tmp_path) == whole
    for one in (*odd_ones(whole), None, [], "x", 1):
        (tmp_path / "supervised.json").write_text(json.dumps(one))
        found = supervised(tmp_path)
        assert found is None or isinstance(found["guards"], dict)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(folder=tmp_path / "lab")


def _damage(kept: Kept, how: str) -> None:
    path = kept.add_deploy(replace(DEPLOYED, former=None))
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:60])
    elif how == "of a newer derive":
        path.write_bytes(path.read_bytes().replace(b'"rolled-back"', b'"suspended"'))
    else:
        second = kept.add_deploy(DEPLOYED)
        path.write_bytes(path.read_bytes().replace(b"somebody", b"nobody"))
        assert second != path


HOW = ["truncated", "of a newer derive", "edited"]


@pytest.mark.parametrize("how", HOW)
def test_records_that_cannot_be_read_are_told_with_their_full_path_and_the_way_to_go_on(kept: Kept, how: str) -> None:
    _damage(kept, how)
    with pytest.raises((InputErrors, CheckFailed)) as caught:
        read_deploys(kept.folder)
    (problem,) = caught.value.problems()
    assert problem.where == f"{kept.folder}/deploys/0001-probe-2.json"
    moved = f"mv {kept.folder}/deploys {kept.folder}/deploys.old"
    assert problem.hint == f"nothing needs them to go on; to begin anew: {moved}"


@pytest.mark.parametrize("how", HOW)
def test_records_that_cannot_be_read_stand_against_no_deploy(kept: Kept, how: str) -> None:
    _damage(kept, how)
    history, notes = recorded(kept)
    assert history == ()
    assert f"{kept.folder}/deploys/0001-probe-2.json: " in notes[0]


@pytest.mark.parametrize("how", HOW)
def test_records_that_cannot_be_read_hide_no_service_of_nodes_that_answer(
    kept: Kept, how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Nodes:
        """FAKE: two nodes, of which one cannot be asked."""

        troubles: Mapping[str, DeriveError] = {"spark2": DeriveError("no route")}

        async def services(self) -> tuple[str, ...]:
            return ("probe",)

    _damage(kept, how)
    monkeypatch.setattr("derive.cli.at_site.kept_of", lambda _site: kept)
    nodes: Any = Nodes()
    site: Any = type("Site", (), {"nodes": (1, 2)})
    assert asyncio.run(services_at(nodes, site)) == ("probe",)
    assert "the records of deploys here cannot be read: " in capsys.readouterr().err


def test_what_stood_in_the_way_is_known_by_no_other_kinds_than_those_there_are() -> None:
    document: Any = json.loads(json.dumps(state_document(WHOLE)))
    document["before"]["aside"][0]["kind"] = "a kind of a later derive"
    with pytest.raises(Corrupt):
        parse_state(document, "spark1")
