# SPDX-License-Identifier: Apache-2.0
"""``layer``: the union of trees as one compressed layer. Page: docs/builders/layer.md.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.builders.layer_memo import recall, remember
from derive.build.context import Context
from derive.canonical import Digest, decode, encode
from derive.derivations.model import FlatOutput, Output, ResolvedDerivation
from derive.images.carry import Wheel
from derive.images.encoding import Encoding
from derive.images.layer import LayerDescriptor, write_layer
from derive.images.modes import ModeTable
from derive.images.split import select
from derive.store.protocol import Store
from derive.trees.compose import compose
from derive.trees.listing import Listing
from derive.trees.partition import without


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Write the layer; ``descriptor`` is a small document with its sizes and diff id."""
    listing = _listing(request, context)
    descriptor = recall(request, context, listing)
    if descriptor is None:
        descriptor = _written(request, context, listing)
        remember(request, context, listing, descriptor)
    written = LayerDescriptor.from_document(decode(b"".join(context.store.read_blob(descriptor))))
    context.log(f"{len(listing)} paths, {written.uncompressed_size} bytes, {written.size} compressed")
    return {"out": FlatOutput(written.blob), "descriptor": FlatOutput(descriptor)}


def _listing(request: ResolvedDerivation, context: Context) -> Listing:
    """Return the union of what is selected of the trees and does not stand elsewhere."""
    store = context.store
    trees = [store.listing(request.tree(f"tree.{index}")) for index in range(_count(request))]
    chosen = request.arguments.get("select")
    if isinstance(chosen, Mapping):
        patterns = chosen["patterns"]
        assert isinstance(patterns, list | tuple)
        trees = [select(tree, [str(one) for one in patterns], native=chosen["fit"] is True) for tree in trees]
    if "elsewhere" in request.inputs:
        elsewhere = store.listing(request.tree("elsewhere"))
        trees = [without(tree, elsewhere) for tree in trees]
    return compose(list(zip(context.labels[: len(trees)], trees, strict=True)), {}, where=context.name)


def _count(request: ResolvedDerivation) -> int:
    return sum(role.startswith("tree.") for role in request.inputs)


def _written(request: ResolvedDerivation, context: Context, listing: Listing) -> Digest:
    store = context.store
    modes = ModeTable.from_document(request.arguments["modes"])
    encoding = Encoding.from_document(request.arguments["encoding"])
    names = context.labels[_count(request) :]
    wheels = [_wheel(store, request, index, name) for index, name in enumerate(names)]
    descriptor = write_layer(store, listing, modes, encoding, wheels=wheels, jobs=context.jobs)
    with store.blob_writer() as writer:
        writer.write(encode(descriptor.to_document()))
        return writer.commit()


def _wheel(store: Store, request: ResolvedDerivation, index: int, name: str) -> Wheel:
    archive = request.file(f"archive.{index}")
    members = store.listing(request.tree(f"members.{index}"))
    return Wheel(name=name, archive=archive, size=store.blob_size(archive), members=members)
