# SPDX-License-Identifier: Apache-2.0
"""What a plan makes of what others vouch for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from derive.build.knowledge import Knowledge, Known, Vouch
from derive.build.plan import Action, Plan, make_plan, resolved_of
from derive.canonical import Digest, Json, sha256
from derive.derivations.model import BuiltInput, Derivation, FixedInput, Input, Output, TreeOutput, closure
from derive.errors import Contradicted
from derive.trust.policy import OutputRule


def step(name: str, *inputs: Derivation, **arguments: Json) -> Derivation:
    roles: dict[str, Input] = {
        f"in{at}": FixedInput(one) if one.fixed is not None else BuiltInput(one) for at, one in enumerate(inputs)
    }
    return Derivation(
        name=name,
        builder="script",
        version=1,
        build="any",
        host="any",
        arguments=arguments or {"n": name},
        inputs=roles,
    )


SOURCE = Derivation(
    name="source",
    builder="fetch-url",
    version=1,
    build="any",
    host="any",
    arguments={"sha256": sha256(b"source").hex, "size": 5},
)
TOOL = step("tool", SOURCE)
LIBRARY = step("library", TOOL)
PROGRAM = step("program", LIBRARY, TOOL)


def output(name: str) -> Mapping[str, Output]:
    return {"out": TreeOutput(sha256(name.encode()))}


@dataclass
class World:
    """What a store knows, and what others say; ``said`` and ``here`` are outputs by resolved id."""

    said: dict[Digest, Mapping[str, Output]] = field(default_factory=dict)
    here: dict[Digest, Mapping[str, Output]] = field(default_factory=dict)
    named: dict[Digest, Digest] = field(default_factory=dict)
    present: set[Output] = field(default_factory=set)
    need: int = 1
    fallen: set[Digest] = field(default_factory=set)
    rules: dict[str, OutputRule] = field(default_factory=dict)

    def tell(self, *names: Derivation, here: bool = False) -> None:
        """Have steps known by others, or realised here, each with outputs that its name says."""
        given: dict[Digest, Mapping[str, Output]] = {}
        for one in closure(PROGRAM):
            inputs = {
                role: one_.derivation.fixed or given[one_.derivation.id]["out"] for role, one_ in one.inputs.items()
            }
            resolved = resolved_of(one, inputs).id
            given[one.id] = {"out": one.fixed} if one.fixed is not None else output(one.name)
            if one in names:
                (self.here if here else self.said)[resolved] = given[one.id]
                if here:
                    self.named[one.id] = resolved

    def plan(self, *, whole: bool = False) -> Plan:
        def vouched(pairs: Sequence[tuple[Derivation, Digest]]) -> Mapping[Digest, Vouch]:
            return {
                resolved: Vouch(
                    resolved=resolved,
                    outputs=self.said[resolved],
                    caches=("team",),
                    signers=("ann",),
                    need=self.need,
                    size_bytes=7,
                )
                for _, resolved in pairs
                if resolved in self.said
            }

        def realised(wanted: Iterable[Digest]) -> Mapping[Digest, Known]:
            return {key: Known(key, self.here[key]) for key in wanted if key in self.here}

        knowledge = Knowledge(
            resolved_ids=lambda keys: {key: self.named[key] for key in keys if key in self.named},
            realised=realised,
            present=self.present.__contains__,
            vouched=vouched,
            stands=lambda _, resolved, asked: (
                resolved not in self.fallen and all(rule.holds(["ann"]) for rule in asked)
            ),
            rule=lambda one: self.rules.get(one.name),
        )
        return make_plan(PROGRAM, knowledge, whole=whole)


def actions(plan: Plan) -> dict[str, str]:
    return {one.derivation.name: one.action.value for one in plan.steps}


def test_a_step_that_others_vouch_for_is_taken_and_nothing_below_it_is_wanted() -> None:
    world = World()
    world.tell(TOOL, LIBRARY, PROGRAM)
    plan = world.plan()
    assert actions(plan) == {"program": "substitute"}
    (step,) = plan.steps
    assert step.reason == "its output comes from the cache team, vouched for by ann"
    assert plan.substitute_bytes == 7
    assert plan.document()["substitute_bytes"] == 7
    assert plan.cutoffs == ()


def test_early_cutoff_works_through_what_others_vouch_for() -> None:
    world = World()
    world.tell(TOOL, LIBRARY)
    assert actions(world.plan()) == {"tool": "substitute", "library": "substitute", "program": "build"}


def test_where_nothing_is_known_of_an_input_what_is_above_it_is_built() -> None:
    world = World()
    world.tell(LIBRARY, PROGRAM)
    assert actions(world.plan()) == {"source": "fetch", "tool": "build", "library": "build", "program": "build"}


def test_what_is_here_is_not_taken_and_what_is_gone_is() -> None:
    world = World()
    world.tell(TOOL, LIBRARY, here=True)
    world.tell(TOOL, LIBRARY)
    world.present = set(output("tool").values())
    assert actions(world.plan()) == {"tool": "reuse", "library": "substitute", "program": "build"}


def test_too_few_who_vouch_are_named_in_the_reason_to_build() -> None:
    world = World(need=2)
    world.tell(TOOL)
    plan = world.plan()
    assert actions(plan)["tool"] == "build"
    reason = next(one.reason for one in plan.steps if one.derivation == TOOL)
    assert reason == "never built from these inputs; ann alone vouched for it, and 2 keys must"


def test_others_who_say_otherwise_than_what_is_here_are_an_alarm() -> None:
    world = World()
    world.tell(TOOL, here=True)
    world.tell(TOOL)
    (resolved,) = world.here
    world.said[resolved] = output("owned")
    with pytest.raises(Contradicted) as caught:
        world.plan()
    assert caught.value.message == "tool: this machine and trusted builders contradict each other"
    assert [line.split()[0] for line in caught.value.detail] == ["resolved", "this", "ann"]
    assert caught.value.exit_code == 1


def test_of_too_few_who_say_otherwise_nothing_is_made() -> None:
    world = World(need=2)
    world.tell(TOOL, here=True)
    (resolved,) = world.here
    world.said[resolved] = output("owned")
    world.present = set(output("tool").values())
    assert actions(world.plan())["tool"] == "reuse"


def test_a_plan_for_all_of_a_closure_takes_nothing() -> None:
    world = World()
    world.tell(TOOL, LIBRARY, PROGRAM)
    plan = world.plan(whole=True)
    assert Action.SUBSTITUTE.value not in actions(plan).values()
    assert plan.is_whole


def test_what_came_by_the_word_of_a_key_that_ended_is_built_again() -> None:
    world = World()
    world.tell(TOOL, here=True)
    world.fallen = set(world.here)
    world.present = set(output("tool").values())
    assert actions(world.plan())["tool"] == "build"


def test_what_was_built_here_upon_what_fell_falls_with_it() -> None:
    world = World()
    world.tell(TOOL, LIBRARY, PROGRAM, here=True)
    world.present = {one for name in ("tool", "library", "program") for one in output(name).values()}
    assert actions(world.plan()) == {"program": "reuse"}
    world.fallen = {world.named[TOOL.id]}
    assert actions(world.plan()) == {"source": "fetch", "tool": "build", "library": "build", "program": "build"}


def test_what_was_built_here_upon_what_fell_stands_again_once_another_key_says_the_same_of_that() -> None:
    world = World()
    world.tell(TOOL, LIBRARY, PROGRAM, here=True)
    world.present = {one for name in ("library", "program") for one in output(name).values()}
    world.fallen = {world.named[TOOL.id]}
    world.said = {world.named[TOOL.id]: output("tool")}
    assert actions(world.plan()) == {"program": "reuse"}


def test_what_was_built_here_upon_a_lie_is_not_taken_for_what_stands_upon_the_truth() -> None:
    world = World()
    world.tell(TOOL, LIBRARY, PROGRAM, here=True)
    world.present = {one for name in ("tool", "library", "program") for one in output(name).values()}
    world.fallen = {world.named[TOOL.id]}
    world.said = {world.named[TOOL.id]: output("another tool")}
    assert actions(world.plan()) == {"tool": "substitute", "library": "build", "program": "build"}


TWO = OutputRule(keys=("ann", "ben"), threshold=2)


def test_what_a_rule_asks_of_a_step_it_asks_of_everything_below() -> None:
    world = World(rules={"program": TWO})
    world.tell(TOOL, LIBRARY)
    plan = world.plan()
    assert actions(plan) == {"source": "fetch", "tool": "build", "library": "build", "program": "build"}
    (tool,) = (one for one in plan.steps if one.derivation is TOOL)
    assert tool.reason == "never built from these inputs; ann alone vouched for it, and 2 of ann, ben must"


def test_below_what_another_rule_names_that_rule_says_what_is_asked() -> None:
    one = OutputRule(keys=("ann",), threshold=1)
    world = World(rules={"program": TWO, "library": one, "tool": one})
    world.tell(TOOL, LIBRARY)
    assert actions(world.plan()) == {"tool": "substitute", "library": "substitute", "program": "build"}


def test_what_came_by_one_key_for_something_else_is_built_below_what_two_must_agree_on() -> None:
    world = World(rules={"program": TWO})
    world.tell(TOOL, here=True)
    world.present = set(output("tool").values())
    assert actions(world.plan())["tool"] == "build"


def test_a_fetch_that_others_made_by_this_very_name_is_taken_from_them() -> None:
    world = World()
    world.tell(SOURCE)
    plan = world.plan()
    assert actions(plan) == {"source": "substitute", "tool": "build", "library": "build", "program": "build"}
    assert plan.fetch_bytes == 0
