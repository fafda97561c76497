# SPDX-License-Identifier: Apache-2.0
"""Figures out of records whose kinds nobody foresaw: a number with bounds beside it, wherever it lies."""

from __future__ import annotations

from decimal import Decimal

import pytest

from derive.canonical import Json
from derive.records.model import Record
from derive.report.figures import groups, historical_figures, measured_figures
from derive.report.model import Figure


def found(**body: Json) -> list[Figure]:
    return list(measured_figures("records/x.json", Record(kind="later", subject="demo-1", previous=None, body=body)))


def test_bounds_and_a_median_beside_them_are_a_figure_with_its_case_and_its_file() -> None:
    (one,) = found(
        points=[
            {
                "metric": "step",
                "case": "prose",
                "shape": "ring",
                "n": 8,
                "median_ms": {"decimal": "30.10"},
                "low_ms": 29,
                "high_ms": {"decimal": "30.5"},
            }
        ]
    )
    assert (one.name, one.case, one.shape, one.unit, one.n, one.of) == ("step", "prose", "ring", "ms", 8, "demo-1")
    assert (one.value, one.low, one.high) == (Decimal("30.10"), Decimal(29), Decimal("30.5"))
    assert one.measured
    assert one.source == "records/x.json"


@pytest.mark.parametrize("centre", ["median_ns", "mean_ns", "time_ns", "value_ns", "ns"])
def test_the_number_may_be_called_in_several_ways(centre: str) -> None:
    (one,) = found(case={"low_ns": 1, "high_ns": 3, centre: 2})
    assert one.value == 2


def test_bounds_alone_are_a_figure_without_a_number() -> None:
    (one,) = found(step={"low_ns": 1, "high_ns": 3})
    assert (one.name, one.value) == ("step", None)


@pytest.mark.parametrize(
    "body",
    [
        {"low_ns": 1},
        {"low_ns": "a", "high_ns": "b", "ns": 3},
        {"lower_ns": 1, "high_ns": 2},
        {"low_ns": True, "high_ns": 2},
    ],
)
def test_what_is_no_pair_of_bounds_is_no_figure(body: dict[str, Json]) -> None:
    assert found(case=body) == []


def test_another_program_within_a_case_bears_the_name_and_the_case() -> None:
    inner: Json = {"name": "rival", "time_ns": 20, "low_ns": 19, "high_ns": 21}
    two = found(
        cases=[
            {"kernel": "router", "case": "wide", "rows": 6, "time_ns": 10, "low_ns": 9, "high_ns": 11, "peers": [inner]}
        ]
    )
    assert [(one.name, one.case) for one in two] == [("router", "wide, 6 rows"), ("router", "wide, 6 rows, rival")]


def test_one_table_may_have_bounds_in_several_units() -> None:
    assert [
        one.unit for one in found(x={"low_ms": 1, "high_ms": 2, "low_tokens_per_s": 3, "high_tokens_per_s": 4})
    ] == ["ms", "tokens_per_s"]


def test_a_record_that_is_nested_without_end_is_read_to_a_depth() -> None:
    value: Json = {"low_ns": 1, "high_ns": 2}
    for _ in range(200):
        value = {"deeper": value}
    assert found(deep=value) == []


def test_figures_of_one_name_and_unit_are_one_group_and_many_are_cut_with_how_many() -> None:
    many = found(cases=[{"name": "a", "case": str(index), "low_ns": 1, "high_ns": 2} for index in range(50)])
    (group,) = groups(iter(many))
    assert (len(group.figures), group.more, group.title, group.unit) == (40, 10, "a", "ns")


def test_what_was_measured_and_what_was_told_are_never_one_group() -> None:
    body: dict[str, Json] = {"figures": [{"name": "a", "value_ns": 3, "source": "readme"}]}
    told = historical_figures(Record(kind="historical", subject="old", previous=None, body=body))
    assert len(groups(iter([*told, *found(a={"low_ns": 1, "high_ns": 2})]))) == 2


def test_a_figure_of_a_historical_release_keeps_its_source_its_rival_and_its_doubt() -> None:
    one: Json = {
        "name": "head",
        "case": "cold",
        "shape": "ring",
        "streams": "1 to 8",
        "about": True,
        "source": "readme",
        "note": "n",
        "against": {"name": "rival", "value_us": 9},
        "low_us": 1,
        "high_us": {"decimal": "2.50"},
    }
    (figure,) = historical_figures(
        Record(kind="historical", subject="old", previous=None, body={"figures": [one, {"name": "no number"}, 7]})
    )
    assert (figure.case, figure.against, figure.about, figure.source) == (
        "cold, 1 to 8 streams",
        "rival 9",
        True,
        "readme",
    )
    assert (figure.low, figure.high, figure.value) == (Decimal(1), Decimal("2.50"), None)
