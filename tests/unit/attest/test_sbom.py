# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from derive.attest.facts import ImageFacts
from derive.attest.sbom import bill, sbom, sbom_statement, serial_number
from derive.canonical import encode, sha256
from derive.derivations import steps
from support.attested import HOST, SERIES, deb, facts, image, tiny, wheel, wheels


@pytest.fixture(scope="module")
def known() -> ImageFacts:
    return facts(tiny())


@pytest.fixture(scope="module")
def made(known: ImageFacts) -> Any:
    return json.loads(sbom(known))


def component(made: Any, ref: str) -> Any:
    (found,) = (one for one in made["components"] if one["bom-ref"].startswith(ref))
    return found


def test_it_is_valid_by_the_schema_that_the_library_bundles(known: ImageFacts) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(sbom(known).decode()) is None


def test_it_says_the_same_every_time_and_holds_no_time_and_no_chance(known: ImageFacts, made: Any) -> None:
    assert sbom(known) == sbom(known)
    assert "timestamp" not in made["metadata"]
    assert made["serialNumber"] == f"urn:uuid:{serial_number(known.image)}"


def test_the_order_in_which_anything_was_found_says_nothing(known: ImageFacts) -> None:
    graph = known.graph
    turned = replace(
        graph,
        nodes=dict(reversed(list(graph.nodes.items()))),
        fetches=dict(reversed(list(graph.fetches.items()))),
        outputs=dict(reversed(list(graph.outputs.items()))),
    )
    assert sbom(replace(known, graph=turned)) == sbom(known)


def test_the_serial_number_is_a_uuid_of_version_8_that_follows_from_the_image() -> None:
    found = uuid.UUID(serial_number(sha256(b"image")))
    assert (found.version, found.variant) == (8, uuid.RFC_4122)
    assert serial_number(sha256(b"other")) != str(found)


def test_the_image_is_what_the_bill_is_of(known: ImageFacts, made: Any) -> None:
    found = made["metadata"]["component"]
    assert (found["type"], found["name"], found["version"]) == ("container", "tiny", str(known.image))
    assert found["purl"] == f"pkg:oci/tiny@{known.image}?arch=arm64"
    assert found["hashes"] == [{"alg": "SHA-256", "content": known.image.hex}]
    assert {"name": "derive:derivation", "value": str(known.derivation)} in found["properties"]


def test_packages_have_urls_versions_hashes_and_files(made: Any) -> None:
    bash = component(made, "pkg:deb/debian/bash@")
    assert bash["purl"] == "pkg:deb/debian/bash@1-1?arch=arm64&distro=trixie"
    assert bash["version"] == "1-1"
    assert bash["hashes"] == [{"alg": "SHA-256", "content": deb("bash").sha256.hex}]
    assert bash["properties"] == [{"name": "derive:file", "value": "bash_1-1_arm64.deb"}]
    vllm = component(made, "pkg:pypi/vllm@")
    assert (vllm["purl"], vllm["hashes"][0]["content"]) == ("pkg:pypi/vllm@2.0", wheel("vllm").sha256.hex)


def test_licences_are_expressions_where_they_are_some_and_names_where_not(made: Any) -> None:
    assert component(made, "pkg:pypi/vllm@")["licenses"] == [{"license": {"id": "MIT"}}]
    assert component(made, "pkg:pypi/numpy@")["licenses"] == [{"expression": "BSD-3-Clause AND (MIT OR Zlib)"}]
    assert component(made, "pkg:deb/debian/bash@")["licenses"] == [{"license": {"name": "GPL-2+"}}]
    assert component(made, "pkg:deb/debian/licences@")["licenses"] == [{"license": {"name": "see-copyright-file"}}]
    assert "licenses" not in component(made, "pkg:pypi/odd@"), "unknown is no licence"


def test_a_licence_that_spdx_does_not_list_is_an_expression(known: ImageFacts) -> None:
    other = replace(known, licences={wheel("vllm").sha256.hex: "LicenseRef-NVIDIA-Proprietary"})
    found = component(json.loads(sbom(other)), "pkg:pypi/vllm@")
    assert found["licenses"] == [{"expression": "LicenseRef-NVIDIA-Proprietary"}]


def test_patches_have_the_names_of_their_files_and_the_digests_of_what_they_do(made: Any) -> None:
    assert isinstance(SERIES, list)
    found = [one["diff"]["url"] for one in component(made, "pkg:pypi/vllm@")["pedigree"]["patches"]]
    assert found == [
        f"patches/vllm/0001-one.patch#{sha256(encode(SERIES[0]))}",
        f"patches/vllm/0002-two.patch#{sha256(encode(SERIES[1]))}",
    ]


def test_what_we_built_names_its_derivation_its_output_its_sources_and_its_patches(
    known: ImageFacts, made: Any
) -> None:
    (node,) = (one for one in known.graph.nodes.values() if (one.name, one.builder) == ("tool", "script"))
    tool = component(made, f"derivation:{node.id.hex}")
    assert tool["properties"] == [
        {"name": "derive:derivation", "value": str(node.id)},
        {"name": "derive:output", "value": known.graph.outputs[node.id]["out"]},
    ]
    (source,) = tool["pedigree"]["ancestors"]
    assert source["purl"] == "pkg:deb/debian/tool@3-1?arch=source&distro=trixie"
    assert source["licenses"] == [{"expression": "Apache-2.0 AND MIT"}]
    assert len(tool["pedigree"]["patches"]) == 2


def test_the_image_depends_on_its_layers_and_these_on_their_packages(known: ImageFacts, made: Any) -> None:
    edges: Mapping[str, list[str]] = {one["ref"]: one.get("dependsOn", []) for one in made["dependencies"]}
    layers = [f"layer:{name}" for name in ("bytecode", "system", "tool", "wheels")]
    assert sorted(edges[f"image:{known.image}"]) == layers
    assert sorted(edges["layer:wheels"]) == ["pkg:pypi/numpy@2.0", "pkg:pypi/odd@2.0", "pkg:pypi/vllm@2.0"]
    assert component(made, "layer:wheels")["hashes"][0]["content"] in {one.hex for one in known.layers}
    assert edges.keys() >= {ref for refs in edges.values() for ref in refs}


def test_one_package_in_two_layers_is_one_component() -> None:
    root = steps.debian_root("root", HOST, {}, [deb("bash"), deb("dash")])
    other = steps.debian_root("other", HOST, {}, [deb("bash")])
    made = bill(facts(image({"one": [root], "two": [other]})))
    components = made["components"]
    assert isinstance(components, list)
    refs = [one["bom-ref"] for one in components if isinstance(one, Mapping)]
    assert refs.count("pkg:deb/debian/bash@1-1?arch=arm64&distro=trixie") == 1
    assert len(refs) == len(set(refs))


def test_an_artifact_of_which_nobody_knows_the_fetch_is_named_by_its_hash() -> None:
    known = facts(image({"wheels": [wheels([wheel("vllm")])]}))
    made = json.loads(sbom(replace(known, graph=replace(known.graph, fetches={}))))
    hashes = [one["name"] for one in made["components"]]
    assert wheel("vllm").sha256.hex in hashes


def test_the_statement_about_it_names_the_image_and_holds_it_whole(known: ImageFacts, made: Any) -> None:
    found = json.loads(sbom_statement(known))
    assert found["subject"] == [{"name": "tiny", "digest": {"sha256": known.image.hex}}]
    assert found["predicateType"] == "https://cyclonedx.org/bom"
    assert found["predicate"] == made
