# SPDX-License-Identifier: Apache-2.0
"""What a doctor says, to people and to programs: golden files hold it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from derive.doctor.case import case_of
from derive.doctor.judge import Judged, judge
from derive.doctor.model import GitFacts, SecretFact, Unreadable
from derive.doctor.show import body, finding_lines, summary, table_lines, why_body, why_lines
from derive.doctor.table import CHECKS, check_named
from derive.why.render import render
from support.doctoring import IMAGE, RECIPE, facts
from support.golden import check_golden

SHOWN = (
    "project.settings",
    "project.tracked",
    "secrets.names",
    "secrets.contents",
    "deploy.ports",
    "guard.floors",
    "image.capabilities",
)


def found() -> tuple[Judged, ...]:
    """Judge a project with a fault of every sort: shared, of one shape, in several places, warned of, not known."""
    recipe = RECIPE.replace("port = 8000", "port = 18080") + '\n[shapes.more]\ncabling = "ring4"\ntuning = "tp4"\n'
    image = IMAGE.replace("moe-b12x = ", "moe-b13x = ")
    broken = facts({"recipes/small.toml": recipe, "recipes/wrong.toml": "format = 1\n", "images/image.toml": image})
    assert isinstance(broken.git, GitFacts)
    secret = SecretFact(path="notes\x1b[2J", line=7, kind="GitHub token", staged=True)
    git = replace(
        broken.git,
        tracked=broken.git.tracked - {"lock/m.toml", "lock/m.lock.json"},
        secrets=(secret,),
        unread=(Unreadable(where="a", reason="cannot be read: permission denied"),),
    )
    case = case_of(replace(broken, git=git))
    return judge(case, [check for check in CHECKS if check.id in SHOWN])


def shown(*, colour: bool) -> str:
    results = found()
    return render([*table_lines(results), *finding_lines(results)], colour=colour) + f"\n\n{summary(results)}\n"


def test_the_table_and_the_findings_are_as_reviewed() -> None:
    check_golden("doctor/findings.txt", shown(colour=False))


def test_a_table_fits_a_terminal_and_without_one_nothing_is_cut() -> None:
    def lines(width: int | None) -> list[str]:
        return render([*table_lines(found(), width)], colour=False).splitlines()

    assert max(map(len, lines(80))) <= 80
    assert lines(500) == lines(None)


def test_colour_adds_nothing_but_colour_and_no_file_moves_the_cursor() -> None:
    coloured = shown(colour=True)
    for code in ("\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[0m"):
        assert code in coloured
        coloured = coloured.replace(code, "")
    assert coloured == shown(colour=False)
    assert "\x1b" not in coloured


def test_the_record_is_as_reviewed() -> None:
    check_golden("doctor/record.json", json.dumps(body(found()), indent=1, ensure_ascii=False) + "\n")


def test_the_explanation_of_a_check_is_as_reviewed() -> None:
    check = check_named("guard.floors")
    check_golden("doctor/why.txt", render(why_lines(check), colour=False) + "\n")
    assert why_body(check)["how"] == check.how


def test_the_order_in_which_files_were_read_changes_nothing() -> None:
    def reversed_(read: Mapping[str, bytes]) -> dict[str, bytes]:
        return dict(reversed(list(read.items())))

    wrong = facts({"recipes/a.toml": "format = 1\n", "recipes/b.toml": "format = 1\n", "lock/w.lock.json": "{}"})
    assert wrong.project is not None
    project = replace(wrong.project, files=reversed_(wrong.project.files))
    other = replace(wrong, project=project, launching=reversed_(wrong.launching))
    assert body(judge(case_of(other), CHECKS)) == body(judge(case_of(wrong), CHECKS))


def test_nothing_wrong_is_said_in_one_line() -> None:
    results = judge(case_of(facts()), CHECKS)
    assert list(finding_lines(results)) == []
    count = len(CHECKS)
    assert summary(results) == f"{count} checks: {count} pass, 0 findings, 0 warnings, 0 unknown"
