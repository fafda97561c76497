# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.derivations.model import Derivation, closure
from derive.why.closures import contents, packages_moved
from derive.why.graph import graph_of
from support.steps import fetch_deb, root, step


def image(tool: str, lib: str) -> Derivation:
    tools = root("tools", fetch_deb("gcc", tool))
    built = step("built", "script", {"root": tools})
    return step("image", "compose", {"built": built, "base": root("base", fetch_deb("lib", lib))}, parts=[])


def moved(before: Derivation, after: Derivation) -> list[tuple[str, bool]]:
    graph = graph_of(closure(before)) | graph_of(closure(after))
    found = packages_moved(contents(graph, before.id), contents(graph, after.id))
    return [((one.moved.after or one.moved.before).name, one.to_build) for one in found]  # type: ignore[union-attr]


def test_what_is_only_built_with_is_told_from_what_the_output_is_made_of() -> None:
    assert moved(image("1", "1"), image("2", "2")) == [("lib", False), ("gcc", True)]
    assert moved(image("1", "1"), image("1", "1")) == []


def test_the_size_of_a_closure_is_that_of_all_that_is_fetched() -> None:
    one = image("1", "1")
    assert contents(graph_of(closure(one)), one.id).size == 20


def test_a_closure_may_hold_two_versions_of_one_thing() -> None:
    one = step("top", "script", {"a": root("a", fetch_deb("x", "1")), "b": root("b", fetch_deb("x", "2"))})
    found = contents(graph_of(closure(one)), one.id)
    assert sorted(artifact.version for artifact in found.inside.values()) == ["1", "2"]


def test_an_artifact_of_which_no_fetch_is_known_is_there_by_its_hash() -> None:
    base = root("base", fetch_deb("x"))
    nodes = [one for one in closure(base) if one.fixed is None]
    (artifact,) = contents(graph_of(nodes), base.id).inside.values()
    assert artifact.name == str(fetch_deb("x").fixed)


def test_a_package_for_another_architecture_moved_and_did_not_go_and_come() -> None:
    roots = [root("base", fetch_deb("a", "1", arch), fetch_deb("b", "1", arch)) for arch in ("amd64", "arm64")]
    assert moved(roots[0], roots[1]) == [("a", False), ("b", False)]


def test_a_package_that_is_built_with_and_is_in_the_output_moves_in_each_of_them() -> None:
    def top(inside: str, tool: str) -> Derivation:
        tools = root("tools", fetch_deb("libc", tool))
        return step(
            "top",
            "compose",
            {"b": root("base", fetch_deb("libc", inside)), "x": step("x", "script", {"root": tools})},
            parts=[],
        )

    assert moved(top("1", "1"), top("2", "1")) == [("libc", False)]
    assert moved(top("1", "1"), top("1", "2")) == [("libc", True)]
    assert moved(top("1", "1"), top("2", "2")) == [("libc", False)]
