# SPDX-License-Identifier: Apache-2.0
"""What deriving a release from nothing takes: the time of all its steps, and the bytes of all their outputs.

Edge: the store. What it remembers stands in a record, and in no digest: another machine takes another time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from derive.build.plan import resolved_of
from derive.canonical import Digest
from derive.derivations.model import Derivation, Output, TreeOutput, closure
from derive.releases.describe import known_outputs
from derive.store.local import LocalStore


def cost_of(targets: Iterable[Derivation], store: LocalStore) -> tuple[int | None, int | None]:
    """Return the nanoseconds that the steps took, one after another, and the bytes of their outputs; None: unknown."""
    order = {one.id: one for target in targets for one in closure(target)}
    outputs, unknown = known_outputs(order.values(), store)
    if unknown:
        return None, None
    resolved = [_resolved(one, outputs) for one in order.values() if one.fixed is None]
    rows = store.database.realisations(resolved)
    duration = sum(row.duration_ns for row in rows.values())
    blobs = {
        blob for one in chain.from_iterable(given.values() for given in outputs.values()) for blob in _blobs(one, store)
    }
    size = sum(store.blob_size(blob) for blob in blobs if store.has_blob(blob))
    return duration or None, size or None


def _resolved(one: Derivation, outputs: Mapping[Digest, Mapping[str, Output]]) -> Digest:
    inputs = {role: outputs[given.derivation.id][given.output] for role, given in one.inputs.items()}
    return resolved_of(one, inputs).id


def _blobs(output: Output, store: LocalStore) -> Iterable[Digest]:
    return store.database.tree_blobs(output.digest) if isinstance(output, TreeOutput) else (output.digest,)
