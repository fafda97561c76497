# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from derive.canonical import encode
from derive.doctor.judge import judge
from derive.doctor.table import CHECKS
from derive.fabric.examples import example, example_file
from derive.fabric.facts import NodeFacts, read_facts
from derive.fabric.rule import SiteInput
from derive.promotion.machines import GivenFacts, Machines, doctor_part, machines_part
from derive.promotion.part import Part
from derive.records.model import record
from support.cli import CHECKOUT
from support.doctoring import facts as project_facts
from support.doctoring import sound
from support.network_facts import facts_of_site

NOW, HOUR = 1_800_000_000, 3600
SHAPE = sound().shapes[0]


@cache
def site() -> SiteInput:
    file = example_file("ring4")
    return SiteInput(site=example({file: (CHECKOUT / file).read_bytes()}, "ring4"), file="lab.toml")


def machines(given: SiteInput | None = None, *, age_s: int | None = HOUR, without: int = 0) -> Machines:
    gathered = None if age_s is None else NOW - age_s
    found = [replace(one, gathered_s=gathered) for one in facts_of_site(site().site)][without:]
    return Machines(
        site=given or site(),
        given=tuple(GivenFacts(file=f"{one.host}.json", facts=one) for one in found),
        longest_s=24 * HOUR,
        now_s=NOW,
    )


def messages(part: Part) -> list[str]:
    return [one.message for one in part.problems]


def test_machines_that_are_as_the_site_says_and_were_looked_at_lately_are_well() -> None:
    part = machines_part(SHAPE, machines())
    assert part.problems == ()
    assert part.checked == ("4 machines of the site, as facts of at most 1 h 00 min before say",)
    assert machines().age_s == HOUR


@pytest.mark.parametrize(
    ("age_s", "message"),
    [
        (25 * HOUR, "these facts are too old"),
        (None, "does not say when it was gathered"),
        (-HOUR, "was gathered in the future, by this machine's clock"),
    ],
)
def test_facts_of_a_wrong_age_are_refused_each_by_its_file(age_s: int | None, message: str) -> None:
    part = machines_part(SHAPE, machines(age_s=age_s))
    assert messages(part) == [message] * 4
    assert part.problems[0].where == "spark1.json"


def test_a_machine_whose_facts_nobody_gave_is_named() -> None:
    assert messages(machines_part(SHAPE, machines(without=2))) == ["no facts of spark1, spark2"]


def test_a_machine_that_is_not_as_the_site_says_is_told_with_what_to_do() -> None:
    found = machines()
    first = found.given[0].facts
    moved = replace(first, interfaces=tuple(replace(one, mtu=1500) for one in first.interfaces))
    part = machines_part(SHAPE, replace(found, given=(GivenFacts(file="a", facts=moved), *found.given[1:])))
    assert set(messages(part)) >= {"enp1s0f0np0 of spark1 has another MTU"}
    assert all(one.hint for one in part.problems)


def test_without_a_site_and_facts_both_are_asked_for() -> None:
    nothing = Machines(site=None, given=(), longest_s=HOUR, now_s=NOW)
    assert messages(machines_part(SHAPE, nothing)) == [
        "no site's file to hold the machines against",
        "no facts of the machines",
    ]


def test_a_shape_with_neither_model_nor_transport_asks_for_no_machines_and_says_so() -> None:
    plain = replace(SHAPE, model=None, transport="none")
    nothing = Machines(site=None, given=(), longest_s=HOUR, now_s=NOW)
    part = machines_part(plain, nothing)
    assert (part.problems, len(part.unchecked)) == ((), 1)
    assert machines_part(replace(SHAPE, transport="none"), nothing).problems


def test_facts_say_when_they_were_gathered_and_older_ones_do_not() -> None:
    facts = facts_of_site(site().site)[0]

    def read(one: NodeFacts) -> NodeFacts:
        return read_facts(encode(record("site-facts", one.host, one.body())), "f")

    assert read(facts).gathered_s is None
    assert read(replace(facts, gathered_s=NOW)).gathered_s == NOW


def test_doctors_errors_stand_against_it_and_warnings_do_not() -> None:
    checks = [one for one in CHECKS if one.over == "shapes"]
    assert doctor_part(judge(sound(), checks)).problems == ()
    from derive.doctor.case import case_of
    from support.doctoring import RECIPE

    broken = case_of(project_facts({"recipes/small.toml": RECIPE.replace("benchmarks/small", "benchmarks/absent")}))
    part = doctor_part(judge(broken, checks))
    assert [one.where.partition(":")[0] for one in part.problems] == ["baseline.same", "benchmark.reference"]
    assert part.checked == ()
