# SPDX-License-Identifier: Apache-2.0
"""``image``: config and manifest over layers. Page: docs/builders/image.md.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.context import Context
from derive.canonical import Digest, decode, escape, unescape
from derive.derivations.model import FlatOutput, Output, ResolvedDerivation
from derive.errors import InputErrors, Problem
from derive.images.layer import LayerDescriptor
from derive.images.modes import ModeTable
from derive.images.oci import ImageConfig, image_documents
from derive.store.protocol import Store


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Write config and manifest. The config's label is the derivation id, so this step is never cut off early."""
    store = context.store
    count = request.arguments["layers"]
    assert isinstance(count, int)
    _check_root(store, request, context.name)
    made = [_descriptor(store, request.file(f"layer.{index}")) for index in range(count)]
    optional = request.arguments.get("optional", ())
    assert isinstance(optional, list | tuple)
    layers = [one for index, one in enumerate(made) if index not in optional or not one.is_empty]
    documents = image_documents(
        ImageConfig.from_document(request.arguments["config"]),
        layers,
        platform=request.host,
        derivation=Digest(str(request.arguments["derivation"])),
    )
    config = _add(store, documents.config)
    manifest = _add(store, documents.manifest)
    context.log(f"config {config}, manifest {manifest}, {len(layers)} layers")
    # Its layers are outputs too: an image of which one is gone is not there.
    blobs = {f"layer.{index}": FlatOutput(layer.blob) for index, layer in enumerate(layers)}
    return {"out": FlatOutput(manifest), "config": FlatOutput(config), **blobs}


def _check_root(store: Store, request: ResolvedDerivation, where: str) -> None:
    modes = ModeTable.from_document(request.arguments["modes"])
    root = store.listing(request.tree("root"))
    problems = [
        Problem(where=where, message=f"a mode rule for /{escape(path)}, where the image has nothing")
        for path in modes.unmatched(root)
    ]
    problems += modes.misfits(root, where=where)
    needed = request.arguments.get("needed", {})
    assert isinstance(needed, Mapping)
    problems += [
        Problem(where=where, message=f"the capability {name} needs /{path}, where the image has nothing")
        for name, path in sorted(needed.items())
        if unescape(str(path)) not in root
    ]
    if problems:
        raise InputErrors(problems)


def _descriptor(store: Store, digest: Digest) -> LayerDescriptor:
    return LayerDescriptor.from_document(decode(b"".join(store.read_blob(digest))))


def _add(store: Store, data: bytes) -> Digest:
    with store.blob_writer() as writer:
        writer.write(data)
        return writer.commit()
