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
from derive.toml import key_path
from derive.trees.listing import Directory


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Write config and manifest. The config's label is the derivation id, so this step is never cut off early."""
    store = context.store
    count = request.arguments["layers"]
    assert isinstance(count, int)
    _check_root(store, request, context.labels[0])
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


def _check_root(store: Store, request: ResolvedDerivation, file: str) -> None:
    """Refuse an image that lacks what its file names."""
    modes = ModeTable.from_document(request.arguments["modes"])
    root = store.listing(request.tree("root"))
    problems = [
        Problem(where=_key(file, "modes", f"/{escape(path)}"), message="the image has nothing at this path")
        for path in modes.unmatched(root)
    ]
    problems += modes.misfits(root, where=f"{file}: modes")
    needed = request.arguments.get("needed", {})
    assert isinstance(needed, Mapping)
    for name, path in sorted(needed.items()):
        entry = root.get(unescape(str(path)))
        if entry is None or isinstance(entry, Directory):
            has = "nothing" if entry is None else "a folder, and no file,"
            place = _key(file, "capabilities", name, "file")
            problems.append(Problem(where=place, message=f"the image has {has} at /{path}"))
    if problems:
        raise InputErrors(problems)


def _key(file: str, *path: str) -> str:
    return f"{file}: {key_path(path)}"


def _descriptor(store: Store, digest: Digest) -> LayerDescriptor:
    return LayerDescriptor.from_document(decode(b"".join(store.read_blob(digest))))


def _add(store: Store, data: bytes) -> Digest:
    with store.blob_writer() as writer:
        writer.write(data)
        return writer.commit()
