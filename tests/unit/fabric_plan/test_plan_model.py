# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.canonical import Json
from derive.cli.fabric.plan_text import plan_text
from derive.errors import InputErrors, Problem
from derive.fabric.collectives import ALGORITHMS
from derive.fabric.plan_measured import Measured, load_measured
from derive.fabric.plan_model import plan
from derive.fabric.plan_possible import possible, why_not
from derive.fabric.plan_traffic import Traffic, traffic
from derive.fabric.site import Cabling, Site
from support.fabrics import example_site, launching, with_one_path, without_cable
from support.golden import check_golden

SHAPE: dict[str, Json] = {
    "max-num-seqs": 16,
    "max-num-batched-tokens": 8192,
    "speculative-config": {"num_speculative_tokens": 5},
}


@pytest.fixture(name="measured", scope="module")
def _measured() -> Measured:
    return load_measured(launching())


def refusal(measured: Measured, site: Site, transport: str) -> Problem:
    with pytest.raises(InputErrors) as caught:
        plan(measured, site, transport)
    [problem] = caught.value.problems()
    return problem


def test_an_unknown_transport_brings_the_nearest_name(measured: Measured) -> None:
    problem = refusal(measured, example_site("ring4"), "oneshot-ring")
    assert (problem.message, problem.hint) == ("no transport is named 'oneshot-ring'", "did you mean oneshot-ring4?")


def test_a_transport_of_every_pair_on_a_ring_names_the_pairs_without_a_cable(measured: Measured) -> None:
    problem = refusal(measured, example_site("ring4"), "oneshot-direct")
    assert problem.message == "oneshot-direct cannot be on a ring4"
    assert problem.detail == (
        "every pair of ranks needs a cable, and there is none between spark1 and spark3, nor between spark2 and spark4",
    )
    assert problem.hint == "this cabling carries nccl-ring, oneshot-ring4, rocenante-mesh4, rocenante-ring4"


def test_a_relay_on_a_triangle_is_told_that_there_is_nothing_to_relay(measured: Measured) -> None:
    problem = refusal(measured, example_site("triangle"), "oneshot-ring4")
    assert "every one of 3 is every other's neighbour" in problem.detail[0]


def test_a_ring_with_a_cable_missing_is_open(measured: Measured) -> None:
    problem = refusal(measured, without_cable(example_site("ring4"), 2), "nccl-ring")
    assert problem.detail == ("the ring is open: there is no cable between spark2 and spark3",)


@pytest.mark.parametrize(
    ("cabling", "algorithms"),
    [("triangle", ("direct", "ring", "ring-both")), ("ring4", ("ring", "ring-both", "relay", "mesh"))],
)
def test_each_cabling_carries_what_it_has_cables_for(cabling: Cabling, algorithms: tuple[str, ...]) -> None:
    site = example_site(cabling)
    assert possible(site) == algorithms
    assert all((why_not(one, site) is None) == (one in algorithms) for one in ALGORITHMS)


def test_sizes_of_steps_are_rows_times_the_bytes_of_a_row(measured: Measured) -> None:
    found = traffic(SHAPE, measured.model)
    assert [(one.rows, one.size_bytes, one.all_reduces) for one in found] == [
        (6, 61440, 80),
        (48, 491520, 80),
        (96, 983040, 80),
        (8192, 83886080, 80),
    ]


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ({}, []),
        ({"max-num-seqs": 1}, [1]),
        ({"max-num-seqs": 4}, [1, 2, 4]),
        ({"max-num-seqs": 2, "max-num-batched-tokens": 64}, [1, 2, 64]),
    ],
)
def test_a_shape_that_says_less_has_fewer_steps(
    measured: Measured, arguments: dict[str, Json], rows: list[int]
) -> None:
    assert [one.rows for one in traffic(arguments, measured.model)] == rows


def test_what_is_beyond_a_transports_limit_goes_by_another(measured: Measured) -> None:
    limit = 204 * 10240
    steps = [Traffic(sequences=1, rows=rows, size_bytes=rows * 10240, all_reduces=1) for rows in (204, 205)]
    found = plan(measured, example_site("ring4"), "oneshot-ring4", size=limit, steps=tuple(steps)).steps
    assert [(one.transport, one.case.algorithm) for one in found] == [("oneshot-ring4", "relay"), ("nccl-ring", "ring")]


def test_without_a_size_the_greatest_decode_step_is_planned(measured: Measured) -> None:
    steps = traffic(SHAPE, measured.model)
    assert plan(measured, example_site("ring4"), "nccl-ring", steps=steps).size_bytes == 983040
    assert plan(measured, example_site("ring4"), "nccl-ring").size_bytes == 2097152


@pytest.mark.parametrize("transport", ["nccl-ring", "rocenante-ring4", "oneshot-ring4"])
def test_at_a_measured_size_the_plan_says_the_measured_time(measured: Measured, transport: str) -> None:
    found = plan(measured, example_site("ring4"), transport, size=2 << 20).own
    assert found.is_measured
    assert found.time_ns == measured.series[measured.transports[transport].series].points[-1].time_ns


def test_what_nobody_measured_says_so(measured: Measured) -> None:
    found = plan(measured, example_site("triangle"), "oneshot-direct")
    assert [case.is_measured for case in found.cases] == [False] * 9
    text = plan_text(found)
    assert "not measured for oneshot-direct" in text
    assert text.count("~") == 9 + 1


def test_what_lies_outside_the_measured_sizes_is_marked(measured: Measured) -> None:
    found = plan(measured, example_site("ring4"), "nccl-ring", steps=traffic(SHAPE, measured.model)).steps
    assert [one.case.is_interpolated for one in found] == [True, True, True, False]


def test_with_one_path_a_relay_takes_longer(measured: Measured) -> None:
    one, both = (
        plan(measured, site, "oneshot-ring4").own.time_ns
        for site in (with_one_path(example_site("ring4")), example_site("ring4"))
    )
    assert one > 1.8 * both


@pytest.mark.parametrize(
    ("cabling", "transport"), [("ring4", "oneshot-ring4"), ("ring4", "nccl-ring"), ("triangle", "oneshot-direct")]
)
def test_a_plan_reads_as_reviewed(measured: Measured, cabling: Cabling, transport: str) -> None:
    found = plan(measured, example_site(cabling), transport, steps=traffic(SHAPE, measured.model))
    text = plan_text(found, None)
    assert max(len(line) for line in text.splitlines()) <= 80
    check_golden(f"drawings/plan-{transport}.txt", text + "\n")


def test_a_planned_transport_says_that_it_cannot_be_launched(measured: Measured) -> None:
    text = plan_text(plan(measured, example_site("ring4"), "rocenante-mesh4"), "nobody has tried it")
    assert "only planned: nobody has tried it" in text.splitlines()
