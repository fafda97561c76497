# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.errors import InputErrors
from derive.kernels.declarations import parse_kernel
from derive.kernels.selecting import one_of_each, rows_text, select
from derive.kernels.units import Unit, units_of
from support.archives import said
from support.kernels import KERNEL


def units(*names: str) -> list[Unit]:
    kernel, problems = parse_kernel(KERNEL.encode(), "kernels/scale/kernel.toml")
    assert kernel is not None, problems
    return [unit for name in names for unit in units_of(name, kernel)]


def test_no_name_means_every_unit() -> None:
    assert select(units("scale"), (), None) == tuple(units("scale"))


@pytest.mark.parametrize(
    ("name", "count"),
    [("scale", 8), ("scale/", 8), ("scale/scale/wide", 4), ("scale/scale/wide/few/sm_90a", 1)],
)
def test_a_name_means_a_unit_or_all_whose_names_begin_with_its_parts(name: str, count: int) -> None:
    assert len(select(units("scale", "scaled"), [name], None)) == count


def test_names_that_overlap_mean_each_unit_once_in_the_order_of_the_files() -> None:
    found = select(units("scale"), ["scale/scale/narrow", "scale"], None)
    assert found == tuple(units("scale"))


def test_an_architecture_leaves_its_units_alone() -> None:
    found = select(units("scale"), ["scale"], "sm_121a")
    assert {unit.gpu for unit in found} == {"sm_121a"}
    assert len(found) == 4


def test_every_name_that_nothing_has_is_told_with_the_nearest() -> None:
    with pytest.raises(InputErrors) as caught:
        select(units("scale"), ["skale", "scale/scale/wid", ""], "sm_90")
    words = said(caught.value)
    assert "no kernel or unit is named 'skale'" in words
    assert "did you mean scale?" in words
    assert "did you mean scale/scale/wide?" in words
    assert "no kernel or unit is named ''" in words
    assert "did you mean sm_90a?" in words
    assert caught.value.exit_code == 2


def test_a_unit_and_another_s_architecture_are_nothing_together() -> None:
    with pytest.raises(InputErrors) as caught:
        select(units("scale"), ["scale/scale/wide/many"], "sm_121a")
    assert "nothing of it is compiled for sm_121a" in said(caught.value)
    assert "expected  sm_90a" in said(caught.value)


def test_one_of_each_is_the_first_unit_of_a_kernel_and_architecture() -> None:
    found = one_of_each(units("scale", "other"))
    assert [unit.name for unit in found] == [
        "scale/scale/wide/few/sm_90a",
        "scale/scale/wide/few/sm_121a",
        "other/scale/wide/few/sm_90a",
        "other/scale/wide/few/sm_121a",
    ]


@pytest.mark.parametrize(("rows", "text"), [((1, 64), "1-64"), ((16, 16), "16"), ((65, None), "65-")])
def test_rows_are_written_as_people_read_them(rows: tuple[int, int | None], text: str) -> None:
    assert rows_text(rows) == text
