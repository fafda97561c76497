# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from derive.attest.compare import differences
from derive.attest.facts import ImageFacts
from derive.attest.provenance import predicate, provenance, resolved_id
from derive.attest.statement import PROVENANCE_TYPE
from derive.build.plan import resolved_of
from derive.derivations.model import closure, parse_output
from support.attested import ENGINE, deb, facts, tiny, wheel

ROOT = {"_type", "subject", "predicateType", "predicate"}
DEFINITION = {"buildType", "externalParameters", "internalParameters", "resolvedDependencies"}
DETAILS = {"builder", "metadata", "byproducts"}
BUILDER = {"id", "builderDependencies", "version"}
DESCRIPTOR = {"name", "uri", "digest", "content", "downloadLocation", "mediaType", "annotations"}


@pytest.fixture(scope="module")
def known() -> ImageFacts:
    return facts(tiny())


@pytest.fixture(scope="module")
def said(known: ImageFacts) -> Any:
    return json.loads(provenance(known))


def test_it_has_the_fields_that_slsa_and_in_toto_name_and_no_other(said: Any) -> None:
    assert said.keys() == ROOT
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == "https://slsa.dev/provenance/v1"
    assert said["predicate"].keys() == {"buildDefinition", "runDetails"}
    definition, details = said["predicate"]["buildDefinition"], said["predicate"]["runDetails"]
    assert {"buildType", "externalParameters"} <= definition.keys() <= DEFINITION
    assert {"builder"} <= details.keys() <= DETAILS
    assert {"id"} <= details["builder"].keys() <= BUILDER
    for one in (*said["subject"], *definition["resolvedDependencies"], *details["byproducts"]):
        assert one.keys() <= DESCRIPTOR
        assert one.keys() & {"uri", "digest", "content"}, "a descriptor has one of these"
        assert all(isinstance(value, str) for value in one.get("digest", {}).values())
    for one in said["subject"]:
        assert one["digest"].keys() == {"sha256"}


def test_it_is_about_the_image_by_name_and_digest(known: ImageFacts, said: Any) -> None:
    assert said["subject"] == [{"name": "tiny", "digest": {"sha256": known.image.hex}}]


def test_it_says_what_was_asked_for_and_of_which_content(known: ImageFacts, said: Any) -> None:
    assert known.parameters is not None
    assert said["predicate"]["buildDefinition"]["externalParameters"] == {
        "image": "tiny",
        "platform": "linux/arm64",
        "content": str(known.parameters.content),
        "locks": {file: str(digest) for file, digest in known.parameters.locks.items()},
    }
    without = json.loads(provenance(replace(known, parameters=None)))
    asked = without["predicate"]["buildDefinition"]["externalParameters"]
    assert asked == {"image": "tiny", "platform": "linux/arm64"}


def test_it_names_the_engine_and_every_builder_with_its_version(said: Any) -> None:
    assert said["predicate"]["runDetails"]["builder"] == {"id": f"urn:derive:engine:{ENGINE.hex}"}
    builders = said["predicate"]["buildDefinition"]["internalParameters"]["builders"]
    kinds = [one.partition("/")[0] for one in builders]
    assert kinds == sorted(set(kinds))
    assert {"fetch-deb", "fetch-wheel", "script", "image"} <= set(kinds)


def test_every_artifact_of_the_closure_is_named_with_hash_and_locator(said: Any) -> None:
    found = {one["name"]: one for one in said["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert found["bash_1-1_arm64.deb"] == {
        "name": "bash_1-1_arm64.deb",
        "uri": "pkg:deb/debian/bash@1-1?arch=arm64&distro=trixie",
        "digest": {"sha256": deb("bash").sha256.hex},
        "annotations": {"builder": "fetch-deb/1", "locator": "pool/main/b/bash/bash_1-1_arm64.deb"},
    }
    assert found[wheel("vllm").file]["annotations"]["locator"] == f"vllm/{wheel('vllm').file}"
    assert "compiler_1-1_arm64.deb" in found, "what is only built with is an input too"


def test_every_step_is_named_with_its_resolved_id_and_its_outputs(known: ImageFacts, said: Any) -> None:
    target = tiny()
    expected = {}
    for one in closure(target):
        if one.fixed is None:
            given = {role: known.graph.output(ref) for role, ref in known.graph.nodes[one.id].inputs.items()}
            inputs = {role: parse_output(text) for role, text in given.items() if text is not None}
            expected[one.id.hex] = (resolved_of(one, inputs).id.hex, known.graph.outputs[one.id])
    found = {
        one["annotations"]["derivation"]: (
            one["uri"].removeprefix("urn:derive:resolved:"),
            one["annotations"]["outputs"],
        )
        for one in said["predicate"]["runDetails"]["byproducts"]
    }
    assert found == expected
    assert found[known.derivation.hex][0] == known.resolved[known.derivation].hex


def test_a_step_that_was_not_run_here_is_named_by_its_derivation_alone(known: ImageFacts) -> None:
    (node,) = (one for one in known.graph.nodes.values() if (one.name, one.builder) == ("tool", "patch"))
    outputs = {key: given for key, given in known.graph.outputs.items() if key != node.id}
    resolved = {key: value for key, value in known.resolved.items() if key != node.id}
    partly = replace(known, graph=replace(known.graph, outputs=outputs), resolved=resolved)
    assert partly.unknown == 1
    steps = json.loads(provenance(partly))["predicate"]["runDetails"]["byproducts"]
    (found,) = (one for one in steps if one["annotations"]["derivation"] == node.id.hex)
    assert found == {
        "name": "tool",
        "uri": f"urn:derive:derivation:{node.id.hex}",
        "annotations": {"derivation": node.id.hex, "builder": f"{node.builder}/{node.version}"},
    }
    assert resolved_id(partly.graph, known.node) == known.resolved[known.derivation]
    for one, other in ((partly, known), (known, partly)):
        assert differences(PROVENANCE_TYPE, predicate(one), predicate(other)) == ()


def test_it_says_the_same_whatever_order_anything_was_found_in(known: ImageFacts) -> None:
    graph = known.graph
    turned = replace(
        graph,
        nodes=dict(reversed(list(graph.nodes.items()))),
        fetches=dict(reversed(list(graph.fetches.items()))),
        outputs=dict(reversed(list(graph.outputs.items()))),
    )
    assert provenance(replace(known, graph=turned)) == provenance(known)


def test_no_time_machine_or_user_is_in_it(said: Any) -> None:
    assert "metadata" not in said["predicate"]["runDetails"]
    assert "timestamp" not in json.dumps(said).lower()


def test_an_artifact_of_which_nobody_knows_the_fetch_is_named_by_its_hash(known: ImageFacts) -> None:
    said = json.loads(provenance(replace(known, graph=replace(known.graph, fetches={}))))
    found = said["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert {"digest": {"sha256": deb("bash").sha256.hex}} in found
