# SPDX-License-Identifier: Apache-2.0
"""``patch``: a tree with a series applied. Page: docs/builders/patch.md.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.context import Context
from derive.derivations.model import Output, ResolvedDerivation
from derive.patches.identity import series_from_document
from derive.patches.model import hunks_of
from derive.patches.tree import patch_tree
from derive.words import count_text


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Apply every patch, or refuse; hunks that apply at another place than they state go into the log."""
    series = series_from_document(request.arguments["series"])
    tree = context.store.listing(request.tree("source"))
    listing, moved = patch_tree(context.store, tree, series, names=context.labels)
    for move in moved:
        context.log(str(move))
    hunks = sum(len(hunks_of(operation)) for operations in series for operation in operations)
    context.log(
        f"{count_text(len(series), 'patch', 'patches')} applied, {count_text(hunks, 'hunk')} found in the result"
    )
    return {"out": context.tree(request, listing)}
