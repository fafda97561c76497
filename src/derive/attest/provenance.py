# SPDX-License-Identifier: Apache-2.0
"""How an image came to be: SLSA provenance over its whole closure, a function of the closure and what it gave.

Core: no IO. The format is on docs/formats/provenance.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.attest.facts import ImageFacts
from derive.attest.purl import locator_of, purl_of
from derive.attest.statement import PROVENANCE_TYPE, statement
from derive.canonical import Digest, Json, digest_document
from derive.why.graph import Fixed, Graph, Node

BUILD_TYPE = "urn:derive:build:1"


def provenance(facts: ImageFacts) -> bytes:
    """Return the statement about an image, in-toto version 1, as canonical bytes."""
    return statement(facts.name, facts.image, PROVENANCE_TYPE, predicate(facts))


def predicate(facts: ImageFacts) -> dict[str, Json]:
    """Return what the statement says: SLSA provenance, version 1."""
    steps = facts.graph.closure(facts.derivation)
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": _asked(facts),
            "internalParameters": {
                "derivation": facts.derivation.hex,
                "builders": sorted({f"{one.builder}/{one.version}" for one in (*steps, *_fetches(facts))}),
            },
            "resolvedDependencies": [_artifact(facts.graph, one) for one in sorted(_fixed(facts), key=_by_output)],
        },
        "runDetails": {
            "builder": {"id": f"urn:derive:engine:{facts.engine.hex}"},
            "byproducts": [_step(facts, one) for one in sorted(steps, key=lambda one: (one.name, one.id))],
        },
    }


def resolved_id(graph: Graph, node: Node) -> Digest | None:
    """Return the id under which a step's realisation is kept, or None where what its inputs are is not all known.

    An image's covers its own id: see docs/formats/derivation.md.
    """
    inputs = {role: graph.output(one) for role, one in node.inputs.items()}
    if None in inputs.values():
        return None
    own: dict[str, Json] = {"derivation": node.id.hex} if node.builder == "image" else {}
    return digest_document(
        {
            "derive": "resolved/1",
            "builder": f"{node.builder}/{node.version}",
            "build": node.build,
            "host": node.host,
            "arguments": {**node.arguments, **own},
            "inputs": inputs,
        }
    )


def _asked(facts: ImageFacts) -> dict[str, Json]:
    asked: dict[str, Json] = {"image": facts.name, "platform": facts.platform}
    if facts.parameters is not None:
        asked["content"] = str(facts.parameters.content)
        asked["locks"] = {file: str(digest) for file, digest in facts.parameters.locks.items()}
    return asked


def _fixed(facts: ImageFacts) -> frozenset[Fixed]:
    return facts.graph.fixed(facts.derivation)


def _by_output(one: Fixed) -> str:
    return one.output


def _fetches(facts: ImageFacts) -> Iterator[Node]:
    for one in _fixed(facts):
        fetch = facts.graph.fetches.get(one.output)
        if fetch is not None:
            yield fetch


def _artifact(graph: Graph, fixed: Fixed) -> dict[str, Json]:
    mode, _, _ = fixed.output.partition(":")
    # The SHA-256 of a tree is that of its NAR, and not of any file that one could hash.
    digests: dict[str, Json] = {"sha256" if mode == "flat" else "narSha256": fixed.hex}
    fetch = graph.fetches.get(fixed.output)
    if fetch is None:
        return {"digest": digests}
    if fetch.builder == "fetch-git":
        digests |= {"gitCommit": fetch.arguments.get("commit"), "gitTree": fetch.arguments.get("tree")}
    locator = locator_of(fetch)
    notes: Mapping[str, Json] = {"locator": locator} if locator else {}
    return {
        "name": fetch.name,
        "uri": purl_of(fetch).to_string(),
        "digest": digests,
        "annotations": {"builder": f"{fetch.builder}/{fetch.version}", **notes},
    }


def _step(facts: ImageFacts, node: Node) -> dict[str, Json]:
    notes: dict[str, Json] = {"derivation": node.id.hex, "builder": f"{node.builder}/{node.version}"}
    resolved = facts.resolved.get(node.id)
    if resolved is None:
        return {"name": node.title, "uri": f"urn:derive:derivation:{node.id.hex}", "annotations": notes}
    outputs: dict[str, Json] = dict(facts.graph.outputs[node.id])
    return {
        "name": node.title,
        "uri": f"urn:derive:resolved:{resolved.hex}",
        "annotations": {**notes, "outputs": outputs},
    }
