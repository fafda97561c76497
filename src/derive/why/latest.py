# SPDX-License-Identifier: Apache-2.0
"""What was wanted last: a derivation that an earlier run had made is made no second time, and still is the latest.

Edge: the store's history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from derive.canonical import Digest
from derive.store import history
from derive.store.database import Database
from derive.store.graph import StoredDerivation
from derive.why.graph import Graph

_LOOKED_AT = 16
"""Targets whose closures are looked through: of other things, mostly, if the first few do not have it."""

Closure = Callable[[Iterable[Digest]], Graph]


def wanted_in(
    database: Database, closure: Closure, ids: Collection[Digest], *, after: int, before: int | None = None
) -> Mapping[Digest, int]:
    """Return the last run between two others that wanted each of some derivations, or what has it below it."""
    found: dict[Digest, int] = {}
    asked: set[Digest] = set()
    for run, target in history.answered(database, after=after, before=before):
        if len(found) == len(ids) or len(asked) == _LOOKED_AT:
            break
        if target not in asked:
            asked.add(target)
            for node in closure([target]).closure(target):
                if node.id in ids:
                    found.setdefault(node.id, run)
    return found


def latest(database: Database, closure: Closure, rows: Sequence[StoredDerivation]) -> StoredDerivation:
    """Return which of some derivations, the latest realised last, was wanted last."""
    if len(rows) == 1:
        return rows[0]
    steps = history.steps_of(database, rows[-1].id)
    runs = wanted_in(database, closure, {row.id for row in rows}, after=steps[-1].run if steps else 0)
    return max(reversed(rows), key=lambda row: runs.get(row.id, 0))
