# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from derive.attest.contents import Contents, contents_of
from derive.attest.facts import ImageFacts
from derive.canonical import encode, sha256
from derive.derivations import steps
from derive.derivations.model import BuiltInput, Derivation
from derive.images.split import BASE, own_output, shared_output, shared_place
from support.attested import HOST, SERIES, deb, facts, image, patched, program, tiny, toolchain, wheel, wheels


def contents(target: Derivation, *, empty: tuple[str, ...] = ()) -> Contents:
    known = facts(target, empty=empty)
    return contents_of(known.graph, known.derivation, known.layers)


def names(found: Contents) -> list[str]:
    return sorted(str(one.fetch.arguments["name"]) for one in found.packages.values() if one.fetch is not None)


def layers(found: Contents) -> dict[str, list[str]]:
    def name(output: str) -> str:
        fetch = found.packages[output].fetch
        assert fetch is not None
        return str(fetch.arguments["name"])

    return {
        one.name: sorted([*map(name, one.packages), *(found.own[key].node.name for key in one.own)])
        for one in found.layers
    }


def test_each_layer_has_the_packages_and_the_own_parts_that_its_files_come_from() -> None:
    assert layers(contents(tiny())) == {
        "system": ["bash", "licences"],
        "bytecode": ["root-bytecode"],
        "wheels": ["numpy", "odd", "vllm"],
        "tool": ["tool"],
    }


def test_what_is_only_built_with_is_no_part_of_the_image() -> None:
    assert "compiler" not in names(contents(tiny()))


def test_a_source_is_what_its_program_was_made_from_and_no_package() -> None:
    found = contents(tiny())
    (tool,) = (one for one in found.own.values() if one.node.name == "tool")
    assert [found.sources[output].hex for output in tool.sources] == [sha256(b"tool_3.orig.tar.gz").hex]
    assert not found.sources.keys() & found.packages.keys()


def test_patches_stand_with_the_package_or_the_program_that_they_change() -> None:
    found = contents(tiny())
    assert isinstance(SERIES, list)
    identities = [sha256(encode(one)) for one in SERIES]
    patches = {str(one.fetch.arguments["name"]): one.patches for one in found.packages.values() if one.fetch}
    assert [(one.file, one.identity) for one in patches["vllm"]] == [
        ("patches/vllm/0001-one.patch", identities[0]),
        ("patches/vllm/0002-two.patch", identities[1]),
    ]
    assert patches["numpy"] == patches["bash"] == ()
    (tool,) = (one for one in found.own.values() if one.node.name == "tool")
    assert [one.identity for one in tool.patches] == identities


def test_patches_whose_files_are_not_known_are_named_by_what_they_do() -> None:
    known = facts(image({"wheels": [wheels([wheel("vllm")], with_patches=["vllm"])]}))
    nodes = {key: replace(node, labels=()) for key, node in known.graph.nodes.items()}
    (package,) = contents_of(replace(known.graph, nodes=nodes), known.derivation, known.layers).packages.values()
    assert [one.file for one in package.patches] == ["", ""]


def test_byte_code_of_a_wheel_is_no_part_beside_the_wheel() -> None:
    assert contents(image({"wheels": [wheels([wheel("vllm")])]})).own == {}


def test_what_holds_nothing_that_was_fetched_is_one_part_of_our_own() -> None:
    union = steps.composed("kernels", [("a", "", program("a")), ("b", "", program("b"))], {})
    found = contents(image({"kernels": [union]}))
    assert layers(found) == {"kernels": ["kernels"]}
    assert len(found.sources) == 2


def test_a_union_of_ours_with_packages_has_both() -> None:
    union = steps.composed("all", [("tool", "", program()), ("wheels", "", wheels([wheel("vllm")]))], {})
    assert layers(contents(image({"all": [union]}))) == {"all": ["tool", "vllm"]}


def test_a_program_built_from_a_package_of_the_image_depends_on_it() -> None:
    root = steps.debian_root("root", HOST, {}, [deb("bash")])
    tool = steps.script(
        "tool", arguments={}, root=toolchain(), inputs={"root": root}, build="any", host=HOST, timeout_s=1
    )
    found = contents(image({"system": [root], "tool": [tool]}))
    (part,) = found.own.values()
    assert set(part.sources) == found.packages.keys()
    assert found.sources == {}


def test_a_layer_that_was_left_out_is_not_named() -> None:
    assert "tool" not in layers(contents(tiny(), empty=("tool",)))


def test_a_part_of_a_split_root_has_the_packages_that_the_split_puts_there() -> None:
    packages = ["bash", "curl", "dash", "grep"]
    root = steps.debian_root("root", HOST, {}, [deb(name) for name in packages])
    cut = steps.split("root split", {"by": "package", "own": ["bash"], "shared": 2}, {"tree": BuiltInput(root)})
    outputs = [own_output("bash"), shared_output(1), shared_output(2), BASE]
    found = layers(contents(image({name: [BuiltInput(cut, name)] for name in outputs})))
    assert found[own_output("bash")] == ["bash"]
    for number in (1, 2):
        assert found[shared_output(number)] == [name for name in packages[1:] if shared_place(name, 2) == number]
    assert found[BASE] == packages


def test_a_long_chain_of_steps_is_no_recursion() -> None:
    tree = wheels([wheel("vllm")])
    for number in range(1500):
        tree = steps.composed(f"union {number}", [("all", "", tree)], {})
    assert layers(contents(image({"all": [tree]}))) == {"all": ["vllm"]}


def test_a_patched_tree_of_several_series_has_the_patches_in_their_order() -> None:
    entry = wheel("vllm")
    twice = patched("later", patched("vllm", steps.unpack_wheel(entry)), [{"operations": [{"op": "x"}]}])
    assert isinstance(twice, Derivation)
    (package,) = contents(image({"wheels": [twice]})).packages.values()
    assert [one.file for one in package.patches][:2] == ["patches/vllm/0001-one.patch", "patches/vllm/0002-two.patch"]


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_in_which_inputs_were_given_says_nothing(order: int) -> None:
    known = facts(tiny())
    nodes = {
        key: replace(node, inputs=dict(list(node.inputs.items())[::order])) for key, node in known.graph.nodes.items()
    }
    assert_same(known, replace(known, graph=replace(known.graph, nodes=dict(list(nodes.items())[::order]))))


def assert_same(one: ImageFacts, two: ImageFacts) -> None:
    first, second = (contents_of(each.graph, each.derivation, each.layers) for each in (one, two))
    assert first.layers == second.layers
    assert list(first.packages) == list(second.packages)
    assert list(first.own) == list(second.own)
