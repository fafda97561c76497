# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import FrameType
from typing import Any

import pytest

from derive.build.knowledge import Knowledge, Known
from derive.build.plan import Action, Plan, make_plan, resolved_of
from derive.canonical import Digest, Json, sha256
from derive.derivations.model import (
    BuiltInput,
    Derivation,
    FixedInput,
    FlatOutput,
    Input,
    Output,
    TreeOutput,
    closure,
)


def step(name: str, *inputs: Derivation, builder: str = "script", **arguments: Json) -> Derivation:
    roles: dict[str, Input] = {
        f"in{index}": FixedInput(d) if d.fixed is not None else BuiltInput(d) for index, d in enumerate(inputs)
    }
    return Derivation(
        name=name, builder=builder, version=1, build="any", host="any", arguments=arguments or {"n": name}, inputs=roles
    )


def fetch(name: str, *, size: int = 10, builder: str = "fetch-deb", place: str = "pool") -> Derivation:
    arguments: dict[str, Json] = {"sha256": sha256(name.encode()).hex, "size": size, "place": place}
    return Derivation(name=name, builder=builder, version=1, build="any", host="any", arguments=arguments)


@dataclass
class Memory:
    """What a store would know, as values; counts how often it is asked."""

    resolved: dict[Digest, Digest] = field(default_factory=dict)
    realised: dict[Digest, Known] = field(default_factory=dict)
    here: set[Output] = field(default_factory=set)
    calls: int = 0
    rows: int = 0

    def knowledge(self) -> Knowledge:
        return Knowledge(
            resolved_ids=lambda wanted: self._look_up(self.resolved, wanted),
            realised=lambda wanted: self._look_up(self.realised, wanted),
            present=self._present,
        )

    def _look_up(self, table: Mapping[Digest, Any], wanted: Iterable[Digest]) -> dict[Digest, Any]:
        self.calls += 1
        keys = list(wanted)
        self.rows += len(keys)
        return {key: table[key] for key in keys if key in table}

    def _present(self, output: Output) -> bool:
        self.calls += 1
        return output in self.here

    def run(self, plan: Plan, *, gives: Callable[[Derivation], bytes] | None = None) -> None:
        """Realise the steps of a plan. ``gives`` says what contents a step makes; by default as its arguments."""
        outputs: dict[Digest, Mapping[str, Output]] = {s.derivation.id: s.outputs for s in plan.steps if s.outputs}
        for item in plan.steps:
            derivation = item.derivation
            if item.action is Action.REUSE:
                continue
            inputs = {
                role: reference.derivation.fixed or outputs[reference.derivation.id][reference.output]
                for role, reference in derivation.inputs.items()
            }
            resolved = resolved_of(derivation, inputs).id
            made = gives(derivation) if gives is not None else str(sorted(derivation.arguments.items())).encode()
            out = derivation.fixed or TreeOutput(sha256(made))
            outputs[derivation.id] = {"out": out}
            self.realised[resolved] = Known(resolved=resolved, outputs={"out": out}, duration_ns=7)
            self.here.add(out)
            self.resolved[derivation.id] = resolved

    def lose(self, derivation: Derivation) -> None:
        """Remove a derivation's outputs from the store, as collecting garbage would."""
        self.here -= set(self.known(derivation).outputs.values())

    def known(self, derivation: Derivation) -> Known:
        return self.realised[self.resolved[derivation.id]]


def built(target: Derivation, **more: Any) -> Memory:
    memory = Memory()
    memory.run(make_plan(target, memory.knowledge()), **more)
    return memory


def actions(plan: Plan) -> dict[str, str]:
    return {item.derivation.name: item.action.value for item in plan.steps}


def reasons(plan: Plan) -> dict[str, str]:
    return {item.derivation.name: item.reason for item in plan.steps}


def plan_of(target: Derivation, memory: Memory, *, whole: bool = False) -> Plan:
    return make_plan(target, memory.knowledge(), whole=whole)


DEB, WHEEL = fetch("deb", size=100), fetch("wheel", size=1000, builder="fetch-wheel")
ROOT = step("root", DEB)
TOOL = step("tool", ROOT, WHEEL)
TARGET = step("target", ROOT, TOOL)


def test_an_empty_store_fetches_and_builds_everything_inputs_first() -> None:
    plan = plan_of(TARGET, Memory())
    assert actions(plan) == {"deb": "fetch", "root": "build", "wheel": "fetch", "tool": "build", "target": "build"}
    assert [item.derivation for item in plan.steps] == closure(TARGET)
    assert not plan.is_done


def test_each_step_says_why() -> None:
    assert reasons(plan_of(TARGET, Memory())) == {
        "deb": "not fetched yet",
        "root": "never built from these inputs",
        "wheel": "not fetched yet",
        "tool": "its input root is not built yet",
        "target": "its input root and 1 more are not built yet",
    }


def test_reuse_stops_at_the_top() -> None:
    memory = built(TARGET)
    plan = plan_of(TARGET, memory)
    assert actions(plan) == {"target": "reuse"}
    assert plan.is_done
    assert plan.steps[0].outputs == memory.known(TARGET).outputs
    assert plan.steps[0].expected_ns == 7
    assert plan.fetch_bytes == plan.disk_bytes == 0


def test_what_lies_below_a_reused_output_need_not_be_there() -> None:
    memory = built(TARGET)
    for derivation in (DEB, WHEEL, ROOT, TOOL):
        memory.lose(derivation)
    assert actions(plan_of(TARGET, memory)) == {"target": "reuse"}


def test_a_lost_output_is_built_again_from_what_is_there() -> None:
    memory = built(TARGET)
    memory.lose(TARGET)
    plan = plan_of(TARGET, memory)
    assert actions(plan) == {"root": "reuse", "tool": "reuse", "target": "build"}
    assert reasons(plan)["target"] == "its output is gone from the store"
    assert plan.steps[-1].expected_ns == 7


def test_a_lost_output_and_its_lost_inputs_are_made_again_as_far_down_as_needed() -> None:
    memory = built(TARGET)
    for derivation in (TARGET, TOOL, WHEEL):
        memory.lose(derivation)
    plan = plan_of(TARGET, memory)
    assert actions(plan) == {"root": "reuse", "wheel": "fetch", "tool": "build", "target": "build"}


def test_an_output_is_lost_when_one_of_several_is() -> None:
    memory = built(TARGET)
    known = memory.known(TARGET)
    memory.realised[known.resolved] = replace(known, outputs={**known.outputs, "dev": TreeOutput(sha256(b"dev"))})
    assert actions(plan_of(TARGET, memory))["target"] == "build"


def test_a_changed_step_is_built_from_the_inputs_that_stand() -> None:
    memory = built(TARGET)
    changed = step("tool", ROOT, WHEEL, n="other")
    plan = plan_of(step("target", ROOT, changed), memory)
    assert actions(plan) == {"root": "reuse", "wheel": "reuse", "tool": "build", "target": "build"}
    assert reasons(plan)["tool"] == "never built from these inputs"
    assert reasons(plan)["target"] == "its input tool is not built yet"


def test_a_step_whose_changed_input_gave_the_same_is_reused() -> None:
    memory = built(TARGET, gives=lambda derivation: derivation.name.encode())
    changed = step("tool", ROOT, WHEEL, n="other")
    memory.run(plan_of(changed, memory), gives=lambda derivation: derivation.name.encode())
    above = step("target", ROOT, changed)
    assert above.id != TARGET.id
    assert actions(plan_of(above, memory)) == {"target": "reuse"}


def test_an_early_cutoff_carries_on_upwards() -> None:
    top = step("top", TARGET)
    memory = built(top, gives=lambda derivation: derivation.name.encode())
    changed = step("tool", ROOT, WHEEL, n="other")
    memory.run(plan_of(changed, memory), gives=lambda derivation: derivation.name.encode())
    assert actions(plan_of(step("top", step("target", ROOT, changed)), memory)) == {"top": "reuse"}


def test_a_fetch_whose_place_moved_is_made_again_though_its_hash_is_here() -> None:
    memory = built(TARGET)
    moved = fetch("wheel", size=1000, builder="fetch-wheel", place="elsewhere")
    target = step("target", ROOT, step("tool", ROOT, moved))
    assert target.id == TARGET.id  # dependents see the hash alone
    plan = plan_of(target, memory)
    assert actions(plan) == {"wheel": "fetch", "target": "reuse"}
    assert "moved while its hash did not" in reasons(plan)["wheel"]
    memory.run(plan)
    assert actions(plan_of(target, memory)) == {"target": "reuse"}


def test_a_fetch_whose_place_moved_is_made_again_before_a_build_that_needs_it() -> None:
    memory = built(TARGET)
    moved = fetch("wheel", size=1000, builder="fetch-wheel", place="elsewhere")
    plan = plan_of(step("target", ROOT, step("tool", ROOT, moved, n="other")), memory)
    assert actions(plan) == {"root": "reuse", "wheel": "fetch", "tool": "build", "target": "build"}


def test_a_fetch_of_new_bytes_rebuilds_what_uses_them_alone() -> None:
    memory = built(TARGET)
    newer = step("tool", ROOT, fetch("wheel-2", builder="fetch-wheel"))
    assert actions(plan_of(step("target", ROOT, newer), memory)) == {
        "root": "reuse",
        "wheel-2": "fetch",
        "tool": "build",
        "target": "build",
    }


def test_an_image_whose_id_alone_moved_is_written_again_from_reused_layers() -> None:
    layer = step("layer", ROOT)
    image = step("image", layer, builder="image")
    memory = built(image, gives=lambda derivation: derivation.name.encode())
    other_layer = step("layer", ROOT, n="says the same")
    memory.run(plan_of(other_layer, memory), gives=lambda derivation: derivation.name.encode())
    other = step("image", other_layer, builder="image")
    assert actions(plan_of(other, memory)) == {"layer": "reuse", "image": "build"}


def test_the_id_of_an_image_feeds_its_resolved_id() -> None:
    one = step("image", step("layer", n="1"), builder="image")
    two = step("image", step("layer", n="2"), builder="image")
    inputs: dict[str, Output] = {"in0": TreeOutput(sha256(b"same"))}
    assert resolved_of(one, inputs).id != resolved_of(two, inputs).id
    as_step = [replace(image, builder="script") for image in (one, two)]
    assert resolved_of(as_step[0], inputs).id == resolved_of(as_step[1], inputs).id


def test_a_whole_plan_makes_every_output_of_the_closure_present() -> None:
    memory = built(TARGET)
    memory.lose(ROOT)
    memory.lose(WHEEL)
    assert actions(plan_of(TARGET, memory, whole=True)) == {
        "deb": "reuse",
        "root": "build",
        "wheel": "fetch",
        "tool": "reuse",
        "target": "reuse",
    }
    assert actions(plan_of(TARGET, built(TARGET), whole=True)) == dict.fromkeys(
        ["deb", "root", "wheel", "tool", "target"], "reuse"
    )


def test_a_row_that_was_lost_is_as_if_never_built() -> None:
    memory = built(TARGET)
    del memory.realised[memory.resolved[TARGET.id]]
    plan = plan_of(TARGET, memory)
    assert actions(plan) == {"root": "reuse", "tool": "reuse", "target": "build"}
    assert reasons(plan)["target"] == "never built from these inputs"


def test_planning_changes_nothing_and_gives_the_same_again() -> None:
    memory = built(TOOL)
    before = (dict(memory.resolved), dict(memory.realised), set(memory.here))
    assert plan_of(TARGET, memory) == plan_of(TARGET, memory)
    assert (memory.resolved, memory.realised, memory.here) == before


def test_bytes_to_fetch_and_disk_needed_are_told() -> None:
    plan = plan_of(TARGET, Memory())
    assert plan.fetch_bytes == 1100
    assert plan.disk_bytes >= 100 * 6 + 1000
    assert plan.of(Action.FETCH) == tuple(item for item in plan.steps if item.derivation in (DEB, WHEEL))


def test_a_plan_is_a_record_that_can_be_printed() -> None:
    plan = plan_of(ROOT, Memory())
    assert plan.document() == {
        "target": "root",
        "derivation": str(ROOT.id),
        "fetch_bytes": 100,
        "fetches_of_unknown_size": 0,
        "disk_bytes": plan.disk_bytes,
        "steps": [
            {
                "name": "deb",
                "derivation": str(DEB.id),
                "builder": "fetch-deb",
                "host": "any",
                "action": "fetch",
                "reason": "not fetched yet",
            },
            {
                "name": "root",
                "derivation": str(ROOT.id),
                "builder": "script",
                "host": "any",
                "action": "build",
                "reason": "never built from these inputs",
            },
        ],
    }


@cache
def chain(length: int, **first_arguments: str) -> Derivation:
    """Return the top of a graph of that many derivations: a chain in which each also uses the first, and a fetch."""
    source = fetch("source")
    first = top = step("0", source, **first_arguments)
    for index in range(1, length - 1):
        top = step(f"{index}", top, first, source)
    return top


def python_calls(work: Callable[[], object]) -> int:
    """Count the Python functions that are called: a measure that no other process disturbs."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    ("state", "large"), [("empty", 10_000), ("done", 10_000), ("changed below", 3000), ("whole", 3000)]
)
def test_ten_times_the_derivations_are_ten_times_the_work(state: str, large: int) -> None:
    work = []
    for length in (large // 10, large):
        target = chain(length)
        memory = built(target) if state != "empty" else Memory()
        if state == "changed below":
            target = chain(length, n="changed")
        memory.calls = memory.rows = 0
        made = python_calls(partial(plan_of, target, memory, whole=state == "whole"))
        work.append((made, memory.calls, memory.rows))
    for few, many in zip(*work, strict=True):
        assert many <= 10.5 * few + 100


def test_a_plan_with_nothing_to_do_asks_the_store_a_few_times_whatever_the_size() -> None:
    counts = []
    for length in (100, 1000):
        target = chain(length)
        memory = built(target)
        memory.calls = 0
        plan_of(target, memory)
        counts.append(memory.calls)
    assert counts[0] == counts[1] <= 6


def test_a_flat_output_is_present_as_a_blob_and_not_as_a_tree() -> None:
    memory = Memory(here={TreeOutput(sha256(b"deb"))})
    assert actions(plan_of(DEB, memory)) == {"deb": "fetch"}
    memory = Memory(here={FlatOutput(sha256(b"deb"))})
    assert actions(plan_of(DEB, memory)) == {"deb": "fetch"}  # never fetched as it stands


def test_a_derivation_that_is_cut_off_while_planning_is_named_with_what_it_means() -> None:
    memory = Memory()
    old = step("top", step("under", text="old"), n="top")
    memory.run(make_plan(old, memory.knowledge()), gives=lambda derivation: derivation.name.encode())
    moved = step("under", text="new")
    memory.run(make_plan(moved, memory.knowledge()), gives=lambda derivation: derivation.name.encode())
    new = step("top", moved, n="top")
    plan = make_plan(new, memory.knowledge())
    assert plan.is_done
    ((derivation, resolved),) = plan.cutoffs
    assert derivation == new
    assert resolved == memory.resolved[old.id]
