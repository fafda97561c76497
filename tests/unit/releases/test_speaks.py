# SPDX-License-Identifier: Apache-2.0
"""What a report must say to be evidence."""

from __future__ import annotations

import pytest

from derive.canonical import Json
from derive.records.model import Record, read_record
from derive.releases.speaks import KINDS, About, speaks_problems
from support.cli import CHECKOUT

IMAGE, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64
ABOUT = About(name="r7", release="sha256:" + "7" * 64, images=[IMAGE])


def said(kind: str, body: dict[str, Json], shape: str | None = "ring", about: About | None = ABOUT) -> list[str]:
    record = Record(kind=kind, subject="x", previous=None, body=body)
    return [one.where.removeprefix("F: ") for one in speaks_problems(record, shape, about, "F")]


@pytest.mark.parametrize("of", [{"release": "r7"}, {"release": ABOUT.release}, {"image": IMAGE},
                                {"images": {"linux/arm64": IMAGE}}])  # fmt: skip
@pytest.mark.parametrize("kind", ["benchmark", "benchmark-report", "release-test", "release-test-report"])
def test_a_measurement_says_its_shape_and_of_what_it_is(kind: str, of: dict[str, Json]) -> None:
    assert said(kind, {"shape": "ring", "tokens": 7, **of}) == []


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, ["body.shape", "body"]),
        ({"shape": "ring"}, ["body"]),
        ({"shape": "ring", "release": None, "image": None}, ["body"]),
        ({"release": "r7"}, ["body.shape"]),
        ({"shape": "triangle", "release": "r7"}, ["body.shape"]),
        ({"shape": "ring", "release": "r6"}, ["body.release"]),
        ({"shape": "ring", "image": OTHER}, ["body.image"]),
        ({"shape": "ring", "release": "r7", "image": OTHER}, ["body.image"]),
        ({"shape": "ring", "images": {"linux/arm64": OTHER}}, ["body.images.linux/arm64"]),
        ({"shape": "ring", "images": [IMAGE]}, ["body.images"]),
        ({"shape": "ring", "release": {"name": "r7"}}, ["body.release"]),
    ],
)
def test_what_measured_something_else_or_does_not_say_is_refused_by_its_key(
    body: dict[str, Json], where: list[str]
) -> None:
    assert said("benchmark", body) == where


def test_before_a_release_is_derived_only_the_form_is_asked() -> None:
    assert said("benchmark", {"shape": "ring", "image": OTHER}, about=None) == []
    assert said("benchmark", {"shape": "ring"}, about=None) == ["body"]


@pytest.mark.parametrize("kind", ["kernel-report", "image-build", "verify"])
def test_an_empty_report_of_no_shape_is_none_either(kind: str) -> None:
    assert said(kind, {}, shape=None)


def test_a_report_of_kernels_that_failed_speaks_for_nothing() -> None:
    bundle: Json = {"gpu": "sm_121a", "units": ["act_quant"]}
    assert said("kernel-report", {"run": {"bundle": bundle, "ok": False}}) == ["body.run.ok"]
    assert said("kernel-report", {"run": {"bundle": bundle, "ok": True}}) == []


@pytest.mark.parametrize("folder", ["kernels", "builds", "verify"])
def test_reports_that_the_project_has_are_evidence_of_their_kinds(folder: str) -> None:
    files = sorted((CHECKOUT / "records" / folder).glob("*.json"))
    assert files
    for file in files:
        record = read_record(file.read_bytes())
        if record.kind == "scale":  # of workers, and of no release
            continue
        assert record.kind in KINDS
        assert list(speaks_problems(record, None, ABOUT, file.name)) == []
