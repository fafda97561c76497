# SPDX-License-Identifier: Apache-2.0
"""What the body of each kind of record must say."""

from __future__ import annotations

import pytest

from derive.canonical import Json
from derive.records.chain import read_chain
from derive.records.kinds import KINDS, body_problems, name_problem, new_name_problem
from derive.words import LAST_S
from support.chained import two_releases, waiver

EXPERIMENT: dict[str, Json] = {
    "hypothesis": "prefill gains",
    "variable": "max-num-batched-tokens = 8192",
    "acceptance": "8 % or more",
    "rollback": "a rank out of memory",
    "base": "demo-1",
    "candidate": None,
    "result": None,
}


def candidate(**changes: Json) -> dict[str, Json]:
    return {**read_chain(two_releases().files).entries[0].record.body, **changes}


def said(kind: str, body: dict[str, Json]) -> list[tuple[str, str]]:
    return [(one.where, one.message) for one in body_problems(kind, body, "F")]


def test_a_kind_that_is_none_names_those_that_are() -> None:
    (problem,) = body_problems("rumour", {}, "F")
    assert problem.where == "F: kind"
    assert problem.detail == (f"expected  {', '.join(KINDS)}", "got       rumour")


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_key_that_is_absent_is_said_at_once(kind: str) -> None:
    found = said(kind, {})
    assert len(found) > 1
    assert {message for _, message in found} == {"this key is missing"}


def test_a_key_too_many_is_said_by_its_path() -> None:
    assert said("experiment", {**EXPERIMENT, "more": 1}) == [("F: body.more", "unknown key")]


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"release": "sha256:12"}, "body.release"),
        ({"images": {"linux/arm64": None}}, 'body.images."linux/arm64"'),
        ({"made_s": -1}, "body.made_s"),
        ({"made_s": True}, "body.made_s"),
        ({"made_s": LAST_S + 1}, "body.made_s"),
        ({"made_by": "Ada\nEve"}, "body.made_by"),
        ({"why": "\x1b[2J"}, "body.why"),
        ({"why": " "}, "body.why"),
        ({"images": {"linux\n": "sha256:" + "0" * 64}}, 'body.images."linux\\n"'),
        ({"evidence": [waiver("ring", LAST_S + 1)]}, "body.evidence[0].expires_s"),
        ({"evidence": [waiver("ring", 1, "no\track")]}, "body.evidence[0].reason"),
        ({"modified": None}, "body.modified"),
        ({"commit": "main"}, "body.commit"),
        ({"texts": {"recipes/a.toml": "sha256:" + "0" * 64}}, 'body.texts."recipes/a.toml"'),
        ({"previous_release": "A"}, "body.previous_release"),
        ({"evidence": [{**waiver("ring", 1), "reason": None}]}, "body.evidence[0].reason"),
        ({"evidence": [{**waiver("ring", 1), "kind": "word"}]}, "body.evidence[0].kind"),
        ({"evidence": [{**waiver("ring", 1), "kind": "kernel"}]}, "body.evidence[0].digest"),
        ({"cost": {"duration_ns": "1", "store_bytes": None}}, "body.cost.duration_ns"),
    ],
)
def test_a_wrong_value_is_said_by_its_path(changes: dict[str, Json], where: str) -> None:
    assert where in {one.removeprefix("F: ") for one, _ in said("candidate", candidate(**changes))}


def test_what_was_historical_is_not_derivable() -> None:
    found = dict(said("historical", {"derivable": True}))
    assert found["F: body.derivable"] == "not false: what is derivable is a candidate: True"


@pytest.mark.parametrize("name", ["r7", "probe-1", "2026.11", "0", "a" * 63])
def test_names_of_releases(name: str) -> None:
    assert name_problem(name, "NAME") is None


@pytest.mark.parametrize("name", ["", "R7", "-a", ".a", "a b", "a/b", "a_b", "ä", "a" * 64, "a\n"])
def test_no_names_of_releases(name: str) -> None:
    assert name_problem(name, "NAME") is not None


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("observed", {"nodes": {}, "observed_s": LAST_S}),
        ("retired", {"release": "r", "shape": None, "by": "Ada", "why": "x", "retired_s": LAST_S}),
    ],
)
def test_the_last_second_that_can_be_written_is_a_time_and_the_next_is_none(kind: str, body: dict[str, Json]) -> None:
    assert said(kind, body) == []
    key = next(key for key in body if key.endswith("_s"))
    for wrong in (LAST_S + 1, -1):
        message = f"not seconds since 1970, up to the year 9999: {wrong}"
        assert said(kind, {**body, key: wrong}) == [(f"F: body.{key}", message)]


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("2026", "a record's number"),
        ("0001", "a record's number"),
        ("deadbeef", "the beginning of a digest"),
        ("0123456789abcdef", "the beginning of a digest"),
        ("0001-r3", "the name of a record"),
    ],
)
def test_a_name_that_would_be_taken_for_something_else_is_not_given(name: str, taken: str) -> None:
    for kind in ("candidate", "experiment", "observed"):
        problem = new_name_problem(kind, name, "NAME", ["0001-r3"])
        assert problem is not None
        assert problem.message == f"would be taken for {taken}"
    assert new_name_problem("retired", name, "NAME", ["0001-r3"]) is None, "what has the name already keeps it"


@pytest.mark.parametrize("name", ["r7", "12345", "2026.11", "deadbee", "0002-r3", "deadbeefs", "2026-11-30"])
def test_a_name_that_is_like_nothing_else_is_given(name: str) -> None:
    assert new_name_problem("candidate", name, "NAME", ["0001-r3"]) is None
