# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from derive.build.plan import Action, Plan, Step
from derive.build.prices import Fate, Forecast, Past, Predecessor, Rate, Sample, forecast, weights
from derive.canonical import Json, sha256
from derive.derivations.model import BuiltInput, Derivation, FixedInput, FlatOutput, Input

NOTHING = Past(samples={}, rates={}, predecessors={})
SECOND = 1_000_000_000


def step(name: str, *inputs: Derivation, builder: str = "script", **arguments: Json) -> Derivation:
    roles: dict[str, Input] = {
        f"in{index}": FixedInput(d) if d.fixed is not None else BuiltInput(d) for index, d in enumerate(inputs)
    }
    return Derivation(
        name=name, builder=builder, version=1, build="any", host="any", arguments=arguments or {"n": name}, inputs=roles
    )


def fetch(name: str, size: int = 10) -> Derivation:
    return step(name, builder="fetch-deb", sha256=sha256(name.encode()).hex, size=size)


def plan(*derivations: Derivation) -> Plan:
    steps = [Step(derivation=d, action=Action.FETCH if d.fixed else Action.BUILD, reason="") for d in derivations]
    return Plan(target=derivations[-1], steps=tuple(steps))


def sample(derivation: Derivation, seconds: float, written: int = 0) -> Sample:
    return Sample(derivation=derivation.id, duration_ns=int(seconds * SECOND), weight_bytes=0, written_bytes=written)


def past(
    samples: Mapping[str, Sequence[Sample]] | None = None,
    rates: Mapping[str, Rate] | None = None,
    before: Mapping[str, Derivation] | None = None,
) -> Past:
    return Past(
        samples={(name, "any"): found for name, found in (samples or {}).items()},
        rates=rates or {},
        predecessors={
            (name, "any"): Predecessor(
                derivation=one.id, document=one.document(), outputs={"out": FlatOutput(sha256(name.encode()))}
            )
            for name, one in (before or {}).items()
        },
    )


def seconds(found: Forecast) -> float:
    assert found.expected_ns is not None
    return found.expected_ns / SECOND


def test_a_step_costs_the_median_of_what_it_cost_before() -> None:
    tool = step("tool")
    found = forecast(plan(tool), past({"tool": [sample(tool, 3), sample(tool, 9), sample(tool, 4)]}), jobs=1)
    assert seconds(found) == 4
    assert found.prices[0].basis == "built before"


def test_of_a_step_that_changed_its_earlier_builds_tell() -> None:
    now = step("tool", flag=2)
    found = forecast(plan(now), past({"tool": [sample(step("tool", flag=1), 5, 700)]}), jobs=1)
    assert seconds(found) == 5
    assert found.written_bytes == 700
    assert found.prices[0].basis == "earlier builds of it"


def test_a_name_never_built_is_judged_by_its_builder_and_the_bytes_below_it() -> None:
    # 1 s and 1 s for each 100 bytes, from steps of 100 and 300 bytes.
    rate = Rate(
        steps=2,
        duration_ns=6 * SECOND,
        weight_bytes=400,
        written_bytes=800,
        weight_square=100.0**2 + 300.0**2,
        weight_duration=100.0 * 2 * SECOND + 300.0 * 4 * SECOND,
    )
    source = fetch("source.deb", 500)
    tool = step("tool", source, builder="unpack")
    price = forecast(plan(tool), past(rates={"unpack/1": rate}), jobs=1).prices[0]
    assert price.expected_ns == 6 * SECOND
    assert price.written_bytes == 1000


def test_one_tiny_step_of_a_builder_promises_nothing_about_large_ones() -> None:
    rate = Rate(steps=1, duration_ns=SECOND, weight_bytes=1, written_bytes=1, weight_square=1.0, weight_duration=1e9)
    tool = step("tool", fetch("source.deb", 10**9), builder="unpack")
    assert forecast(plan(tool), past(rates={"unpack/1": rate}), jobs=1).expected_ns == SECOND


def test_what_nothing_tells_of_has_no_price_and_is_counted() -> None:
    known, new = step("known"), step("new")
    assert forecast(plan(new), NOTHING, jobs=1).expected_ns is None
    top = step("top", new, known)
    found = forecast(plan(new, known, top), past({"known": [sample(known, 2)], "top": [sample(top, 0)]}), jobs=1)
    assert (seconds(found), found.unknown) == (2, 1)


@pytest.mark.parametrize(("jobs", "expected"), [(1, 9), (2, 5), (8, 5)])
def test_wall_time_heeds_what_waits_for_what_and_how_many_run_at_once(jobs: int, expected: int) -> None:
    left, right = step("left"), step("right")
    top = step("top", left, right)
    samples = {"left": [sample(left, 4)], "right": [sample(right, 4)], "top": [sample(top, 1)]}
    assert seconds(forecast(plan(left, right, top), past(samples), jobs=jobs)) == expected


def test_transfers_run_beside_builds() -> None:
    source, tool = fetch("source.deb"), step("tool")
    top = step("top", source, tool)
    samples = {"source.deb": [sample(source, 5)], "tool": [sample(tool, 4)], "top": [sample(top, 1)]}
    assert seconds(forecast(plan(source, tool, top), past(samples), jobs=1)) == 6


def test_a_step_whose_inputs_alone_moved_may_stop_and_is_spared_in_the_least() -> None:
    old = step("tool", step("source", text="old"))
    changed = step("source", text="new")
    tool = step("tool", changed)
    samples = {"source": [sample(changed, 1)], "tool": [sample(old, 8)]}
    found = forecast(
        plan(changed, tool), past(samples, before={"source": step("source", text="old"), "tool": old}), jobs=1
    )
    assert [price.fate for price in found.prices] == [Fate.RUNS, Fate.MAY_STOP]
    assert found.prices[1].previous == {"out": FlatOutput(sha256(b"tool"))}
    assert (found.expected_ns, found.least_ns) == (9 * SECOND, SECOND)


@pytest.mark.parametrize(
    "old",
    [
        step("tool", step("source"), flag=2),
        step("tool", step("source"), builder="compose"),
        step("tool", step("source"), step("more")),
        step("tool", fetch("source.deb")),
    ],
    ids=["argument", "builder", "input", "fetched"],
)
def test_a_step_that_changed_itself_runs(old: Derivation) -> None:
    tool = step("tool", step("source", text="new"))
    assert forecast(plan(tool), past(before={"tool": old}), jobs=1).prices[0].fate is Fate.RUNS


def test_an_image_of_which_only_inputs_moved_changes_its_label_alone() -> None:
    old = step("image", step("layer", text="old"), builder="image", config={"command": ("a",)})
    new = step("image", step("layer", text="new"), builder="image", config={"command": ["a"]})
    assert forecast(plan(new), past(before={"image": old}), jobs=1).prices[0].fate is Fate.LABEL_ONLY


def test_the_weight_of_a_step_is_all_that_was_fetched_below_it() -> None:
    one, two = fetch("one.deb", 3), fetch("two.deb", 4)
    root = step("root", step("one", one, builder="unpack"), step("two", two, builder="unpack"))
    found = weights(root)
    assert found[root.id] == 7
    assert found[one.id] == 3


def test_what_a_step_runs_in_weighs_nothing() -> None:
    root = step("root", fetch("gcc.deb", 100), builder="unpack")
    source = step("source", fetch("a.whl", 5), builder="unpack")
    inputs: dict[str, Input] = {"source": BuiltInput(source), "root": BuiltInput(root)}
    code, image = (replace(step("x", builder=builder), inputs=inputs) for builder in ("bytecode", "image"))
    assert (weights(code)[code.id], weights(image)[image.id]) == (5, 105)


def test_a_forecast_is_a_record_with_units_in_its_keys() -> None:
    tool = step("tool")
    document = forecast(plan(tool), past({"tool": [sample(tool, 1, 5)]}), jobs=3).document()
    assert (document["jobs"], document["expected_ns"], document["write_bytes"]) == (3, SECOND, 5)


def test_a_step_beside_the_target_s_closure_has_a_price_too() -> None:
    beside, target = step("beside"), step("target")
    made = Plan(target=target, steps=plan(beside, target).steps)
    found = forecast(made, past({"beside": [sample(beside, 2)], "target": [sample(target, 1)]}), jobs=1)
    assert seconds(found) == 3


def test_the_parts_of_one_builder_are_priced_apart() -> None:
    """Machine code takes half a minute, an index no time at all."""
    device, index = (step(name, builder="kernel", part=name) for name in ("device", "index"))
    rates = {
        f"kernel/1 {part}": Rate(steps=1, duration_ns=seconds * SECOND, weight_bytes=0, written_bytes=0)
        for part, seconds in (("device", 30), ("index", 0))
    }
    found = forecast(plan(index, device), past(rates=rates), jobs=1)
    assert [price.expected_ns for price in found.prices] == [0, 30 * SECOND]
