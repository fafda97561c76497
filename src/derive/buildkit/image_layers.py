# SPDX-License-Identifier: Apache-2.0
"""What the layers of an image are called in the project's files, by their blobs.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.execute import store_knowledge
from derive.canonical import Digest
from derive.derivations.model import Derivation, FlatOutput
from derive.store.local import LocalStore


def layer_names(image: Derivation, store: LocalStore) -> Mapping[Digest, str]:
    """Return the declared name of each layer of an image that was derived, as far as the store knows its blob.

    Layers of the project's image that it is made upon are named, too.
    """
    layers = [reference.derivation for role, reference in image.inputs.items() if role.startswith("blob.")]
    known = store_knowledge(store)
    resolved = known.resolved_ids([layer.id for layer in layers])
    found = known.realised(list(resolved.values()))
    base = image.inputs.get("base")
    names = dict(layer_names(base.derivation, store)) if base is not None and base.derivation.fixed is None else {}
    for layer in layers:
        outputs = found[resolved[layer.id]].outputs if resolved.get(layer.id) in found else {}
        if isinstance(blob := outputs.get("out"), FlatOutput):
            names[blob.digest] = layer.name.partition(" layer ")[2]
    return names
