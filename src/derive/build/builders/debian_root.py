# SPDX-License-Identifier: Apache-2.0
"""``debian-root``: a root composed of unpacked packages. Page: docs/builders/debian-root.md.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.context import Context
from derive.debian.declaration import from_document
from derive.debian.package import load_deb
from derive.debian.root import build_root
from derive.derivations.model import Output, ResolvedDerivation, TreeOutput


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Compose; every dropped bit and every script that was not run goes into the log."""
    store = context.store
    document = request.arguments["root"]
    assert isinstance(document, Mapping)
    packages = [load_deb(store, store.listing(request.tree(role)), name=role) for role in request.inputs]
    listing, log = build_root(store, packages, from_document(document, where=context.name))
    for line in log:
        context.log(line)
    return {"out": TreeOutput(store.add_listing(listing))}
