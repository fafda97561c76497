# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from derive.canonical import Digest, Json
from derive.derivations.model import Derivation, Platform, closure
from derive.why.causes import Cause, root_causes
from derive.why.differences import (
    ABSENT,
    ArtifactMoved,
    BuilderMoved,
    Forgotten,
    InputMoved,
    OrderMoved,
    PatchAdded,
    PatchRemoved,
    TextMoved,
    ValueMoved,
)
from derive.why.graph import Graph, graph_of
from support.steps import fetch_deb, root, step, unpacked


def causes(before: Derivation, after: Derivation, outputs: Mapping[Derivation, str] | None = None) -> list[Cause]:
    """Return the root causes; ``outputs`` names what steps gave."""
    graph = graph_of(closure(before)) | graph_of(closure(after))
    known = {one.id: {"out": text} for one, text in (outputs or {}).items()}
    return list(root_causes(Graph(nodes=graph.nodes, fetches=graph.fetches, outputs=known), before.id, after.id))


def test_one_derivation_has_no_cause() -> None:
    one = root("base", fetch_deb("bash"))
    assert causes(one, one) == []


def test_a_package_that_moved_is_one_cause_however_far_above() -> None:
    def image(version: str) -> Derivation:
        base = root("base", fetch_deb("bash", version), fetch_deb("dash"))
        return step("image", "compose", {"base": step("layer", "script", {"root": base})}, parts=[])

    (cause,) = causes(image("1"), image("2"))
    assert isinstance(cause.difference, ArtifactMoved)
    assert cause.difference.fields == ("locator", "sha256", "version")
    assert cause.path == ("image", "layer", "base", "bash_2_amd64.deb unpacked")
    assert (cause.moved_bytes, cause.steps) == (True, 1)


def test_a_package_that_came_or_went_is_a_lock_entry() -> None:
    (came,) = causes(root("base", fetch_deb("a")), root("base", fetch_deb("a"), fetch_deb("b")))
    (went,) = causes(root("base", fetch_deb("a"), fetch_deb("b")), root("base", fetch_deb("a")))
    assert isinstance(came.difference, ArtifactMoved)
    assert isinstance(went.difference, ArtifactMoved)
    assert (came.difference.before, went.difference.after) == (None, None)
    assert came.difference.after == went.difference.before
    assert came.difference.after is not None
    assert came.difference.after.name == "b"


def test_the_same_packages_for_another_platform_are_no_causes_beside_the_platform() -> None:
    def base(version: str, architecture: str) -> Derivation:
        host: Platform = "linux/amd64" if architecture == "amd64" else "linux/arm64"
        debs = [fetch_deb("a", version, architecture), fetch_deb("b", "1", architecture)]
        return root("base", *debs, host=host, architecture=architecture)

    found = [cause.difference for cause in causes(base("1", "amd64"), base("1", "arm64"))]
    assert found == [
        ValueMoved("host", "linux/amd64", "linux/arm64"),
        ValueMoved("root.architecture", "amd64", "arm64"),
    ]
    (*_, package) = [cause.difference for cause in causes(base("1", "amd64"), base("2", "arm64"))]
    assert isinstance(package, ArtifactMoved)
    assert "version" in package.fields


def patched_wheel(*lines: str) -> Derivation:
    """Return a wheel's installation, with a patch of each of some files."""
    wheel = step("w unpacked", "unpack", {"archive": fetch_deb("w")}, kind="wheel")
    series: list[Json] = [
        {"operations": [{"op": "create", "path": one, "executable": False, "lines": []}]} for one in lines
    ]
    labels = [f"patches/w/{one}.patch" for one in lines]
    patched = step("w patched", "patch", {"source": wheel}, labels=labels, series=series)
    laid = step("w 1 installed", "install-wheel", {"wheel": wheel, **({"patched": patched} if lines else {})})
    return step("programs", "compose", {"w": step("w 1 recorded", "record", {"installed": laid})}, parts=[])


def test_a_patch_that_came_to_a_wheel_or_went_is_the_cause_itself() -> None:
    (came,) = causes(patched_wheel(), patched_wheel("a"))
    assert (type(came.difference), came.step) == (PatchAdded, "w 1 installed")
    (went,) = causes(patched_wheel("a"), patched_wheel())
    assert isinstance(went.difference, PatchRemoved)
    assert went.difference.patch == "patches/w/a.patch"
    (more,) = causes(patched_wheel("a"), patched_wheel("a", "b"))
    assert (type(more.difference), more.step) == (PatchAdded, "w patched")


def test_a_fetch_that_the_store_does_not_know_is_told_by_its_hash() -> None:
    before, after = unpacked(fetch_deb("a", "1")), unpacked(fetch_deb("a", "2"))
    graph = graph_of([before]) | graph_of([after])
    (cause,) = root_causes(graph, before.id, after.id)
    assert isinstance(cause.difference, ArtifactMoved)
    assert cause.difference.after is not None
    assert cause.difference.after.name == str(fetch_deb("a", "2").fixed)


def test_what_stands_on_two_paths_is_said_once() -> None:
    def top(flag: str) -> Derivation:
        low = step("low", flag=flag)
        return step(
            "top", "script", {"a": step("left", "script", {"x": low}), "b": step("right", "script", {"x": low})}
        )

    (cause,) = causes(top("1"), top("2"))
    assert cause.path == ("top", "left", "low")


def test_an_argument_is_named_by_its_key_path() -> None:
    (cause,) = causes(
        step("a", environment={"CFLAGS": "-O2", "CC": "cc"}), step("a", environment={"CFLAGS": "-O3", "CC": "cc"})
    )
    assert cause.difference == ValueMoved("environment.CFLAGS", "-O2", "-O3")
    (cause,) = causes(step("a", environment={}), step("a", environment={"CC": "cc"}))
    assert cause.difference == ValueMoved("environment.CC", ABSENT, "cc")


def test_a_script_is_compared_as_the_text_that_it_is() -> None:
    (cause,) = causes(step("a", script="one%0Atwo%0A"), step("a", script="one%0Athree%0A"))
    assert cause.difference == TextMoved("script", b"one\ntwo\n", b"one\nthree\n")


def test_files_beside_a_script_are_called_by_their_names() -> None:
    (cause,) = causes(step("a", files={"x.c": "one%0A"}), step("a", files={"x.c": "two%0A"}))
    assert cause.difference == TextMoved("x.c", b"one\n", b"two\n")


def test_a_new_version_of_a_builder_is_one_cause_for_all_its_steps() -> None:
    def top(version: int) -> Derivation:
        inputs = {name: step(name, number=version) for name in ("a", "b", "c")}
        return step("top", "compose", inputs, parts=[])

    (cause,) = causes(top(1), top(2))
    assert cause.difference == BuilderMoved("script/1", "script/2")
    assert cause.steps == 3


def test_another_builder_is_said_and_its_arguments_are_not() -> None:
    found = causes(step("a", "script", script="x"), step("a", "compose", parts=[]))
    assert [cause.difference for cause in found] == [BuilderMoved("script/1", "compose/1")]


def test_another_thing_named_for_an_input_is_the_cause_not_what_it_is_made_of() -> None:
    old = step("a", "script", {"root": step("toolchain", x="1")})
    new = step("a", "script", {"root": step("tools", x="2")})
    (cause,) = causes(old, new)
    assert cause.difference == InputMoved("root", "toolchain", "tools")


def test_an_input_whose_output_came_out_the_same_moved_ids_alone() -> None:
    low = [step("low", comment=text) for text in ("a", "b")]
    other = [step("other", comment=text) for text in ("a", "b")]
    tops = [step("top", "script", {"l": one, "o": two}) for one, two in zip(low, other, strict=True)]
    outputs = {low[0]: "nar:same", low[1]: "nar:same", other[0]: "nar:1", other[1]: "nar:2"}
    found = causes(tops[0], tops[1], outputs)
    assert [(cause.step, cause.moved_bytes) for cause in found] == [("other", True), ("low", False)]


def test_what_is_reached_both_ways_moved_bytes() -> None:
    low = [step("low", comment=text) for text in ("a", "b")]
    dead = [step("dead", "script", {"x": one}) for one in low]
    live = [step("live", "script", {"x": one}) for one in low]
    tops = [step("top", "script", {"a": one, "b": two}) for one, two in zip(dead, live, strict=True)]
    outputs = {dead[0]: "nar:same", dead[1]: "nar:same", low[0]: "nar:1", low[1]: "nar:2"}
    (cause,) = causes(tops[0], tops[1], outputs)
    assert cause.path == ("top", "live", "low")
    assert cause.moved_bytes


def test_a_step_that_the_store_has_forgotten_is_named() -> None:
    low = [step("low", x=text) for text in ("1", "2")]
    before, after = (step("top", "script", {"x": one}) for one in low)
    graph = graph_of([before, after, low[1]])
    (cause,) = root_causes(graph, before.id, after.id)
    assert cause.difference == Forgotten(low[0].id)


def test_a_layer_that_the_store_has_forgotten_did_not_come_and_go() -> None:
    layers = [step("layer", "script", x=text) for text in ("1", "2")]
    before, after = (image(step("base"), one) for one in layers)
    graph = graph_of([before, after, layers[0], step("base")])
    (cause,) = root_causes(graph, before.id, after.id)
    assert cause.difference == Forgotten(layers[1].id)


def image(*layers: Derivation) -> Derivation:
    inputs = {f"layer.{index}": one for index, one in enumerate(layers)}
    return step("image", "image", inputs, layers=len(layers))


def test_a_layer_put_below_the_others_is_an_input_that_came_and_no_other_layer_moved() -> None:
    a, b, new = step("layer a"), step("layer b"), step("layer new")
    (cause,) = causes(image(a, b), image(new, a, b))
    assert cause.difference == InputMoved("layer.0", None, "layer new")


def test_layers_in_another_order_are_said_to_be() -> None:
    a, b = step("layer a"), step("layer b")
    (cause,) = causes(image(a, b), image(b, a))
    assert cause.difference == OrderMoved(("layer a", "layer b"), ("layer b", "layer a"))


def test_a_union_says_where_a_part_is_put_and_in_which_order() -> None:
    def union(*parts: tuple[str, str]) -> Derivation:
        inputs = {name: step(name) for name, _ in parts}
        return step("all", "compose", inputs, parts=[{"name": name, "at": at} for name, at in parts], wins={})

    (moved,) = causes(union(("a", ""), ("b", "")), union(("a", "opt"), ("b", "")))
    assert moved.difference == ValueMoved("parts.a.at", "", "opt")
    (order,) = causes(union(("a", ""), ("b", "")), union(("b", ""), ("a", "")))
    assert order.difference == OrderMoved(("a", "b"), ("b", "a"))
    (came,) = causes(union(("a", "")), union(("a", ""), ("b", "")))
    assert came.difference == InputMoved("b", None, "b")


def test_a_long_chain_does_not_recurse() -> None:
    def chain(flag: str) -> Derivation:
        one = step("0", flag=flag)
        for index in range(1, 3000):
            one = step(str(index), "script", {"x": one})
        return one

    (cause,) = causes(chain("a"), chain("b"))
    assert cause.step == "0"
    assert len(cause.path) == 3000


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.lists(st.sampled_from("abcdef"), unique=True))
def test_the_causes_of_two_roots_are_the_packages_in_one_alone(left: list[str], right: list[str]) -> None:
    found = causes(root("r", *map(fetch_deb, left)), root("r", *map(fetch_deb, right)))
    named: set[tuple[bool, str]] = set()
    for cause in found:
        assert isinstance(cause.difference, ArtifactMoved)
        one = cause.difference.after or cause.difference.before
        assert one is not None
        named.add((cause.difference.after is not None, one.name))
    assert named == {(True, n) for n in {*right} - {*left}} | {(False, n) for n in {*left} - {*right}}


@given(st.data())
def test_there_is_a_cause_exactly_where_ids_differ(data: st.DataObject) -> None:
    def tree(depth: int) -> Derivation:
        below = data.draw(st.integers(0, 2)) if depth else 0
        inputs = {f"i{index}": tree(depth - 1) for index in range(below)}
        return step(f"s{depth}", "script", inputs, x=data.draw(st.sampled_from("ab")))

    one, two = tree(3), tree(3)
    found = causes(one, two)
    assert bool(found) == (one.id != two.id)
    assert all(isinstance(key, Digest) for key in (one.id, two.id))
