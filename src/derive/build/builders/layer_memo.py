# SPDX-License-Identifier: Apache-2.0
"""A layer that holds what an earlier one held is not written again, whatever trees it was taken from.

Edge: the store.

A layer may be a part of a tree of which another part moved. Two that hold the same, with the same rules of the mode
table for it, one encoding and list of wheels, are one blob; the key is those, so that no answer depends on what a store
happens to hold.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.context import Context
from derive.canonical import Digest, Json, decode, digest_document, unescape
from derive.derivations.model import ResolvedDerivation
from derive.images.layer import LayerDescriptor
from derive.trees.facts import facts_of
from derive.trees.listing import Listing


def recall(request: ResolvedDerivation, context: Context, listing: Listing) -> Digest | None:
    """Return the descriptor of a layer that holds the same and is in the store."""
    store = context.store
    known = None if context.from_nothing else store.database.memo(_key(request, listing))
    if known is None or not store.has_blob(Digest(known)):
        return None
    written = LayerDescriptor.from_document(decode(b"".join(store.read_blob(Digest(known)))))
    return Digest(known) if store.has_blob(written.blob) else None


def remember(request: ResolvedDerivation, context: Context, listing: Listing, descriptor: Digest) -> None:
    """Note which descriptor a layer has that holds this."""
    if not (context.from_nothing or context.store.read_only):
        context.store.database.set_memo(_key(request, listing), descriptor.hex)


def _key(request: ResolvedDerivation, listing: Listing) -> Digest:
    wheels = {role: str(output) for role, output in request.inputs.items() if role.startswith(("archive.", "members."))}
    return digest_document(
        {
            "derive": "layer-memo/1",
            "builder": request.version,
            "facts": facts_of(listing).hex,
            "modes": _modes(request.arguments["modes"], listing),
            "encoding": request.arguments["encoding"],
            "wheels": wheels,
        }
    )


def _modes(table: Json, listing: Listing) -> Json:
    """Return the rules of an image's mode table that are for this layer."""
    assert isinstance(table, Mapping)
    rules = table["rules"]
    assert isinstance(rules, list | tuple)
    return [rule for rule in rules if isinstance(rule, Mapping) and unescape(str(rule["path"])) in listing]
