# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from derive.canonical import encode, sha256
from derive.errors import InputErrors
from derive.patches.absorbed import Place
from derive.patches.apply import Refused
from derive.patches.explain import Reason
from derive.patches.proof import Landed
from derive.patches.report import Counts, Dead, Needed, Report, Without, state_of
from derive.patches.status import Absorbed, Applies, Conflicts, Judged, Partly, Shadowed, Verdict, Waits

TREE = sha256(b"tree")
REFUSED = Refused(
    operation=0,
    path=b"d/\xff",
    hunk=2,
    reason=Reason(message="the file differs", detail=("expected  x", "got       y")),
)


def landed(line: int, offset: int) -> Landed:
    return Landed(operation=0, path=b"f", hunk=1, line=line, before=line, offset=offset)


def places(count: int) -> tuple[Place, ...]:
    return tuple(Place(path=b"f", hunk=number, line=number * 10) for number in range(1, count + 1))


def report(*verdicts: Verdict, **without: Without) -> Report:
    judged = tuple(Judged(name=f"p{number}", verdict=verdict) for number, verdict in enumerate(verdicts, 1))
    return Report(upstream="up", source="src", digest=TREE, judged=judged).knowing(without)


@pytest.mark.parametrize(
    ("verdict", "state", "detail"),
    [
        (Applies(landed=(landed(4, 0),)), "applies", ""),
        (Applies(landed=(landed(4, 0), landed(9, -2))), "applies", "1 hunk moved: f line 9 (-2)"),
        (
            Applies(landed=tuple(landed(n, 1) for n in range(1, 6))),
            "applies",
            "5 hunks moved: f line 1 (+1), f line 2 (+1), f line 3 (+1) and 2 more",
        ),
        (Shadowed(by=("a", "b"), undone=True), "shadowed", "undone by a, b"),
        (Shadowed(by=("a",), undone=False), "shadowed", "overwritten by a"),
        (Absorbed(in_source=True), "already upstream", "delete it"),
        (Absorbed(in_source=False), "already in the series", "earlier patches do all that it does: delete it"),
        (
            Partly(absorbed=places(1), open=(Place(path=b"g"),)),
            "partly upstream",
            "there already: f hunk 1 (line 10); left: g",
        ),
        (Conflicts(refused=(REFUSED,)), "conflicts", "d/%FF hunk 2"),
        (Waits(on=("a",), refused=(REFUSED,)), "waits", "for a, in the same files"),
    ],
)
def test_every_verdict_has_a_name_and_says_what_there_is_to_say(verdict: Verdict, state: str, detail: str) -> None:
    assert state_of(verdict) == state
    assert report(verdict).rows() == [("p1", state, detail)]


def test_a_conflict_is_told_with_what_was_expected_and_what_is_there() -> None:
    assert list(report(Applies(landed=()), Conflicts(refused=(REFUSED,))).conflicts()) == [
        "p2: d/%FF: hunk 2: the file differs",
        "  expected  x",
        "  got       y",
    ]


def test_what_becomes_of_outputs_stands_beside_the_patches_that_were_left_out() -> None:
    found = report(
        Applies(landed=()), Applies(landed=()), Applies(landed=()), Applies(landed=()), p1=Dead(),
        p2=Counts(("x: out",)), p3=Needed("y: no"),
    )  # fmt: skip
    assert [row[-1] for row in found.rows()] == [
        "dead: every output is the same",
        "changes x: out",
        "needed: y: no",
        "",
    ]


def test_a_patch_that_simply_applies_and_counts_is_no_finding() -> None:
    simple = Applies(landed=(landed(1, 3),))
    assert report(simple, simple, p1=Counts(("x",)), p2=Needed("no")).findings == 0
    assert report(simple, Absorbed(in_source=True), p1=Dead(), p2=Dead()).findings == 2


def test_the_title_says_what_was_judged_against_what() -> None:
    assert report(Absorbed(in_source=True)).title() == f"patches/up on src (tree {TREE.short}): 1 patch"


def test_a_report_is_part_of_a_record_whatever_its_paths_are() -> None:
    everything = report(
        Applies(landed=(landed(1, 2),)),
        Shadowed(by=("p1",), undone=True),
        Absorbed(in_source=True),
        Partly(absorbed=places(1), open=places(2)),
        Conflicts(refused=(REFUSED,)),
        Waits(on=("p5",), refused=(REFUSED,)),
    ).document()
    hunks = [one["hunks"] for one in json.loads(encode(everything))["patches"]]
    assert [len(one) for one in hunks] == [1, 0, 0, 3, 1, 1]
    assert hunks[0] == [{"path": "f", "hunk": 1, "state": "applies", "line": 1, "moved_lines": 2}]
    assert hunks[4][0]["path"] == "d/%FF"


def test_a_refusal_is_the_problem_that_applying_reports() -> None:
    with pytest.raises(InputErrors) as caught:
        raise InputErrors([REFUSED.problem("p")])
    assert caught.value.problems()[0].where == "p: d/%FF: hunk 2"
