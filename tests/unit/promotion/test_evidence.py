# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from derive.canonical import Json, sha256
from derive.errors import InputErrors
from derive.promotion.evidence import evidence_part, for_shape, needs_waiver, read_waiver, waiver_entry
from derive.recipes.resolved import Resolved
from derive.releases.policy import date_text
from derive.releases.state import Waiver, waivers_of
from support.doctoring import sound

NOW = 1_800_000_000  # 2027-01-15


def shape(**changes: object) -> Resolved:
    return replace(sound().shapes[0], **changes)  # type: ignore[arg-type]


def entry(kind: str, of: str | None = "four") -> dict[str, Json]:
    digest = str(sha256(kind.encode()))
    return {
        "kind": kind,
        "digest": digest,
        "file": f"records/{kind}.json",
        "shape": of,
        "reason": None,
        "expires_s": None,
    }


@pytest.mark.parametrize("kind", ["benchmark", "release-test"])
def test_one_measurement_of_the_shape_is_enough(kind: str) -> None:
    part = evidence_part(shape(), [entry(kind)], None)
    assert (part.problems, part.unchecked) == ((), ())
    assert part.checked == (f"{kind}: records/{kind}.json",)


def test_a_measurement_of_another_shape_is_none_and_its_shape_is_named() -> None:
    (problem,) = evidence_part(shape(), [entry("benchmark", "three")], None).problems
    assert problem.message == "no benchmark or release test of this shape"
    assert problem.detail == ("given     for three",)


def test_a_report_of_kernels_alone_says_nothing_of_what_is_served() -> None:
    assert evidence_part(shape(), [entry("kernel", None)], None).problems


def test_a_shape_with_the_projects_own_kernels_needs_their_report_too() -> None:
    own = shape(kernel_backend="tilelang")
    (problem,) = evidence_part(own, [entry("benchmark")], None).problems
    assert problem.message == "no kernel report"
    assert not evidence_part(own, [entry("benchmark"), entry("kernel", None)], None).problems
    assert [one.message for one in evidence_part(own, [], None).problems] == [
        "no benchmark or release test of this shape",
        "no kernel report",
    ]


def test_a_waiver_stands_for_everything_that_is_absent_and_is_told_as_unchecked() -> None:
    waiver = Waiver(shape="four", reason="no machine", expires_s=NOW)
    part = evidence_part(shape(kernel_backend="tilelang"), [], waiver)
    assert part.problems == ()
    assert len(part.unchecked) == 2
    assert part.unchecked[1] == "kernel report: waived until 2027-01-15: no machine"


def test_a_shape_without_a_model_has_nothing_to_measure_and_that_is_said() -> None:
    part = evidence_part(shape(model=None), [], None)
    assert (part.problems, len(part.unchecked)) == ((), 1)
    assert not needs_waiver(shape(model=None), [])


def test_waivers_are_no_evidence() -> None:
    waiver = waiver_entry(Waiver(shape="four", reason="x", expires_s=NOW))
    assert for_shape([waiver, entry("benchmark")], "four") == (entry("benchmark"),)
    assert list(waivers_of({"evidence": [waiver]}, "four")) == [Waiver(shape="four", reason="x", expires_s=NOW)]


def test_a_waiver_lasts_until_the_end_of_its_day() -> None:
    found = read_waiver("four", " no machine ", "2027-01-31", NOW)
    assert found is not None
    assert (found.reason, date_text(found.expires_s)) == ("no machine", "2027-01-31")
    assert date_text(found.expires_s + 1) == "2027-02-01"
    assert read_waiver("four", None, None, NOW) is None


@pytest.mark.parametrize(
    ("reason", "expires", "messages"),
    [
        ("x", None, ["a waiver ends on a day"]),
        (None, "2027-01-31", ["a waiver has a reason"]),
        ("  ", "soon", ["not a day: 'soon'", "a waiver has a reason"]),
        ("x", "2027-02-30", ["not a day: '2027-02-30'"]),
        ("x", "2027-01-14", ["2027-01-14 is over"]),
        ("x", "9999-12-31", ["not a day: '9999-12-31'"]),
    ],
)
def test_everything_wrong_with_a_waiver_is_said_at_once(
    reason: str | None, expires: str | None, messages: list[str]
) -> None:
    with pytest.raises(InputErrors) as error:
        read_waiver("four", reason, expires, NOW)
    assert [one.message for one in error.value.problems()] == messages
