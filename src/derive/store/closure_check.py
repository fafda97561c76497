# SPDX-License-Identifier: Apache-2.0
"""What a closure must hold at its level, and whether the parts of one agree.

Core: no IO.

Trust is in a signature; this is what needs none. Documents give ids; ids, documents and outputs give resolved ids;
every output that is claimed is among the trees and blobs. A closure that fails here was put together wrongly, whoever
signed it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from derive.canonical import Digest, Json, digest_document
from derive.derivations.model import FlatOutput, Output, TreeOutput
from derive.errors import Corrupt
from derive.images.documents import mapping
from derive.store.closure import Closure, ClosureStep, StepInput
from derive.store.reach import Level, node_of
from derive.trust.statement import Claim, Statement

MANIFEST = "manifest.json"
"""The name of the manifest in a closure file, and as the subject of the statement about it."""

_SHOWN = 10


def included(level: Level, targets: frozenset[Digest], steps: Mapping[Digest, ClosureStep]) -> frozenset[Digest]:
    """Return the ids of the steps whose outputs a level holds.

    ``run``: the targets. ``rebuild``: also everything fetched, and the roots of sandboxes. ``audit``: every step.
    """
    match level:
        case Level.RUN:
            return targets
        case Level.REBUILD:
            fetches = {key for key, step in steps.items() if step.is_fetch}
            roots = {key for step in steps.values() for key, _ in node_of(step.document, {}).sandbox}
            return targets | fetches | roots
        case Level.AUDIT:
            return frozenset(steps)
        case _:
            assert_never(level)


def resolved_id(step: ClosureStep, inputs: Mapping[str, Output]) -> Digest:
    """Return the resolved id of a step whose inputs are these; an image's covers its own id."""
    arguments = dict(mapping(step.document["arguments"], "arguments"))
    if step.is_image:
        arguments["derivation"] = step.id.hex
    outputs: dict[str, Json] = {role: str(output) for role, output in inputs.items()}
    document = {**step.document, "derive": "resolved/1", "arguments": arguments, "inputs": outputs}
    return digest_document(document)


def require_coherent(closure: Closure, statement: Statement) -> None:
    """Raise Corrupt, naming what does not agree in a closure and the statement about it."""
    found = list(_faults(closure, statement))
    if found:
        shown = [*found[:_SHOWN], *([f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])]
        raise Corrupt("the parts of the closure do not agree", detail=shown)


def _faults(closure: Closure, statement: Statement) -> Iterator[str]:
    steps = {step.id: step for step in closure.steps}
    claims = {claim.resolved: claim for claim in statement.claims}
    yield from (
        f"the target {target.short} is no derivation of it" for target in closure.targets if target not in steps
    )
    if closure.level is not Level.RUN:
        yield from _absent_inputs(steps)
    yield from _odd_claims(closure, steps, claims)
    yield from _absent_outputs(closure, claims)
    for step in closure.steps:
        yield from _wrong_step(step, steps, claims)


def _absent_inputs(steps: Mapping[Digest, ClosureStep]) -> Iterator[str]:
    fetched = {step.fixed() for step in steps.values() if step.is_fetch}
    for step in steps.values():
        for role, reference in step.inputs().items():
            if not isinstance(reference, StepInput) and reference not in fetched:
                yield f"{step.name}: its input {role} is fetched by no derivation of it"
            elif isinstance(reference, StepInput) and reference.derivation not in steps:
                yield f"{step.name}: its input {role} is no derivation of it"


def _odd_claims(closure: Closure, steps: Mapping[Digest, ClosureStep], claims: Mapping[Digest, Claim]) -> Iterator[str]:
    held = included(closure.level, frozenset(closure.targets), steps) & steps.keys()
    wanted = {steps[key].resolved for key in held}
    yield from (
        f"{steps[key].name}: nothing is said of it" for key in sorted(held) if steps[key].resolved not in claims
    )
    yield from (
        f"something is said of {key.short}, which is no derivation of it" for key in claims if key not in wanted
    )
    for history in closure.histories:
        if history.resolved not in claims:
            yield f"a history of {history.resolved.short}, which is no derivation of it"


def _absent_outputs(closure: Closure, claims: Mapping[Digest, Claim]) -> Iterator[str]:
    trees = {tree.digest for tree in closure.trees}
    blobs = {blob.digest for blob in closure.blobs}
    for claim in claims.values():
        if not claim.outputs:
            yield f"{claim.resolved.short}: no outputs"
        for name, output in claim.outputs.items():
            match output:
                case TreeOutput(digest):
                    present = digest in trees
                case FlatOutput(digest):
                    present = digest in blobs
                case _:
                    assert_never(output)
            if not present:
                yield f"{claim.resolved.short}: its output {name} is not in it"


def _wrong_step(
    step: ClosureStep, steps: Mapping[Digest, ClosureStep], claims: Mapping[Digest, Claim]
) -> Iterator[str]:
    claim = claims.get(step.resolved) if step.resolved is not None else None
    if claim is not None and claim.builder != step.builder:
        yield f"{step.name}: built by {step.builder}, and said to be by {claim.builder}"
    expected = step.fixed()
    if claim is not None and expected is not None and claim.outputs.get("out") != expected:
        yield f"{step.name}: another output than it names"
    if claim is not None and "out" not in claim.outputs:
        yield f"{step.name}: no main output"
    elif claim is not None and step.is_image and not isinstance(claim.outputs["out"], FlatOutput):
        yield f"{step.name}: an image is no tree"
    inputs = _known_inputs(step, steps, claims)
    if step.resolved is not None and inputs is not None and resolved_id(step, inputs) != step.resolved:
        yield f"{step.name}: it does not resolve to {step.resolved.short}"


def _known_inputs(
    step: ClosureStep, steps: Mapping[Digest, ClosureStep], claims: Mapping[Digest, Claim]
) -> dict[str, Output] | None:
    """Return the outputs that stand for a step's inputs, where the closure says all of them."""
    inputs: dict[str, Output] = {}
    for role, reference in step.inputs().items():
        if not isinstance(reference, StepInput):
            inputs[role] = reference
            continue
        above = steps.get(reference.derivation)
        claim = claims.get(above.resolved) if above is not None and above.resolved is not None else None
        if claim is None or reference.output not in claim.outputs:
            return None
        inputs[role] = claim.outputs[reference.output]
    return inputs
