# SPDX-License-Identifier: Apache-2.0
"""``layer``: the union of trees as one compressed layer. Page: docs/builders/layer.md.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.context import Context
from derive.canonical import encode
from derive.derivations.model import FlatOutput, Output, ResolvedDerivation
from derive.images.layer import write_layer
from derive.images.members import Encoding
from derive.images.modes import ModeTable
from derive.trees.compose import compose


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Write the layer; ``descriptor`` is a small document with its sizes and diff id."""
    store = context.store
    trees = [(name, store.listing(request.tree(f"tree.{index}"))) for index, name in enumerate(context.labels)]
    listing = compose(trees, {}, where=context.name)
    modes = ModeTable.from_document(request.arguments["modes"])
    encoding = Encoding.from_document(request.arguments["encoding"])
    descriptor = write_layer(store, listing, modes, encoding, jobs=context.jobs)
    with store.blob_writer() as writer:
        writer.write(encode(descriptor.to_document()))
        facts = writer.commit()
    context.log(f"{len(listing)} paths, {descriptor.uncompressed_size} bytes, {descriptor.size} compressed")
    return {"out": FlatOutput(descriptor.blob), "descriptor": FlatOutput(facts)}
