# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import pytest

from derive.canonical import Json, sha256
from derive.derivations.model import BuiltInput, Derivation, FlatOutput, Input, Output, TreeOutput
from derive.derivations.outputs import fits

FLAT = FlatOutput(sha256(b"x"))
NAR = TreeOutput(sha256(b"x"))
FACTS = TreeOutput(sha256(b"x"), "facts")
HASH = sha256(b"x").hex
IMAGE = {"out": FLAT, "config": FLAT, "layer.0": FLAT, "layer.1": FLAT}


def step(builder: str, arguments: Mapping[str, Json], inputs: Mapping[str, Input] | None = None) -> Derivation:
    return Derivation(
        name="a", builder=builder, version=1, build="any", host="any", arguments=arguments, inputs=inputs or {}
    )


BASE: Mapping[str, Input] = {"base": BuiltInput(step("image", {"layers": 1}))}


@pytest.mark.parametrize(
    ("one", "outputs"),
    [
        (step("script", {}), {"out": NAR}),
        (step("compose", {"identity": "facts"}), {"out": FACTS}),
        (step("bytecode", {"identity": "facts"}), {"out": NAR}),
        (step("facts", {}), {"out": FLAT}),
        (step("layer", {}), {"out": FLAT, "descriptor": FLAT}),
        (step("split", {"by": "several"}), {"out": FACTS}),
        (
            step("split", {"by": "package", "own": ["torch"], "shared": 2}),
            {"out": FACTS, "own torch": FACTS, "shared 01": FACTS, "shared 02": FACTS},
        ),
        (step("image", {"layers": 2}), IMAGE),
        (step("image", {"layers": 3, "optional": [1]}), IMAGE),
        (step("image", {"layers": 1}, BASE), IMAGE),
        (step("fetch-deb", {"sha256": HASH}), {"out": FLAT}),
        (step("fetch-git", {"nar": HASH}), {"out": NAR, "proof": FLAT}),
        (step("fetch-oci", {"sha256": HASH, "layers": [{}, {}]}), IMAGE),
    ],
)
def test_what_each_builder_gives_fits_and_nothing_less_nor_more(one: Derivation, outputs: Mapping[str, Output]) -> None:
    assert fits(one, outputs)
    assert not fits(one, {})
    assert not fits(one, {**outputs, "zzz": FLAT})
    assert not fits(one, {**outputs, "out": NAR if outputs["out"] != NAR else FLAT})
    assert not fits(one, {name: output for name, output in outputs.items() if name != "out"})


@pytest.mark.parametrize(
    "one",
    [
        step("image", {"layers": 1}),
        step("image", {"layers": 4, "optional": [1]}),
        step("image", {"layers": 3}, BASE),
        step("fetch-oci", {"sha256": HASH, "layers": [{}]}),
    ],
)
def test_an_image_has_the_layers_that_it_says(one: Derivation) -> None:
    assert not fits(one, IMAGE)


def test_the_layers_of_an_image_are_numbered_from_0() -> None:
    assert not fits(step("image", {"layers": 1}), {"out": FLAT, "config": FLAT, "layer.1": FLAT})


def test_a_fetch_gives_what_its_hash_says() -> None:
    assert not fits(step("fetch-deb", {"sha256": HASH}), {"out": FlatOutput(sha256(b"other"))})
