# SPDX-License-Identifier: Apache-2.0
"""Each thing that stands against a deploy does so by itself, with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from derive.recipes.deployable import Clash, Missing
from derive.render.judgement import Judgement, judge
from support.launching import project_fabric, project_files, project_shape

CASES = {
    "fits": (Judgement(fits=False, unfit="the KV cache is too much"), "does not fit: the KV cache is too much"),
    "missing": (Judgement(missing=(Missing(capability="a", because="b"),)), "not deployable: needs a (b)"),
    "planned": (Judgement(missing=(Missing(capability=None, because="b"),)), "not deployable: planned: b"),
    "clashes": (
        Judgement(clashes=(Clash(capability="a", owner="b", transport="c"),)),
        "not deployable: the image has a, which is for b, and the shape has c",
    ),
    "unpinned": (Judgement(unpinned="nobody knows it"), "not deployable: the model is not pinned: nobody knows it"),
}


@pytest.mark.parametrize("name", CASES)
def test_one_thing_alone_stands_against_a_deploy(name: str) -> None:
    judgement, reason = CASES[name]
    assert not judgement.deployable
    assert judgement.to_document()["deployable"] is False
    assert list(judgement.reasons()) == [reason]


@pytest.mark.parametrize("fits", [True, None])
def test_what_fits_and_what_nobody_can_tell_of_stand_against_none(*, fits: bool | None) -> None:
    judgement = Judgement(fits=fits, notes=("a note",))
    assert judgement.deployable
    assert list(judgement.reasons()) == []


def test_a_shape_without_a_model_is_not_unpinned() -> None:
    judgement, problems = judge(project_shape("probe", "ring4"), project_files(), project_fabric())
    assert problems == []
    assert judgement.unpinned is None
    assert judgement.deployable


@pytest.mark.parametrize(
    ("revision", "unpinned", "why"),
    [
        (None, "nobody knows it", "nobody knows it"),
        (None, None, "no reason is given"),
        ("5" * 40, "nobody could list its files", "nobody could list its files"),
        ("5" * 40, None, None),
    ],
)
def test_a_model_is_pinned_when_it_has_its_revision_and_no_reason_against_it(
    revision: str | None, unpinned: str | None, why: str | None
) -> None:
    shape = project_shape("ds41f", "tp4-ring")
    assert shape.model is not None
    pinned = replace(shape, model=replace(shape.model, revision=revision, unpinned=unpinned))
    assert judge(pinned, project_files(), project_fabric())[0].unpinned == why
