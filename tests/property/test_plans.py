# SPDX-License-Identifier: Apache-2.0
"""Plans over any graph: stable, complete, and never longer for knowing more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from derive.build.knowledge import Knowledge, Known
from derive.build.plan import Action, Plan, make_plan, resolved_of
from derive.canonical import Digest, Json, sha256
from derive.derivations.model import BuiltInput, Derivation, FixedInput, Input, Output, TreeOutput, closure

Graph = list[tuple[bool, int, list[int]]]
"""Of each step: whether it is a fetch, what it says, and which steps before it are its inputs."""


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    found: Graph = []
    for index in range(draw(st.integers(1, 12))):
        is_fetch = draw(st.booleans())
        inputs = [] if is_fetch or not index else draw(st.lists(st.integers(0, index - 1), max_size=4, unique=True))
        found.append((is_fetch, draw(st.integers(0, 3)), inputs))
    found.append((False, 9, list(range(len(found)))))
    return found


def derivations(graph: Graph, *, backwards: bool = False) -> list[Derivation]:
    """Make the graph's steps; ``backwards`` gives the inputs, and all mappings, in another order."""
    found: list[Derivation] = []
    for index, (is_fetch, text, inputs) in enumerate(graph):
        name = f"step {index}"
        arguments: dict[str, Json] = {"name": name, "text": text}
        if is_fetch:
            arguments |= {"sha256": sha256(b"%d %d" % (index, text)).hex, "size": 10}
        roles: dict[str, Input] = {}
        for place in reversed(inputs) if backwards else inputs:
            one = found[place]
            roles[f"in.{place}"] = FixedInput(one) if one.fixed is not None else BuiltInput(one)
        if backwards:
            arguments = dict(reversed(arguments.items()))
        builder = "fetch-deb" if is_fetch else "script"
        made = Derivation(
            name=name, builder=builder, version=1, build="any", host="any", arguments=arguments, inputs=roles
        )
        found.append(made)
    return found


@dataclass
class Memory:
    """What a store would know, as values."""

    resolved: dict[Digest, Digest] = field(default_factory=dict)
    realised: dict[Digest, Known] = field(default_factory=dict)
    here: set[Output] = field(default_factory=set)

    def knowledge(self) -> Knowledge:
        def resolved(wanted: Iterable[Digest]) -> Mapping[Digest, Digest]:
            return {key: self.resolved[key] for key in wanted if key in self.resolved}

        def realised(wanted: Iterable[Digest]) -> Mapping[Digest, Known]:
            return {key: self.realised[key] for key in wanted if key in self.realised}

        return Knowledge(resolved_ids=resolved, realised=realised, present=self.here.__contains__)

    def run(self, plan: Plan, gives: Callable[[Derivation], bytes]) -> None:
        outputs: dict[Digest, Mapping[str, Output]] = {s.derivation.id: s.outputs for s in plan.steps if s.outputs}
        for derivation, resolved in plan.cutoffs:
            self.resolved[derivation.id] = resolved
        for step in plan.steps:
            one = step.derivation
            if step.action is Action.REUSE:
                continue
            inputs = {
                role: reference.derivation.fixed or outputs[reference.derivation.id][reference.output]
                for role, reference in one.inputs.items()
            }
            key = resolved_of(one, inputs).id
            known = self.realised.get(key)
            if known is None or not all(output in self.here for output in known.outputs.values()):
                known = Known(resolved=key, outputs={"out": one.fixed or TreeOutput(sha256(gives(one)))})
                self.realised[key] = known
            self.resolved[one.id] = key
            self.here |= set(known.outputs.values())
            outputs[one.id] = known.outputs


def says(derivation: Derivation) -> bytes:
    return str(derivation.arguments["text"]).encode() + derivation.name.encode()


def names(plan: Plan) -> list[tuple[str, Action, str]]:
    return [(step.derivation.name, step.action, step.reason) for step in plan.steps]


@given(graphs())
def test_a_plan_does_not_depend_on_the_order_in_which_anything_was_written(graph: Graph) -> None:
    one, other = derivations(graph)[-1], derivations(graph, backwards=True)[-1]
    assert one.id == other.id
    plans = [make_plan(target, Memory().knowledge()) for target in (one, other)]
    assert names(plans[0]) == names(plans[1])
    assert names(plans[0]) == names(make_plan(one, Memory().knowledge()))


@given(graphs())
def test_a_cold_plan_has_every_step_once_and_inputs_before_what_uses_them(graph: Graph) -> None:
    target = derivations(graph)[-1]
    plan = make_plan(target, Memory().knowledge())
    order = [step.derivation.id for step in plan.steps]
    assert len(order) == len(set(order))
    assert set(order) == {derivation.id for derivation in closure(target)}
    seen: set[Digest] = set()
    for step in plan.steps:
        assert {reference.derivation.id for reference in step.derivation.inputs.values()} <= seen
        seen.add(step.derivation.id)


@given(graphs())
def test_nothing_is_left_to_do_after_a_plan_was_run(graph: Graph) -> None:
    target = derivations(graph)[-1]
    memory = Memory()
    memory.run(make_plan(target, memory.knowledge()), says)
    assert make_plan(target, memory.knowledge()).is_done


@given(graphs(), st.integers(0, 11), st.integers(4, 6))
def test_a_plan_after_an_edit_touches_nothing_that_does_not_depend_on_it(graph: Graph, place: int, text: int) -> None:
    memory = Memory()
    memory.run(make_plan(derivations(graph)[-1], memory.knowledge()), says)
    place %= len(graph)
    edited = [(f, text if i == place else t, inputs) for i, (f, t, inputs) in enumerate(graph)]
    after = derivations(edited)
    plan = make_plan(after[-1], memory.knowledge())
    moved = {one.id for one in after if any(inner.name == f"step {place}" for inner in closure(one))}
    assert {step.derivation.id for step in plan.steps if step.action is not Action.REUSE} <= moved


@given(graphs(), st.integers(0, 11))
def test_an_edit_that_changes_no_output_runs_that_step_alone_and_those_above_keep_their_digests(
    graph: Graph, place: int
) -> None:
    memory = Memory()
    target = derivations(graph)[-1]
    memory.run(make_plan(target, memory.knowledge()), lambda one: one.name.encode())
    before = memory.realised[memory.resolved[target.id]].outputs
    place %= len(graph)
    edited = [(f, 7 if i == place and not f else t, inputs) for i, (f, t, inputs) in enumerate(graph)]
    again = derivations(edited)[-1]
    count = len(memory.realised)
    memory.run(make_plan(again, memory.knowledge()), lambda one: one.name.encode())
    assert memory.realised[memory.resolved[again.id]].outputs == before
    assert len(memory.realised) - count <= 1


@given(graphs(), st.sets(st.integers(0, 11)))
def test_knowing_more_never_plans_more(graph: Graph, lost: set[int]) -> None:
    target = derivations(graph)[-1]
    memory = Memory()
    memory.run(make_plan(target, memory.knowledge()), says)
    outputs = sorted(memory.here, key=str)
    less = Memory(memory.resolved, memory.realised, {o for i, o in enumerate(outputs) if i not in lost})
    more = Memory(memory.resolved, memory.realised, {o for i, o in enumerate(outputs) if i not in lost or i % 2})

    def work(memory: Memory) -> set[str]:
        plan = make_plan(target, memory.knowledge())
        return {step.derivation.name for step in plan.steps if step.action is not Action.REUSE}

    assert work(more) <= work(less)
