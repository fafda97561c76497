# SPDX-License-Identifier: Apache-2.0
"""``record``: an installed wheel with its byte code and a RECORD of it all. Page: docs/builders/record.md.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.context import Context
from derive.derivations.model import Output, ResolvedDerivation
from derive.trees.compose import compose
from derive.wheels.install import Scheme
from derive.wheels.record import add_record


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Unite the parts and write RECORD, last of all."""
    store = context.store
    parts = [(role, store.listing(request.tree(role))) for role in sorted(request.inputs)]
    scheme = Scheme(python=str(request.arguments["python"]))
    listing = add_record(store, compose(parts, {}, where=context.name), scheme.site, name=context.labels[0])
    return {"out": context.tree(request, listing)}
