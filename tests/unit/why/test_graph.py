# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.canonical import sha256
from derive.derivations.model import Derivation, closure
from derive.why.graph import Built, Fixed, Graph, Node, graph_of, node_of, subject, variant
from support.steps import fetch_deb, root, step, unpacked


def node(one: Derivation) -> Node:
    return node_of(one.id, one.name, one.document())


def test_a_stored_document_and_a_projects_derivation_are_one_node() -> None:
    one = root("base", fetch_deb("bash"), files={"a": "b"})
    assert graph_of(closure(one)).nodes[one.id] == node(one)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"builder": "a/1", "build": "any", "host": "any", "arguments": [], "inputs": {}},
        {"builder": "a", "build": "any", "host": "any", "arguments": {}, "inputs": {}},
        {"builder": "a/1", "build": "any", "host": "any", "arguments": {}, "inputs": {"x": "y"}},
    ],
)
def test_what_is_no_derivation_is_refused(document: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        node_of(sha256(b""), "x", document)  # type: ignore[arg-type]


def test_a_graph_knows_names_and_outputs_of_inputs_as_far_as_they_are_known() -> None:
    deb = fetch_deb("bash")
    one = unpacked(deb)
    graph = Graph(nodes=graph_of([one]).nodes, outputs={one.id: {"out": "nar:x"}})
    assert graph.name(Built(one.id, "out")) == one.name
    assert graph.output(Built(one.id, "out")) == "nar:x"
    assert graph.output(Built(one.id, "other")) is None
    assert graph.name(Fixed("flat:sha256:00")) is None
    assert graph.output(Fixed("flat:sha256:00")) == "flat:sha256:00"
    assert graph.fixed(one.id) == {Fixed(str(deb.fixed))}


def test_a_closure_with_gaps_is_what_is_known_of_it() -> None:
    low = step("low")
    top = step("top", "script", {"a": step("middle", "script", {"b": low})})
    graph = graph_of([top, low])
    assert [one.name for one in graph.closure(top.id)] == ["top"]


def wheel(file: str) -> Derivation:
    name, version = file.split("-")[:2]
    return step(file, "fetch-wheel", name=name, version=version, file=file, sha256=sha256(file.encode()).hex)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (fetch_deb("a", "1"), fetch_deb("a", "2"), True),
        (fetch_deb("a", "1"), fetch_deb("a", "1", "arm64"), False),
        (unpacked(fetch_deb("a", "1")), unpacked(fetch_deb("a", "1:2-3")), True),
        (wheel("a-1-cp313-cp313-manylinux_2_28_x86_64.whl"), wheel("a-2-cp313-cp313-manylinux_2_34_x86_64.whl"), True),
        (
            wheel("a-1-cp313-cp313-manylinux_2_28_x86_64.whl"),
            wheel("a-1-cp313-cp313-manylinux_2_28_aarch64.whl"),
            False,
        ),
        (wheel("a-1-cp312-cp312-manylinux_2_28_x86_64.whl"), wheel("a-1-cp313-cp313-manylinux_2_28_x86_64.whl"), False),
        (step("numpy 2.0 installed", "install-wheel"), step("numpy 2.1 installed", "install-wheel"), True),
        (step("numpy 2.0 installed", "install-wheel"), step("numpy 2.0 byte code", "bytecode"), False),
        (step("a", "script"), step("a", "compose"), True),
        (step("a"), step("b"), False),
    ],
)
def test_two_steps_are_about_one_thing_or_not(one: Derivation, two: Derivation, same: bool) -> None:
    assert (subject(node(one)) == subject(node(two))) is same


def test_the_files_of_one_source_are_several_things() -> None:
    names = ("a_1.orig.tar.gz", "a_1-1.debian.tar.xz", "a_1-1.dsc")
    files = [step(name, "fetch-source", name="a", version="1-1", locator=f"pool/{name}") for name in names]
    later = step("a_2.orig.tar.gz", "fetch-source", name="a", version="2-1", locator="pool/a_2.orig.tar.gz")
    assert len({subject(node(one)) for one in files}) == 3
    assert subject(node(files[0])) == subject(node(later))


def test_a_variant_is_the_platforms_and_pythons_of_a_closure() -> None:
    base = root("base", fetch_deb("a"), fetch_deb("b", architecture="all"))
    top = step("top", "bytecode", {"root": base}, python="3.13")
    found = variant(graph_of(closure(top)).closure(top.id))
    assert found.platforms == {"any", "linux/amd64", "amd64"}
    assert "3.13" in found.pythons
