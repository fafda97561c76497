# SPDX-License-Identifier: Apache-2.0
"""``image``: config and manifest over layers. Page: docs/builders/image.md.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derive.build.context import Context
from derive.canonical import Digest, decode, escape, unescape
from derive.derivations.model import FlatOutput, Output, ResolvedDerivation
from derive.errors import InputErrors, Problem, expected_got
from derive.images.base import Base, inherited, mode_problems, read_base
from derive.images.encoding import MEDIA_TYPE
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
    config = ImageConfig.from_document(request.arguments["config"])
    if "base" in request.inputs:
        base = _base(store, request, context.labels[0], layers)
        layers = [*base.layers, *layers]
        config = inherited(base.config, config)
    documents = image_documents(
        config,
        layers,
        platform=request.host,
        derivation=Digest(str(request.arguments["derivation"])),
    )
    written = _add(store, documents.config)
    manifest = _add(store, documents.manifest)
    context.log(f"config {written}, manifest {manifest}, {len(layers)} layers")
    # Its layers are outputs too: an image of which one is gone is not there.
    blobs = {f"layer.{index}": FlatOutput(layer.blob) for index, layer in enumerate(layers)}
    return {"out": FlatOutput(manifest), "config": FlatOutput(written), **blobs}


def _base(store: Store, request: ResolvedDerivation, file: str, layers: Sequence[LayerDescriptor]) -> Base:
    """Read the image below; refuse one that is not the one that was said, or does not go with what lies upon it."""
    manifest = request.file("base")
    pinned = request.arguments.get("base-digest", str(manifest))
    if pinned != str(manifest):
        hint = "say the digest that it has now, or leave the digest out to follow it"
        detail = expected_got(str(pinned), str(manifest))
        raise InputErrors.one("the base is another image now", where=f"{file}: base", detail=detail, hint=hint)
    base = read_base(store, manifest, name=f"{file}: base")
    if base.platform != request.host:
        detail = expected_got(request.host, base.platform)
        raise InputErrors.one("the base is for another platform", where=f"{file}: base", detail=detail)
    types = {layer.media_type for layer in (*base.layers, *layers)}
    if len(types) > 1:
        detail = expected_got(*sorted(types, key=lambda one: one != MEDIA_TYPE))
        raise InputErrors.one("the base has layers of another media type", where=f"{file}: base", detail=detail)
    modes = ModeTable.from_document(request.arguments["modes"])
    own = store.listing(request.tree("own"))
    problems = [*mode_problems(store, manifest, own, modes, name=f"{file}: base", where=file)]
    if problems:
        raise InputErrors(problems)
    return base


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
