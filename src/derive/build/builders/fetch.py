# SPDX-License-Identifier: Apache-2.0
"""``fetch-*``: one locked artifact, by hash. Page: docs/builders/fetch.md.

Edge: the network, through the context.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.context import Context
from derive.canonical import Digest
from derive.derivations.model import FlatOutput, Output, ResolvedDerivation, TreeOutput
from derive.errors import Missing


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Fetch a file of an archive or index; the output is that file."""
    return {"out": FlatOutput(context.fetch(request, context.store))}


def build_upstream(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Fetch from an upstream's own place; of a git commit, ``proof`` shows offline that the tree is that commit's."""
    return context.fetch.upstream(request, context.store, context.places)


def build_work_tree(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Find a work tree that was put into the store before; nobody serves it."""
    digest = Digest(str(request.arguments["nar"]))
    if not context.store.has_tree(digest):
        raise Missing(f"the work tree {digest.short} is gone from the store", hint="run the same derive dev again")
    return {"out": TreeOutput(digest)}
