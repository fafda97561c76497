# SPDX-License-Identifier: Apache-2.0
"""What cannot be read is unknown to every check that needs it, and unknown is no pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from derive.doctor.case import Case, case_of
from derive.doctor.finding import Verdict
from derive.doctor.judge import Judged, judge
from derive.doctor.model import SiteFile, Unreadable
from derive.doctor.table import CHECKS
from support.doctor_breaks import git, recipe
from support.doctoring import IMAGE, RECIPE, facts, sound

_GONE = Unreadable(where="git", reason="git is not installed")


def judged(case: Case) -> dict[str, Judged]:
    return {one.check.id: one for one in judge(case, CHECKS)}


def of(case: Case, verdict: Verdict) -> set[str]:
    return {name for name, one in judged(case).items() if one.verdict == verdict}


def test_without_git_nobody_knows_whether_there_are_secrets() -> None:
    case = case_of(replace(facts(), git=_GONE))
    assert of(case, "unknown") == {"project.tracked", "secrets.names", "secrets.contents", "deploy.branch"}
    assert of(case, "finding") == set()


def test_where_git_knows_nothing_of_a_project_the_next_step_is_to_begin() -> None:
    found = judged(case_of(replace(facts(), git=_GONE)))
    for name in ("project.tracked", "secrets.names", "secrets.contents"):
        [finding] = found[name].findings
        assert "git init" in (finding.fix or "")


def test_an_unknown_error_blocks_and_an_unknown_warning_does_not() -> None:
    found = judged(case_of(replace(facts(), git=_GONE)))
    assert found["secrets.names"].blocks
    assert not found["project.tracked"].blocks


def test_a_finding_that_warns_does_not_block() -> None:
    found = judged(git(tracked=frozenset())())["project.tracked"]
    assert found.verdict == "finding"
    assert not found.blocks


def test_a_tracked_file_that_cannot_be_read_is_unknown_beside_secrets_that_were_found() -> None:
    unread = (Unreadable(where="a", reason="cannot be read: permission denied"),)
    assert judged(git(unread=unread)())["secrets.contents"].verdict == "unknown"


def test_shapes_of_a_broken_recipe_are_unknown_and_others_are_judged() -> None:
    broken = RECIPE.replace("port = 8000", 'port = "eight"')
    other = RECIPE.replace("port = 8000", "port = 18080")
    found = judged(case_of(facts({"recipes/small.toml": broken, "recipes/other.toml": other})))
    ports = found["deploy.ports"].findings
    assert [(one.verdict, one.where) for one in ports] == [
        ("finding", "recipes/other.toml: service.port"),
        ("unknown", "recipes/small.toml"),
    ]
    assert found["recipe.loads"].findings[0].where == "recipes/small.toml: service.port"
    assert found["fabric.nodes"].verdict == "unknown"


def test_a_recipe_that_is_not_meant_is_not_looked_at() -> None:
    whole = facts({"recipes/other.toml": RECIPE.replace("port = 8000", "port = 18080")})
    assert of(case_of(whole), "finding") == {"deploy.ports"}
    assert of(case_of(replace(whole, recipe="small")), "finding") == set()


def test_checks_of_locks_are_unknown_where_a_lock_cannot_be_read() -> None:
    case = case_of(facts({"lock/w.lock.json": "{}"}))
    assert of(case, "finding") == {"sources.locks"}
    assert of(case, "unknown") == {"sources.revisions", "sources.pinned", "sources.watched"}


def test_the_needs_of_shapes_are_unknown_where_the_image_cannot_be_read() -> None:
    case = case_of(facts({"images/image.toml": IMAGE + "\n[moods]\n"}))
    assert of(case, "finding") == {"sources.declared"}
    assert of(case, "unknown") == {
        "image.capabilities",
        "image.other-transport-capability",
        "image.platform",
        "guard.program",
    }


def test_a_site_that_cannot_be_read_is_unknown_with_every_rule_of_the_fabric() -> None:
    data = Unreadable(where="lab.toml", reason="cannot be read: permission denied")
    case = case_of(replace(facts(), site=SiteFile(file="lab.toml", data=data)))
    unknown = of(case, "unknown")
    assert {"site.loads", "site.outside", "site.private", "site.shapes", "fabric.peers", "fabric.nodes"} <= unknown
    assert of(case, "finding") == set()


def test_whether_git_ignores_a_site_inside_the_project_may_be_unknown() -> None:
    before = facts().site
    assert before is not None
    case = case_of(replace(facts(), site=replace(before, inside="lab.toml", tracked=None, ignored=None)))
    assert of(case, "unknown") == {"site.outside"}


def test_a_benchmark_that_cannot_be_read_is_unknown() -> None:
    before = facts()
    record = Unreadable(where="records/benchmarks/small.json", reason="cannot be read: permission denied")
    case = case_of(replace(before, records={record.where: record}))
    assert of(case, "unknown") == {"baseline.same", "benchmark.reference", "benchmark.recorded"}


def test_a_shape_without_sizes_of_memory_is_unknown() -> None:
    start, end = RECIPE.index("[memory]"), RECIPE.index("[promotion]")
    case = case_of(facts({"recipes/small.toml": RECIPE[:start] + RECIPE[end:]}))
    assert {"memory.fits", "guard.room"} <= of(case, "unknown")


def test_without_a_site_shapes_are_judged_at_the_examples() -> None:
    case = case_of(replace(facts(), site=None))
    assert of(case, "pass") == {check.id for check in CHECKS}
    assert judged(case)["site.loads"].findings[0].where == "no site's file: the examples of fabric/"


def test_a_site_of_another_cabling_leaves_a_shape_to_its_example() -> None:
    triangle = sound().places.examples["triangle"]
    case = replace(sound(), places=replace(sound().places, site=triangle))
    site = case.site_of(case.shapes[0])
    assert site is not None
    assert site.file == "fabric/examples/ring4.toml"


def test_a_project_without_recipes_passes_and_says_that_there_is_no_shape() -> None:
    without = facts({"recipes/small.toml": None})
    site = without.site
    assert site is not None
    assert isinstance(site.data, bytes)
    case = case_of(replace(without, site=replace(site, data=site.data.replace(b'small = "four"\n', b""))))
    assert of(case, "pass") == {check.id for check in CHECKS}
    assert judged(case)["guard.floors"].findings[0].where == "there is no shape"


@pytest.mark.parametrize("name", ["guard.room", "deploy.ports"])
def test_what_several_shapes_share_is_said_once(name: str) -> None:
    three = RECIPE + '\n[shapes.more]\ndoc = "the same again"\ncabling = "ring4"\ntuning = "tp4"\n'
    broken = three.replace("port = 8000", "port = 18080").replace('floor = "5GiB"', 'floor = "500GiB"')
    findings = judged(case_of(facts({"recipes/small.toml": broken})))[name].findings
    assert len(findings) == 1
    assert findings[0].detail[-1] == "in        small four, small more"


def test_the_place_of_a_finding_is_the_key_that_stands_in_the_file() -> None:
    found = judged(recipe("port = 8000", "port = 80")())["deploy.ports"].findings[0]
    assert (found.where, found.message) == ("recipes/small.toml: service.port", "a port that only root may take")
    assert found.detail[:2] == ("expected  1024 to 9999", "got       80")
