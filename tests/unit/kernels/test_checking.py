# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

from derive.errors import BuildFailed
from derive.kernels.checking import Checked, Finding
from derive.kernels.facts import Facts, parse_launch, parse_resources
from support.kernel_facts import LAUNCH, RESOURCES


def facts(spilled: int) -> Facts:
    resources = {**RESOURCES, "spill-store-bytes": spilled, "spill-load-bytes": 0}
    return Facts(
        resources=parse_resources(json.dumps(resources).encode(), "a/unit"),
        launch=parse_launch(json.dumps(LAUNCH).encode(), "a/unit"),
    )


def checked(*findings: Finding) -> Checked:
    units = {"a/few": facts(0), "a/many": facts(64)}
    return Checked(findings=findings, facts=units, units=2, compiled_again=4, equal_before=1)


def test_only_units_that_spill_are_said_to() -> None:
    assert checked().spills == {"a/many": 64}


def test_the_record_holds_every_finding_without_what_only_this_machine_has() -> None:
    error = BuildFailed("the compiler of a/few failed", log="/somewhere/log")
    finding = Finding(kind="fails", name="a/few", what=error.message, detail=("exit status  1",), error=error)
    document = checked(finding).document()
    assert document["findings"] == [
        {"kind": "fails", "name": "a/few", "what": "the compiler of a/few failed", "detail": ["exit status  1"]}
    ]
    assert "/somewhere" not in json.dumps(document)
    assert document["spill_bytes"] == {"a/many": 64}
