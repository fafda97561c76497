# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from derive.canonical import Digest, sha256
from derive.derivations.model import FlatOutput, TreeOutput
from derive.errors import Corrupt
from derive.store.closure import Closure, History
from derive.store.closure_check import included, require_coherent, resolved_id
from derive.store.closure_gather import gather
from derive.store.local import LocalStore
from derive.store.reach import Level
from derive.trust.statement import Claim, Statement
from support.closures import Filled, fill


@dataclass(frozen=True, slots=True)
class Parts:
    """A closure at every level, and the steps it is of."""

    filled: Filled
    levels: dict[Level, tuple[Closure, Statement]]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    with LocalStore(tmp_path_factory.mktemp("check") / "store") as store:
        filled = fill(store)
        found = {level: gather(store, [filled.image], level) for level in Level}
        yield Parts(filled, {level: (one.closure, one.statement) for level, one in found.items()})


@pytest.mark.parametrize("level", Level)
def test_what_was_gathered_agrees(parts: Parts, level: Level) -> None:
    require_coherent(*parts.levels[level])


def test_each_level_holds_what_a_collection_of_the_same_name_keeps(parts: Parts) -> None:
    closure, _ = parts.levels[Level.AUDIT]
    steps = {step.id: step for step in closure.steps}
    filled = parts.filled
    held = {level: included(level, frozenset([filled.image.id]), steps) for level in Level}
    assert held[Level.RUN] == {filled.image.id}
    assert held[Level.REBUILD] == {filled.image.id, filled.fetch.id, filled.tools.id}
    assert held[Level.AUDIT] == {step.id for step in filled.steps}


def test_a_run_holds_the_document_of_its_target_alone(parts: Parts) -> None:
    closure, _ = parts.levels[Level.RUN]
    assert [step.id for step in closure.steps] == [parts.filled.image.id]


def test_resolved_ids_are_those_of_the_engine(parts: Parts) -> None:
    closure, statement = parts.levels[Level.AUDIT]
    claims = {claim.resolved: claim for claim in statement.claims}
    outputs = parts.filled.outputs
    for derivation in parts.filled.steps:
        step = next(one for one in closure.steps if one.id == derivation.id)
        inputs = {role: outputs[one.derivation.id][one.output] for role, one in derivation.inputs.items()}
        assert resolved_id(step, inputs) == step.resolved
        assert step.resolved in claims


Change = Callable[[Closure, Statement], tuple[Closure, Statement]]


def without_claim(index: int) -> Change:
    return lambda c, s: (c, replace(s, claims=s.claims[:index] + s.claims[index + 1 :]))


def changed_claim(index: int, change: Callable[[Claim], Claim]) -> Change:
    return lambda c, s: (c, Statement.of(s.subjects, [change(x) if i == index else x for i, x in enumerate(s.claims)]))


def every_claim(change: Callable[[Claim], Claim]) -> Change:
    return lambda c, s: (c, Statement.of(s.subjects, map(change, s.claims)))


def with_claim(resolved: Digest) -> Change:
    claim = Claim(resolved=resolved, builder="script/1", outputs={"out": TreeOutput(sha256(b""))})
    return lambda c, s: (c, Statement.of(s.subjects, [*s.claims, claim]))


def with_history(closure: Closure, statement: Statement) -> tuple[Closure, Statement]:
    history = History(resolved=sha256(b""), engine="", host="", duration_ns=0, built_s=0, log_of=None, log=None)
    return replace(closure, histories=(*closure.histories, history)), statement


def moved(closure: Closure, statement: Statement) -> tuple[Closure, Statement]:
    """Give the fetch another resolved id, in its step and in what is said of it."""
    wrong = sha256(b"wrong")
    fetch = next(step for step in closure.steps if step.is_fetch)
    steps = tuple(replace(step, resolved=wrong) if step is fetch else step for step in closure.steps)
    claims = [replace(one, resolved=wrong) if one.resolved == fetch.resolved else one for one in statement.claims]
    histories = tuple(one for one in closure.histories if one.resolved != fetch.resolved)
    return replace(closure, steps=steps, histories=histories), Statement.of(statement.subjects, claims)


CHANGES: dict[str, tuple[Change, str]] = {
    "no target": (lambda c, s: (replace(c, targets=(sha256(b""),)), s), "is no derivation of it"),
    "a claim less": (without_claim(0), "nothing is said of it"),
    "a claim more": (with_claim(sha256(b"x")), "something is said of"),
    "no outputs": (changed_claim(2, lambda x: replace(x, outputs={})), "no outputs"),
    "other builder": (every_claim(lambda x: replace(x, builder="script/9")), "built by"),
    "no main output": (every_claim(lambda x: replace(x, outputs={"a": x.outputs["out"]})), "no main output"),
    "output absent": (
        every_claim(lambda x: replace(x, outputs={**x.outputs, "b": FlatOutput(sha256(b"absent"))})),
        "its output b is not in it",
    ),
    "tree as file": (
        every_claim(lambda x: replace(x, outputs={n: FlatOutput(o.digest) for n, o in x.outputs.items()})),
        "is not in it",
    ),
    "no trees": (lambda c, s: (replace(c, trees=()), s), "is not in it"),
    "no blobs": (lambda c, s: (replace(c, blobs=()), s), "is not in it"),
    "a history more": (with_history, "a history of"),
    "resolved otherwise": (moved, "demo: it does not resolve to"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_does_not_agree_is_named(parts: Parts, name: str) -> None:
    change, message = CHANGES[name]
    with pytest.raises(Corrupt) as caught:
        require_coherent(*change(*parts.levels[Level.AUDIT]))
    assert any(message in line for line in caught.value.detail), caught.value.detail


@pytest.mark.parametrize("level", [Level.REBUILD, Level.AUDIT])
def test_no_step_below_the_target_may_be_left_out(parts: Parts, level: Level) -> None:
    closure, statement = parts.levels[level]
    for index, step in enumerate(closure.steps):
        if step.id in closure.targets:
            continue
        steps = closure.steps[:index] + closure.steps[index + 1 :]
        with pytest.raises(Corrupt):
            require_coherent(replace(closure, steps=steps), statement)


def test_a_fetch_that_gave_another_artifact_than_it_names_is_told(parts: Parts) -> None:
    closure, statement = parts.levels[Level.AUDIT]
    fetch = next(step for step in closure.steps if step.is_fetch)
    other = next(blob.digest for blob in closure.blobs if FlatOutput(blob.digest) != fetch.fixed())
    claims = [
        replace(x, outputs={"out": FlatOutput(other)}) if x.resolved == fetch.resolved else x for x in statement.claims
    ]
    with pytest.raises(Corrupt) as caught:
        require_coherent(closure, Statement.of(statement.subjects, claims))
    assert "demo: another output than it names" in caught.value.detail


def test_outputs_that_do_not_lead_to_what_is_built_from_them_are_told(parts: Parts) -> None:
    closure, statement = parts.levels[Level.AUDIT]
    tools = next(step for step in closure.steps if step.name == "tools")
    other = TreeOutput(next(t.digest for t in closure.trees if t.digest != parts.filled.out(parts.filled.tools)))
    claims = [replace(x, outputs={"out": other}) if x.resolved == tools.resolved else x for x in statement.claims]
    with pytest.raises(Corrupt) as caught:
        require_coherent(closure, Statement.of(statement.subjects, claims))
    assert any(line.startswith("hello: it does not resolve to") for line in caught.value.detail)


def test_a_lot_that_is_wrong_is_cut_short(parts: Parts) -> None:
    closure, statement = parts.levels[Level.AUDIT]
    with pytest.raises(Corrupt) as caught:
        require_coherent(
            replace(closure, blobs=(), trees=()),
            every_claim(lambda x: replace(x, builder="a/1"))(closure, statement)[1],
        )
    assert len(caught.value.detail) == 11
    assert caught.value.detail[-1].startswith("and ")
