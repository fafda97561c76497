# SPDX-License-Identifier: Apache-2.0
"""``compose``: the union of trees. Page: docs/builders/compose.md.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.context import Context
from derive.canonical import unescape
from derive.derivations.model import Output, ResolvedDerivation
from derive.trees.compose import compose


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Unite the parts; a path that two of them give differently is refused unless a rule says which wins."""
    store = context.store
    declared = request.arguments["parts"]
    wins = request.arguments["wins"]
    assert isinstance(declared, list | tuple)
    assert isinstance(wins, Mapping)
    parts = []
    for part in declared:
        assert isinstance(part, Mapping)
        name, at = str(part["name"]), unescape(str(part["at"]))
        parts.append((name, store.listing(request.tree(name)).at(at)))
    rules = {unescape(path.lstrip("/")): str(part) for path, part in wins.items()}
    return {"out": context.tree(request, compose(parts, rules, where=context.name))}
