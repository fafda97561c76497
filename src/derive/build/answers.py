# SPDX-License-Identifier: Apache-2.0
"""A store's answers to the questions of planner and executor.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.knowledge import Knowledge, Known
from derive.canonical import Digest
from derive.derivations.model import FlatOutput, Output, TreeOutput, parse_output
from derive.store.database import Realisation
from derive.store.local import LocalStore
from derive.store.space import free_bytes as room_on_disk


def store_knowledge(store: LocalStore) -> Knowledge:
    """Return the store's answers for the planner."""

    def realised(wanted: object) -> Mapping[Digest, Known]:
        rows = store.database.realisations(wanted)  # type: ignore[arg-type]
        return {digest: known_of(row) for digest, row in rows.items()}

    return Knowledge(
        resolved_ids=store.database.resolved_ids,
        realised=realised,
        present=lambda output: is_present(store, output),
    )


def known_of(row: Realisation) -> Known:
    """Return a database row as the planner's value."""
    outputs = {name: parse_output(text) for name, text in row.outputs.items()}
    return Known(resolved=row.resolved, outputs=outputs, duration_ns=row.duration_ns)


def is_present(store: LocalStore, output: Output) -> bool:
    """Say whether an output's contents can be read from the store now."""
    match output:
        case TreeOutput(digest):
            return store.has_tree(digest)
        case FlatOutput(digest):
            return store.has_blob(digest)


def free_bytes(store: LocalStore) -> int:
    """Return the bytes that this user can still write in the store's file system; a lot where that sets no bound."""
    return room_on_disk(store.root)
