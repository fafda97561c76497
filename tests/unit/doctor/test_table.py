# SPDX-License-Identifier: Apache-2.0
"""Every check is broken once, and is the only one that says so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby

import pytest

from derive.doctor.case import Case
from derive.doctor.check import Check
from derive.doctor.judge import judge
from derive.doctor.table import CHECKS, check_named
from derive.errors import InputErrors
from support.cli import CHECKOUT
from support.doctor_breaks import BREAKS
from support.doctoring import sound

_THEN: Mapping[str, frozenset[str]] = {
    "recipe.loads": frozenset({"shapes", "site.shapes"}),
    "site.loads": frozenset({"site.shapes", "fabric"}),
    "fabric.readable": frozenset({"recipe.loads", "shapes", "site.shapes"}),
}
"""What nobody can tell where a check breaks: checks by id, by area, or by what they are over."""

_WITH: Mapping[str, frozenset[str]] = {
    "fabric.cabling": frozenset({"site.examples"}),
    "fabric.node-count": frozenset({"fabric.tp-equals-nodes", "fabric.nnodes-equals-nodes"}),
    "fabric.other-transport-capability": frozenset({"image.capabilities"}),
}
"""What cannot but be broken as well."""


def not_well(case: Case) -> dict[str, str]:
    return {one.check.id: one.verdict for one in judge(case, CHECKS) if one.verdict != "pass"}


def test_the_sound_project_passes_every_check() -> None:
    assert not_well(sound()) == {}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_a_check_fires_alone_when_what_it_is_about_is_broken(check: Check) -> None:
    assert check.id in BREAKS, "no mutation breaks this check: add one to BREAKS"
    found = not_well(BREAKS[check.id]())
    assert found.pop(check.id, None) == "finding"
    unknown = {other.id for other in CHECKS if {other.id, other.area, other.over} & _THEN.get(check.id, frozenset())}
    assert {other for other, verdict in found.items() if verdict == "unknown"} <= unknown
    assert {other for other, verdict in found.items() if verdict == "finding"} == _WITH.get(check.id, frozenset())


def test_nothing_is_broken_that_is_no_check() -> None:
    assert BREAKS.keys() == {check.id for check in CHECKS}


def test_ids_are_distinct_and_an_area_stands_together() -> None:
    ids = [check.id for check in CHECKS]
    assert len(set(ids)) == len(ids)
    areas = [area for area, _ in groupby(check.area for check in CHECKS)]
    assert len(set(areas)) == len(areas)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_a_check_says_in_a_fragment_each_what_why_how_fix_and_where(check: Check) -> None:
    for text in (check.what, check.why, check.how, check.fix, check.place):
        assert text
        assert not text.endswith(".") or text.endswith("/.")
        assert "\n" not in text
    assert check.what != check.why, "say in a statement what holds"


def test_the_page_says_of_every_check_what_the_table_says_and_of_no_other() -> None:
    page = (CHECKOUT / "docs/doctor.md").read_text()
    rows = [row for row in page.splitlines() if re.match(r"\| `[a-z]+\.", row)]
    assert rows == [f"| `{check.id}` | {check.severity} | {check.what} |" for check in CHECKS]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("guard.floor", "did you mean guard.floors?"),
        ("floors", "did you mean guard.floors?"),
        ("zzz", "derive doctor lists them all"),
    ],
)
def test_a_name_that_no_check_has_is_answered_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(InputErrors) as caught:
        check_named(name)
    assert caught.value.problems()[0].hint == hint
