# SPDX-License-Identifier: Apache-2.0
"""What must hold of the kernels on a GPU: one command, `make gpu`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

Report = Mapping[str, Any]


def test_no_part_of_the_run_has_a_problem(report: Report) -> None:
    found = {name: report[name].get("problems") for name in report["parts"]}
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_every_unit_is_loaded_and_run_with_the_cache_read_only_and_no_compiler(report: Report) -> None:
    boot = report["boot"]
    assert (boot["cache_read_only"], boot["cover_works"], boot["compilers_called"]) == ("mount", True, 0)
    assert boot["launched_units"] == sorted(unit["unit"] for unit in report["bundle"]["units"])
    assert (boot["hits"], boot["misses"]) == (boot["entries"], 0)


def test_a_kernel_that_the_cache_lacks_is_named(report: Report) -> None:
    lacking = report["lacking"]
    assert f"kernel {lacking['unit']}: not in the cache" in lacking["error"]
    assert lacking["key"] in lacking["error"]


def test_every_result_is_right_repeats_and_depends_on_no_other_row(report: Report) -> None:
    wrong = [one for one in report["correct"]["checks"] if one["problems"]]
    assert wrong == []
    assert report["correct"]["checks"]


def test_the_checkers_look_and_find_nothing(report: Report) -> None:
    runs = report["sanitize"]["runs"]
    assert [one for one in runs if not one["ok"]] == []
    assert {one["tool"] for one in runs} == {"memcheck", "racecheck"}


def test_every_target_is_met(report: Report) -> None:
    missed = {
        f"{one['kernel']} {one['case']} {one['rows']}": (one.get("time_ns"), one["target_ns"])
        for one in report["time"]["cases"]
        if one["met"] is False
    }
    assert missed == {}
