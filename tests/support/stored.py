# SPDX-License-Identifier: Apache-2.0
"""Derivations put straight into a store, with outputs of a few bytes: what a build leaves, without building.

Edge: a store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from derive.build.plan import resolved_of
from derive.canonical import Digest, Json, encode, sha256
from derive.derivations.model import BuiltInput, Derivation, FixedInput, FlatOutput, Input, Output, TreeOutput
from derive.store.database import Realisation
from derive.store.local import LocalStore
from derive.trees.pack import NewFile, add_members

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A derivation that is realised, and what it gave."""

    derivation: Derivation
    output: Output

    @property
    def digest(self) -> Digest:
        """The output's digest."""
        return self.output.digest

    def as_input(self) -> Input:
        """Return it as another's input."""
        return FixedInput(self.derivation) if self.derivation.fixed is not None else BuiltInput(self.derivation)


def add_blob(store: LocalStore, data: bytes) -> Digest:
    """Write a blob."""
    with store.blob_writer() as writer:
        writer.write(data)
        return writer.commit()


def fetched(store: LocalStore, data: bytes, name: str = "") -> Made:
    """Realise a fetch of these bytes."""
    arguments: dict[str, Json] = {
        "name": name or sha256(data).short,
        "version": "1",
        "sha256": sha256(data).hex,
        "size": len(data),
    }
    return realise(store, "fetch-deb", {}, FlatOutput(add_blob(store, data)), arguments=arguments)


def tree(store: LocalStore, contents: bytes, *inputs: Made, builder: str = "unpack", root: Made | None = None) -> Made:
    """Realise a step that gives a tree of one file in a pack of its own."""
    digest = store.add_listing(add_members(store, [(b"usr/file", NewFile(executable=False, chunks=[contents]))]))
    roles = {f"from.{index}": one for index, one in enumerate(inputs)} | ({} if root is None else {"root": root})
    return realise(store, builder, roles, TreeOutput(digest), arguments={"say": contents.decode()})


def image(store: LocalStore, name: str, *inputs: Made) -> Made:
    """Realise an image with one layer, and keep it as a root."""
    roles = {f"tree.{index}": one for index, one in enumerate(inputs)}
    layer = realise(store, "layer", roles, FlatOutput(add_blob(store, f"layer {name}".encode())))
    config = add_blob(store, f"config {name}".encode())
    parts = {"config": {"digest": str(config)}, "layers": [{"digest": str(layer.digest)}]}
    manifest = add_blob(store, json.dumps(parts).encode())
    more = {"config": FlatOutput(config)}
    made = realise(store, "image", {"layer.0": layer}, FlatOutput(manifest), more, arguments={"say": name})
    store.database.set_root("image", f"{name} linux/amd64", manifest)
    store.tag(f"{name}-amd64", manifest, store.blob_size(manifest), MANIFEST_TYPE)
    return made


def realise(
    store: LocalStore,
    builder: str,
    inputs: Mapping[str, Made],
    output: Output,
    more: Mapping[str, Output] | None = None,
    *,
    arguments: Mapping[str, Json] = MappingProxyType({}),
) -> Made:
    """Note that a derivation gave an output, and leave a log."""
    derivation = Derivation(
        name=str(arguments.get("name", f"{builder} {output.digest.short}")),
        builder=builder,
        version=1,
        build="any",
        host="any",
        arguments=arguments,
        inputs={role: made.as_input() for role, made in inputs.items()},
    )
    log = f"{derivation.id.hex}.log"
    row = Realisation(
        resolved=resolved_of(derivation, {role: made.output for role, made in inputs.items()}).id,
        outputs={key: str(value) for key, value in {"out": output, **(more or {})}.items()},
        builder=f"{builder}/1",
        engine="",
        host="",
        duration_ns=1,
        log=log,
        built_s=1,
    )
    store.database.add_realisation(row, derivation.id, derivation.name, encode(derivation.document()))
    store.log_path(log).write_text("built\n")
    return Made(derivation=derivation, output=output)
