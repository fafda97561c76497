# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.derivations.model import Derivation, closure
from derive.operands import ByDigest, Named, parse_operand
from derive.why.graph import Graph, graph_of
from derive.why.path import matcher, near, shortest, users
from support.steps import fetch_deb, root, step

BASH = fetch_deb("bash", "5")
BASE = root("base", BASH, fetch_deb("dash"))
LONG = step("long", "script", {"a": step("middle", "script", {"b": BASE})})
PATCHED = step("patched", "patch", {"source": step("source")}, labels=("patches/up/0001-a.patch",))
TOP = step("top", "script", {"a": LONG, "b": step("short", "script", {"root": BASE}), "p": PATCHED})


def graph(target: Derivation = TOP) -> Graph:
    return graph_of(closure(target))


def names(wanted: str) -> list[str] | None:
    operand = parse_operand(wanted)
    assert isinstance(operand, Named | ByDigest)
    found = shortest(graph(), TOP.id, matcher(graph(), operand))
    return None if found is None else [link.node.name for link in found.links]


def test_the_shortest_of_several_paths_is_found() -> None:
    assert names("base") == ["top", "short", "base"]


@pytest.mark.parametrize(
    "wanted",
    ["bash", "bash_5_amd64.deb", "bash_5_amd64.deb unpacked", str(BASH.fixed)[5:], BASH.id.hex[:12]],
)
def test_a_package_is_found_by_its_name_its_file_its_hash_and_its_id(wanted: str) -> None:
    found = names(wanted)
    assert found is not None
    assert found[:4] == ["top", "short", "base", "bash_5_amd64.deb unpacked"]


@pytest.mark.parametrize("wanted", ["up", "0001-a.patch", "patches/up/0001-a.patch"])
def test_a_patch_step_is_found_by_upstream_and_by_patch(wanted: str) -> None:
    assert names(wanted) == ["top", "patched"]


def test_a_package_of_an_architecture_is_told_from_those_of_others() -> None:
    found = shortest(graph(), TOP.id, matcher(graph(), Named("bash:amd64")))
    assert found is not None
    assert shortest(graph(), TOP.id, matcher(graph(), Named("bash:arm64"))) is None


def test_what_is_not_needed_has_no_path_and_names_that_are_near_are_known() -> None:
    assert names("zsh") is None
    assert "bash" in near(graph(), TOP.id, "basg")


def test_nothing_needs_itself() -> None:
    assert names("top") is None


def test_roles_say_how_each_step_uses_the_next() -> None:
    found = shortest(graph(), TOP.id, matcher(graph(), Named("base")))
    assert found is not None
    assert [link.role for link in found.links] == ["b", "root", ""]


def test_every_direct_user_is_listed_once_with_its_shortest_path() -> None:
    found = users(graph(), TOP.id, matcher(graph(), Named("base")))
    assert [path.links[-2].node.name for path in found] == ["short", "middle"]
    (bash,) = users(graph(), TOP.id, matcher(graph(), Named("bash")))  # what unpacks it is bash, too
    assert bash.links[-2].node.name == "base"


def test_an_output_is_found_by_its_digest() -> None:
    known = Graph(nodes=graph().nodes, outputs={BASE.id: {"out": f"nar:sha256:{'a' * 64}"}})
    found = shortest(known, TOP.id, matcher(known, ByDigest("a" * 12)))
    assert found is not None
    assert found.end.name == "base"


def test_a_platform_leaves_out_what_is_for_another() -> None:
    top = step("top", "script", {"a": step("x", host="linux/amd64"), "b": step("x", host="linux/arm64")})
    found = shortest(graph(top), top.id, matcher(graph(top), Named("x", "any", "linux/arm64")))
    assert found is not None
    assert found.end.host == "linux/arm64"
