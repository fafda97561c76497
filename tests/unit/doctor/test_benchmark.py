# SPDX-License-Identifier: Apache-2.0
"""A benchmark is held against what recipe and locks name, key by key, where its record has the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from derive.doctor.case import Case, case_of
from derive.doctor.judge import judge
from derive.doctor.table_benchmark import CHECKS
from derive.recipes.resolved import ModelPin
from support.doctoring import facts, record

FILE = "records/benchmarks/small.json"
PIN = ModelPin(name="small", repository="owner/small", folder="models--owner--small", revision="a" * 40)
SAME: Mapping[str, Any] = {"nodes": 4, "transport": "nccl-ring", "kernel_backend": "b12x"}


def case_with(body: Mapping[str, Any], pin: ModelPin | None = PIN) -> Case:
    case = case_of(facts({FILE: record("benchmark", "small", {**SAME, **body})}))
    shapes = tuple(replace(one, model=pin) for one in case.recipes.shapes)
    return replace(case, recipes=replace(case.recipes, shapes=shapes))


def found(case: Case) -> list[tuple[str, tuple[str, ...]]]:
    judged = judge(case, CHECKS[:1])
    return [(one.where, one.detail) for each in judged for one in each.findings if one.verdict != "pass"]


def test_a_record_of_what_recipe_and_locks_name_is_of_their_baseline() -> None:
    model = {"repository": PIN.repository, "revision": PIN.revision}
    assert found(case_with({"recipe": "small", "shape": "four", "model": model})) == []
    assert found(case_with({})) == []


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"recipe": "large"}, "recipe"),
        ({"shape": "square"}, "shape"),
        ({"image-name": "other"}, "image-name"),
        ({"model": {"repository": "else/small"}}, "model.repository"),
        ({"model": {"revision": "b" * 40}}, "model.revision"),
    ],
)
def test_a_record_of_another_baseline_is_found_at_its_key(body: dict[str, Any], key: str) -> None:
    [(where, _)] = found(case_with(body))
    assert where == f"{FILE}: body.{key}"


def test_a_record_of_a_revision_is_of_no_baseline_while_nothing_is_pinned() -> None:
    unpinned = replace(PIN, revision=None)
    [(_, detail)] = found(case_with({"model": {"revision": "b" * 40}}, unpinned))
    assert detail[:2] == ("expected  none, as nothing is pinned", f"got       {'b' * 40}")
