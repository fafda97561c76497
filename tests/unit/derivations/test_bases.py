# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.attest.sets import lock_sets
from derive.canonical import Digest, sha256
from derive.derivations.evaluate import Evaluator, Overlay
from derive.derivations.model import Derivation, FlatOutput
from derive.derivations.scope import load_scope
from derive.errors import InputErrors
from derive.images.layer import LayerDescriptor
from derive.images.oci import ImageConfig, image_documents
from derive.releases.rows import layers
from support.projects import project

UPON = """\
platforms = {platforms}
default-platform = "linux/amd64"
base = {base}
[[layers]]
name = "more"
from = ["patched"]
[config]
environment = {{ A = "1" }}
{more}"""
DIGEST = f"sha256:{'0' * 64}"


def upon(base: str, *, platforms: str = '["linux/amd64"]', more: str = "") -> dict[str, str | bytes | None]:
    return {"images/upon.toml": UPON.format(base=base, platforms=platforms, more=more)}


def evaluated(base: str, *, more: str = "") -> Derivation:
    return Evaluator(load_scope(project(upon(base, more=more)))).image("upon", None)


def refused(changes: dict[str, str | bytes | None]) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        load_scope(project(changes))
    return [f"{problem.where}: {problem.message}" for problem in caught.value.problems()]


def test_an_image_upon_another_takes_its_manifest_and_the_union_of_both() -> None:
    found = evaluated('"image"')
    base = Evaluator(load_scope(project({}))).image("image", "linux/amd64")
    assert found.inputs["base"].derivation == base
    assert found.arguments["layers"] == 1
    assert base.inputs["root"].derivation in [one.derivation for one in found.inputs["root"].derivation.inputs.values()]


def test_a_digest_is_part_of_what_the_image_is() -> None:
    assert evaluated(f'"image@{DIGEST}"').arguments["base-digest"] == DIGEST
    assert evaluated(f'"image@{DIGEST}"').id != evaluated('"image"').id


def test_an_image_upon_nothing_is_what_it_was() -> None:
    image = Evaluator(load_scope(project({}))).image("image", None)
    assert not {"base", "own"} & image.inputs.keys()
    assert "base-digest" not in image.arguments


def test_what_a_base_says_of_bits_is_said_of_the_layers_upon_it() -> None:
    modes = '[modes]\n"/file" = { mode = "0600" }\n'
    found = evaluated('"image"', more=modes)
    layer = found.inputs["layer.0"].derivation
    assert found.arguments["modes"] == layer.arguments["modes"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (upon('"imag"'), ["images/upon.toml: base: no image is named 'imag'"]),
        (upon('"upon"'), ["images/upon.toml: base: an image upon itself: upon -> upon"]),
        (upon('{ set = "no", oci = "x" }'), ["images/upon.toml: base.set: no lock set is named 'no'"]),
        (upon('{ set = "w", oci = "x" }'), ["images/upon.toml: base.set: lock set w is not of kind upstreams"]),
        (upon("7"), ["images/upon.toml: base: name an image of this project, or with the keys set and oci one that"]),
        (upon('"image@sha256:12"'), ["images/upon.toml: base: not an image of this project: NAME, or NAME@sha256:"]),
        (
            upon(f'"image@{DIGEST}"', platforms='["linux/amd64", "linux/arm64"]'),
            ["images/upon.toml: base: a digest is of one platform, and this image has several"],
        ),
    ],
)
def test_a_base_that_cannot_be_is_said(changes: dict[str, str | bytes | None], said: list[str]) -> None:
    found = refused(changes)
    assert len(found) == len(said)
    assert all(one.startswith(start) for one, start in zip(found, said, strict=True)), found


def test_images_upon_each_other_are_said_once_for_each() -> None:
    other = UPON.format(base='"upon"', platforms='["linux/amd64"]', more="")
    found = refused({**upon('"other"'), "images/other.toml": other})
    assert len(found) == 2
    assert all("an image upon itself" in one for one in found)


def test_a_base_that_lacks_a_platform_is_said() -> None:
    small = UPON.format(base='"image"', platforms='["linux/amd64"]', more="")
    both = UPON.format(base='"upon"', platforms='["linux/amd64", "linux/arm64"]', more="")
    assert refused({"images/upon.toml": small, "images/both.toml": both}) == [
        "images/both.toml: base: upon is not made for linux/arm64"
    ]


def test_a_work_tree_over_an_image_upon_another_leaves_the_base_below() -> None:
    scope = load_scope(project(upon('"image"')))
    overlay = Overlay(name="edit", at="", tree=Digest("1" * 64))
    dev = Evaluator(scope).dev_image("upon", "linux/amd64", [overlay])
    base = Evaluator(scope).image("upon", "linux/amd64")
    assert {role: dev.inputs[role] for role in ("base", "own", "root")} == {
        role: base.inputs[role] for role in ("base", "own", "root")
    }
    assert dev.arguments["layers"] == 2


def test_locks_and_layers_of_a_base_are_those_of_the_image_upon_it() -> None:
    scope = load_scope(project(upon('"image"')))
    assert lock_sets(scope, "upon") == lock_sets(scope, "image")
    target = Evaluator(scope).image("upon", None)
    base = target.inputs["base"].derivation
    steps = [*_blobs(base), *_blobs(target)]
    blobs = {step.id: {"out": FlatOutput(sha256(step.name.encode()))} for step in steps}
    written = [
        LayerDescriptor(blob=out["out"].digest, size=1, diff_id=out["out"].digest, uncompressed_size=1)
        for out in blobs.values()
    ]
    documents = image_documents(ImageConfig(), written, platform="linux/amd64", derivation=target.id)
    found = layers(target, blobs, documents.manifest, [str(one.diff_id) for one in written])
    assert [one.name for one in found] == ["image layer base", "image layer rest", "upon layer more"]


def _blobs(image: Derivation) -> list[Derivation]:
    return [one.derivation for role, one in sorted(image.inputs.items()) if role.startswith("blob.")]
