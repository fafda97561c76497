# SPDX-License-Identifier: Apache-2.0
"""The model of time is held against every measured time: fitted at two sizes, predicted at the others."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from derive.errors import InputErrors
from derive.fabric.plan_fit import fit, held_against
from derive.fabric.plan_measured import FILE, Measured, load_measured
from support.cli import CHECKOUT
from support.fabrics import launching


@dataclass(frozen=True, slots=True)
class Bound:
    """The error, in percent of the measured time, that docs/fabric-plan.md states for a series."""

    percent: float
    predicted: int


BOUNDS = {"relay": Bound(14.2, 2), "nccl-ring": Bound(13.0, 2), "oneshot": Bound(20.8, 1)}


@pytest.fixture(name="measured", scope="module")
def _measured() -> Measured:
    return load_measured(launching())


def test_each_series_has_a_stated_bound(measured: Measured) -> None:
    assert set(BOUNDS) == set(measured.series)


@pytest.mark.parametrize("name", BOUNDS)
def test_predicted_times_are_within_the_bound_and_fitted_ones_exact(measured: Measured, name: str) -> None:
    held = list(held_against(measured, name))
    predicted = [one for one in held if one.basis == "predicted"]
    assert len(predicted) == BOUNDS[name].predicted
    assert all(abs(float(100 * one.error)) <= BOUNDS[name].percent for one in predicted)
    assert all(one.estimate_ns == one.measured_ns for one in held if one.basis == "fitted")


@pytest.mark.parametrize("name", BOUNDS)
def test_between_the_fitted_sizes_the_model_says_too_little(measured: Measured, name: str) -> None:
    assert all(one.error < 0 for one in held_against(measured, name) if one.basis == "predicted")


def test_what_was_measured_is_the_figures_of_the_deployment_that_this_one_follows(measured: Measured) -> None:
    times = {
        name: {point.bytes // 1024: point.time_ns / 1000 for point in series.points}
        for name, series in measured.series.items()
    }
    assert times["relay"] == {10: 16.9, 60: 28.0, 480: 94.0, 2048: 308.0}
    assert times["nccl-ring"] == {10: 91.0, 60: 112.0, 480: 170.0, 2048: 360.0}
    assert times["oneshot"] == {480: 92.9, 2048: 263.6}


@pytest.mark.parametrize(
    ("name", "latency_us", "share"), [("relay", 7.7, 0.68), ("oneshot", 7.7, 0.80), ("nccl-ring", 14.9, 0.47)]
)
def test_the_two_fitted_numbers_are_those_of_the_page(
    measured: Measured, name: str, latency_us: float, share: float
) -> None:
    found = fit(measured, name)
    assert round(float(found.latency_s) * 1e6, 1) == latency_us
    assert round(float(found.share), 2) == share


def test_the_page_states_each_error_as_it_is(measured: Measured) -> None:
    page = (CHECKOUT / "docs" / "fabric-plan.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (\d+) \| ([\d.]+) us \| ([\d.]+) us \| (\S+)", page, re.MULTILINE)
    expected = [
        (
            name,
            str(one.size_bytes),
            f"{one.measured_ns / 1000:.1f}",
            f"{one.estimate_ns / 1000:.1f}",
            "fitted" if one.basis == "fitted" else f"{float(100 * one.error):+.1f}",
        )
        for name in measured.series
        for one in held_against(measured, name)
    ]
    assert rows == expected


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ([(10240, 9000), (20480, 9000)], "more bytes take no more time"),
        ([(10240, 90000), (2097152, 90001)], "faster than the links are"),
        ([(1048576, 1000), (2097152, 400000)], "smallest size takes less than its bytes do"),
    ],
)
def test_times_that_the_model_cannot_have_are_refused_by_name(
    measured: Measured, points: list[tuple[int, int]], reason: str
) -> None:
    series = measured.series["relay"]
    changed = series.model_copy(
        update={"points": tuple(type(series.points[0]).model_construct(bytes=size, time_ns=ns) for size, ns in points)}
    )
    broken = measured.model_copy(update={"series": {**measured.series, "relay": changed}})
    with pytest.raises(InputErrors) as caught:
        fit(broken, "relay")
    [problem] = caught.value.problems()
    assert problem.where == f"{FILE}: series.relay.points"
    assert reason in problem.message
