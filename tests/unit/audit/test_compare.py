# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.audit.compare import Moved, chosen_platforms, compare, first_divergence, inputs_of
from derive.canonical import Digest, sha256
from derive.derivations.model import FlatOutput
from derive.errors import InputErrors
from derive.releases.document import Release, ReleasedShape
from derive.releases.facts import Facts, Realised, UpstreamFact
from support.released import facts_of, release_of


def digest(text: str) -> Digest:
    return sha256(text.encode())


def realised(name: str, builder: str = "script/1", **outputs: str) -> Realised:
    return Realised(
        name=name, builder=builder, outputs={key: FlatOutput(digest(value)) for key, value in outputs.items()}
    )


def described(steps: Mapping[str, Realised], image: str = "image") -> tuple[Release, Facts]:
    release = release_of(digest(image))
    return release, facts_of(release, {digest(name): one for name, one in steps.items()})


def moved(name: str, builder: str = "script/1") -> Moved:
    return Moved(platform="linux/amd64", derivation=digest(name), name=name, builder=builder, recorded={}, got={})


def test_a_release_is_the_same_as_itself() -> None:
    one = described({"a": realised("a", out="1"), "b": realised("b", out="2", log="3")})
    found = compare(one, one, ["linux/amd64"])
    assert found.same
    assert (found.derivations, found.outputs) == (2, 3)


def test_outputs_that_differ_are_named_with_their_derivation() -> None:
    found = compare(
        described({"a": realised("a", out="1"), "b": realised("b", out="2")}),
        described({"a": realised("a", out="1"), "b": realised("b", out="3")}),
        ["linux/amd64"],
    )
    (one,) = found.moved
    assert (one.name, one.derivation, one.recorded, one.got) == (
        "b", digest("b"), {"out": FlatOutput(digest("2"))}, {"out": FlatOutput(digest("3"))},
    )  # fmt: skip
    assert found.rows == ()


def test_derivations_that_only_one_has_are_named() -> None:
    found = compare(
        described({"a": realised("old", out="1")}), described({"b": realised("new", out="1")}), ["linux/amd64"]
    )
    assert [one.partition(" ")[0] for one in found.absent] == ["old"]
    assert [one.partition(" ")[0] for one in found.added] == ["new"]


def test_what_documents_say_otherwise_is_told_by_key() -> None:
    found = compare(described({}, "one"), described({}, "two"), ["linux/amd64"])
    assert "images.linux/amd64.digest" in {row.place for row in found.rows}


def test_other_platforms_are_left_alone() -> None:
    release = release_of(digest("image"), "linux/amd64", "linux/arm64")
    alone = release_of(digest("image"), "linux/amd64")
    found = compare(
        (release, facts_of(release, {digest("a"): realised("a", out="1")})),
        (alone, facts_of(alone, {digest("a"): realised("a", out="1")})),
        ["linux/amd64"],
    )
    assert found.same, found.rows


def test_of_one_platform_shapes_kernels_and_upstreams_of_others_are_left_alone() -> None:
    shape = ReleasedShape(bundle=digest("bundle"), deployable=True, needs=())
    both = replace(release_of(digest("image"), "linux/amd64", "linux/arm64"), shapes={"here": shape, "there": shape})
    alone = replace(release_of(digest("image"), "linux/amd64"), shapes={"here": shape})
    here, there = {digest("a"): realised("a", out="1")}, {digest("b"): realised("b", out="2")}
    kernels = tuple({"unit": name, "derivation": digest(name).hex} for name in "ab")
    trees = tuple(
        UpstreamFact(name=text, commit=None, tree=FlatOutput(digest(text)), series=(), head=None, patched=None)
        for text in "12"
    )
    recorded = replace(facts_of(both, here), kernels=kernels, upstreams=trees)
    images = {**recorded.images, "linux/arm64": replace(recorded.images["linux/arm64"], derivations=there)}
    got = replace(facts_of(alone, here), kernels=kernels[:1], upstreams=trees[:1])
    assert compare((both, replace(recorded, images=images)), (alone, got), ["linux/amd64"]).rows == ()
    odd = replace(got, kernels=({**kernels[0], "unit": "c"},))
    rows = compare((both, replace(recorded, images=images)), (alone, odd), ["linux/amd64"]).rows
    assert [row.place for row in rows] == ["facts.kernels[0].unit"]


def test_platforms_are_those_of_the_release_unless_named() -> None:
    release = release_of(digest("image"), "linux/amd64", "linux/arm64")
    assert chosen_platforms(release, []) == ("linux/amd64", "linux/arm64")
    assert chosen_platforms(release, ["linux/arm64", "linux/arm64"]) == ("linux/arm64",)
    with pytest.raises(InputErrors):
        chosen_platforms(release_of(digest("image"), "linux/amd64"), ["linux/arm64"])


def test_the_first_divergence_is_the_one_whose_inputs_agree() -> None:
    inputs = {digest("top"): [digest("middle")], digest("middle"): [digest("low"), digest("same")], digest("low"): []}
    first = first_divergence([moved("top"), moved("middle"), moved("low")], inputs)
    assert first is not None
    assert (first.moved.name, first.others) == ("low", ())


def test_several_that_differ_though_their_inputs_agree_are_all_told_the_smallest_first() -> None:
    inputs = {digest("high"): [digest("same")], digest("same"): [], digest("low"): []}
    first = first_divergence([moved("high"), moved("low")], inputs)
    assert first is not None
    assert (first.moved.name, [one.name for one in first.others]) == ("low", ["high"])


def test_inputs_are_those_that_the_facts_name() -> None:
    _, facts = described({"a": realised("a", out="1"), "b": replace(realised("b", out="1"), inputs=(digest("a"),))})
    assert inputs_of(facts) == {digest("a"): (), digest("b"): (digest("a"),)}


def test_facts_that_contradict_each_other_still_give_a_divergence() -> None:
    inputs = {digest("a"): [digest("b")], digest("b"): [digest("a")], digest("c"): [digest("a")]}
    first = first_divergence([moved("a")], inputs)
    assert first is not None
    assert first.moved.name == "a"


def test_what_a_derivation_is_said_to_be_built_from_is_compared() -> None:
    low, step = realised("low", out="1"), realised("step", out="1")
    found = compare(
        described({"low": low, "step": step}),
        described({"low": low, "step": replace(step, inputs=(digest("low"),))}),
        ["linux/amd64"],
    )
    assert not found.same
    assert [(row.recorded, row.got) for row in found.rows] == [("nothing", digest("low").short)]
    assert found.rows[0].place == f"facts.images.linux/amd64.derivations.{digest('step').hex}.inputs"


def test_nothing_moved_is_no_divergence() -> None:
    assert first_divergence([], {}) is None


@given(st.data())
def test_no_input_of_the_first_divergence_differs(data: st.DataObject) -> None:
    names = [str(number) for number in range(data.draw(st.integers(1, 12)))]
    inputs = {
        digest(name): [
            digest(names[at]) for at in data.draw(st.sets(st.integers(0, index - 1)) if index else st.just(set()))
        ]
        for index, name in enumerate(names)
    }
    differing = data.draw(st.sets(st.sampled_from(names), min_size=1))
    first = first_divergence([moved(name) for name in data.draw(st.permutations(sorted(differing)))], inputs)
    assert first is not None
    for one in (first.moved, *first.others):
        assert not {digest(name) for name in differing} & set(inputs[one.derivation])
