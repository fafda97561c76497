# SPDX-License-Identifier: Apache-2.0
"""Pinned texts of what is said of a small image: others read these, and a change is to be seen before it is made."""

from __future__ import annotations

import json
from dataclasses import replace

from derive import __version__
from derive.attest.facts import ImageFacts, Parameters
from derive.attest.provenance import provenance, resolved_id
from derive.attest.sbom import sbom
from derive.canonical import sha256
from derive.derivations.model import Derivation, FlatOutput, Output, TreeOutput, closure
from derive.images.oci import Descriptor
from derive.images.referrers import referrer_manifest
from derive.why.graph import Graph, graph_of
from support.golden import check_golden
from support.steps import fetch_deb, root, step


def small() -> Derivation:
    """Return an image of a package, a patched wheel and a program, whose ids no builder's version moves."""
    tools = root("tools", fetch_deb("gcc"))
    wheel = replace(
        step("vllm-1-py3-none-any.whl", "fetch-wheel"),
        arguments={
            "name": "vllm",
            "version": "1",
            "file": "vllm-1-py3-none-any.whl",
            "size": 4,
            "sha256": sha256(b"vllm").hex,
        },
    )
    tree = step("vllm unpacked", "unpack", {"archive": wheel})
    series = [{"operations": [{"op": "delete", "path": "a", "lines": ["-a"]}]}]
    patched = step("vllm patched", "patch", {"source": tree}, labels=["patches/vllm/0001-no-a.patch"], series=series)
    laid = step("vllm installed", "install-wheel", {"wheel": tree, "patched": patched})
    code = step("vllm byte code", "bytecode", {"source": laid, "root": tools})
    recorded = step("vllm recorded", "record", {"installed": laid, "bytecode": code})
    guard = step("guard", "script", {"root": tools})
    layers = {
        "system": root("system", fetch_deb("bash", "5.2+deb13")),
        "wheels": step("wheels", "compose", {"vllm": recorded}),
        "guard": guard,
    }
    made = [step(f"small layer {name}", "layer", {"tree.0": one}) for name, one in layers.items()]
    blobs = {f"blob.{index}": one for index, one in enumerate(made)}
    return step("small", "image", {"root": tools, **blobs}, host="linux/amd64")


def known() -> ImageFacts:
    target = small()
    outputs: dict[str, Output] = {}
    for one in closure(target):
        is_blob = one.builder in ("layer", "image")
        outputs[one.id.hex] = one.fixed or (FlatOutput if is_blob else TreeOutput)(sha256(one.id.hex.encode()))
    graph = graph_of(closure(target))
    given = {one.id: {"out": str(outputs[one.id.hex])} for one in closure(target)}
    whole = Graph(nodes=graph.nodes, fetches=graph.fetches, outputs=given)
    return ImageFacts(
        image=outputs[target.id.hex].digest,
        layers=tuple(outputs[one.derivation.id.hex].digest for one in target.inputs.values()),
        derivation=target.id,
        graph=whole,
        resolved={node.id: key for node in whole.closure(target.id) if (key := resolved_id(whole, node)) is not None},
        engine=sha256(b"engine"),
        licences={sha256(b"vllm").hex: "Apache-2.0"},
        parameters=Parameters(content=sha256(b"content"), locks={"lock/small.lock.json": sha256(b"lock")}),
    )


def shown(data: bytes) -> str:
    return json.dumps(json.loads(data), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def test_the_bill_of_a_small_image_is_what_it_was() -> None:
    said = f'"version": "{__version__}"'
    text = shown(sbom(known()))
    assert said in text
    check_golden("attestations/sbom.json", text.replace(said, '"version": "of derive"'))


def test_the_provenance_of_a_small_image_is_what_it_was() -> None:
    check_golden("attestations/provenance.json", shown(provenance(known())))


def test_the_manifest_that_refers_to_an_image_is_what_it_was() -> None:
    subject = Descriptor(media_type="application/vnd.oci.image.manifest.v1+json", digest=sha256(b"image"), size=5)
    kind = "application/vnd.dsse.envelope.v1+json"
    blob = Descriptor(media_type=kind, digest=sha256(b"envelope"), size=8)
    found = referrer_manifest(subject, kind, blob, {"in-toto.io/predicate-type": "https://slsa.dev/provenance/v1"})
    check_golden("attestations/referrer.json", shown(found))
