# SPDX-License-Identifier: Apache-2.0
"""A closure of every kind of step, put into a store by hand: nothing is fetched, no sandbox runs.

Edge: the store.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from derive.build.plan import resolved_of
from derive.canonical import Digest, Json, sha256
from derive.derivations.model import BuiltInput, Derivation, FixedInput, FlatOutput, Input, Output, Platform, TreeOutput
from derive.images.layer import LayerDescriptor
from derive.images.oci import ImageConfig, image_documents
from derive.store.database import Realisation
from derive.store.local import LocalStore
from derive.trees.listing import File, Listing, Location
from derive.trees.pack import Member, NewFile, add_members

TEXT = b"contents of a wheel, compressed " * 30
"""What lies in the fetched artifact, as a raw deflate stream behind :data:`BEFORE`."""

BEFORE = b"PK header"
ARTIFACT = BEFORE + zlib.compress(TEXT, wbits=-15) + b"PK end"


@dataclass(frozen=True, slots=True)
class Filled:
    """The closure's steps: ``image`` is the target of all."""

    fetch: Derivation
    wheel: Derivation
    tools: Derivation
    script: Derivation
    layer: Derivation
    image: Derivation
    outputs: Mapping[Digest, Mapping[str, Output]]

    def out(self, derivation: Derivation) -> Digest:
        """Return the digest of a step's main output."""
        return self.outputs[derivation.id]["out"].digest

    @property
    def steps(self) -> tuple[Derivation, ...]:
        """Every step, inputs first."""
        return (self.fetch, self.wheel, self.tools, self.script, self.layer, self.image)


def fill(store: LocalStore, *, made: bytes = b"made by the script\n", order: bool = False) -> Filled:
    """Put the closure into a store; ``order`` packs a tree's files the other way round."""
    sha = sha256(ARTIFACT).hex
    wheel_arguments: dict[str, Json] = {"name": "demo", "version": "1", "file": "demo.whl", "sha256": sha}
    fetch = step("demo", "fetch-wheel", wheel_arguments)
    wheel = step("demo unpacked", "unpack", {"kind": "wheel"}, {"archive": FixedInput(fetch)})
    tools = step("tools", "compose", {"parts": []}, {"wheel": BuiltInput(wheel)})
    inputs: dict[str, Input] = {"root": BuiltInput(tools), "in.source": BuiltInput(wheel)}
    script = step("hello", "script", {"script": "true"}, inputs, build="linux/amd64", host="linux/amd64")
    layer = step("probe layer all", "layer", {"encoding": "x"}, {"tree.0": BuiltInput(script)}, host="linux/amd64")
    images: dict[str, Input] = {"layer.0": BuiltInput(layer, "descriptor"), "blob.0": BuiltInput(layer)}
    image = step("probe", "image", {"layers": 1}, {**images, "root": BuiltInput(script)}, host="linux/amd64")
    outputs: dict[Digest, Mapping[str, Output]] = {
        fetch.id: {"out": FlatOutput(add_blob(store, ARTIFACT))},
        wheel.id: {"out": _wheel_tree(store)},
        tools.id: {"out": _tree(store, {b"bin/sh": (b"#!shell\n", True), b"share/empty": (b"", False)}, order=order)},
        script.id: {"out": _tree(store, {b"made": (made, False), b"share/copy": (TEXT, False)}, order=order)},
        layer.id: {"out": FlatOutput(add_blob(store, b"layer of " + made))},
    }
    outputs[layer.id] = {**outputs[layer.id], "descriptor": FlatOutput(add_blob(store, b"descriptor of " + made))}
    outputs[image.id] = _image(store, image, outputs[layer.id]["out"].digest)
    filled = Filled(fetch, wheel, tools, script, layer, image, outputs)
    for number, one in enumerate(filled.steps):
        realise(store, one, outputs, number)
    return filled


def step(
    name: str,
    builder: str,
    arguments: Mapping[str, Json],
    inputs: Mapping[str, Input] | None = None,
    *,
    build: Platform = "any",
    host: Platform = "any",
) -> Derivation:
    """Return a derivation of version 1 of a builder."""
    return Derivation(
        name=name, builder=builder, version=1, build=build, host=host, arguments=arguments, inputs=inputs or {}
    )


def realise(
    store: LocalStore, one: Derivation, outputs: Mapping[Digest, Mapping[str, Output]], number: int = 0
) -> Digest:
    """Note what a step gave, with a log; return its resolved id."""
    inputs = {role: outputs[given.derivation.id][given.output] for role, given in one.inputs.items()}
    resolved = resolved_of(one, inputs).id
    store.log_path(f"{one.id.hex}.log").write_text(f"log of {one.name}\n")
    entry = Realisation(
        resolved=resolved,
        outputs={name: str(output) for name, output in outputs[one.id].items()},
        builder=f"{one.builder}/{one.version}",
        engine="e" * 64,
        host="x86_64",
        duration_ns=1_000_000 + number,
        log=f"{one.id.hex}.log",
        built_s=1_700_000_000 + number,
    )
    store.database.add_realisation(entry, one.id, one.name, one.encoded())
    return resolved


def add_blob(store: LocalStore, data: bytes) -> Digest:
    """Add a blob."""
    with store.blob_writer() as writer:
        writer.write(data)
        return writer.commit()


def _wheel_tree(store: LocalStore) -> TreeOutput:
    at = Location(sha256(ARTIFACT), len(BEFORE), len(ARTIFACT) - len(BEFORE) - len(b"PK end"), "deflate")
    file = File(executable=False, size=len(TEXT), sha256=sha256(TEXT), at=at)
    return TreeOutput(store.add_listing(Listing.of({b"caf\xe9/demo.py": file})))


def _tree(store: LocalStore, files: Mapping[bytes, tuple[bytes, bool]], *, order: bool) -> TreeOutput:
    members: list[tuple[bytes, Member]] = [
        (path, NewFile(executable=executable, chunks=[data])) for path, (data, executable) in files.items()
    ]
    return TreeOutput(store.add_listing(add_members(store, reversed(members) if order else members)))


def _image(store: LocalStore, image: Derivation, layer: Digest) -> dict[str, Output]:
    size = store.blob_size(layer)
    about = LayerDescriptor(blob=layer, size=size, diff_id=sha256(b"diff"), uncompressed_size=1)
    documents = image_documents(ImageConfig(), [about], platform="linux/amd64", derivation=image.id)
    config, manifest = add_blob(store, documents.config), add_blob(store, documents.manifest)
    return {"out": FlatOutput(manifest), "config": FlatOutput(config)}
