# SPDX-License-Identifier: Apache-2.0
"""What the closure of a release's images says of upstreams and kernels, row by row.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from derive.canonical import Digest, Json, encode, sha256
from derive.derivations.model import BuiltInput, Derivation, Output
from derive.images.oci import named_blobs
from derive.kernels.index import unit_name
from derive.releases.facts import LayerFact, Realised, UpstreamFact

Outputs = Mapping[Digest, Mapping[str, Output]]

_SERIES = "patches/"


def realised(order: Iterable[Derivation], outputs: Outputs) -> dict[Digest, Realised]:
    """Return each derivation of a closure with its inputs and outputs; one that gave none here has none."""
    return {
        one.id: Realised(
            name=one.name,
            builder=f"{one.builder}/{one.version}",
            outputs=outputs.get(one.id, {}),
            inputs=tuple(sorted({given.derivation.id for given in one.inputs.values()})),
        )
        for one in order
    }


def upstreams(order: Iterable[Derivation], outputs: Outputs) -> tuple[UpstreamFact, ...]:
    """Return a row for each series that is applied, and one for each tree of git that none is applied to."""
    steps = {one.id: one for one in order}
    patched = [one for one in steps.values() if one.builder == "patch"]
    sources = {one.inputs["source"].derivation.id for one in patched}
    rows = [_patched(one, outputs) for one in patched]
    rows += [
        UpstreamFact(name=one.name, commit=_commit(one), tree=tree, series=(), head=None, patched=None)
        for one in steps.values()
        if one.builder == "fetch-git" and one.id not in sources and (tree := one.fixed) is not None
    ]
    return tuple(sorted(rows, key=lambda row: (row.name, str(row.tree), row.series)))


def _patched(step: Derivation, outputs: Outputs) -> UpstreamFact:
    given = step.inputs["source"]
    source, labels = given.derivation, step.labels
    is_series = bool(labels) and labels[0].startswith(_SERIES)
    tree = outputs[source.id][given.output] if isinstance(given, BuiltInput) else source.fixed
    assert tree is not None
    return UpstreamFact(
        name=labels[0].split("/")[1] if is_series else source.name,
        commit=_commit(source),
        tree=tree,
        series=tuple(label.rpartition("/")[2] for label in labels),
        head=sha256(encode(step.arguments["series"])),
        patched=outputs[step.id]["out"],
    )


def _commit(step: Derivation) -> str | None:
    """Return the commit whose tree a step gives: a fetch of git's, or one with commits picked on top of it."""
    while step.builder == "patch":
        step = step.inputs["source"].derivation
    return str(step.arguments["commit"]) if step.builder == "fetch-git" else None


def kernels(order: Iterable[Derivation], outputs: Outputs) -> tuple[Mapping[str, Json], ...]:
    """Return a row for each compiled part of a kernel: the unit, the part, its host, its derivation and its output."""
    rows = list(_kernel_rows({one.id: one for one in order}.values(), outputs))
    return tuple(sorted(rows, key=lambda row: (str(row["unit"]), str(row["part"]), str(row["host"]))))


def _kernel_rows(order: Iterable[Derivation], outputs: Outputs) -> Iterator[Mapping[str, Json]]:
    for one in order:
        part = one.arguments.get("part") if one.builder == "kernel" else None
        if part not in ("device", "host"):
            continue
        device = one if part == "device" else one.inputs["device"].derivation
        unit = device.arguments["unit"]
        assert isinstance(unit, Mapping)
        yield {
            "unit": unit_name(unit),
            "part": part,
            "host": one.host,
            "derivation": one.id.hex,
            "output": str(outputs[one.id]["out"]),
        }


def layers(target: Derivation, outputs: Outputs, manifest: bytes, diff_ids: Iterable[str]) -> tuple[LayerFact, ...]:
    """Return an image's layers in order, each by the name of the step that wrote it, or of the base's fetch."""
    names: dict[Digest, str] = {}
    node: Derivation | None = target
    brought = ""
    while node is not None and node.fixed is None:
        for index in range(int(str(node.arguments["layers"]))):
            step = node.inputs[f"blob.{index}"].derivation
            names.setdefault(outputs[step.id]["out"].digest, step.name)
        base = node.inputs.get("base")
        node = None if base is None else base.derivation
        brought = node.name if node is not None else brought
    blobs = named_blobs(manifest)[1:]
    return tuple(
        LayerFact(
            name=names.get(blob.digest, brought),
            digest=blob.digest,
            size_bytes=blob.size,
            diff_id=Digest.parse(diff_id),
        )
        for blob, diff_id in zip(blobs, diff_ids, strict=True)
    )
