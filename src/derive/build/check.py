# SPDX-License-Identifier: Apache-2.0
"""Builds every step of a closure again, another way, and compares every output.

Edge: threads, the store. What was there stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from derive.build.execute import Executor, known_of
from derive.build.plan import Known, known_inputs, resolved_of
from derive.canonical import Digest, Json, escape
from derive.derivations.model import Derivation, FlatOutput, Output, TreeOutput, closure
from derive.errors import Missing
from derive.store.local import LocalStore
from derive.trees.diff import Changed, diff, first_difference
from derive.trees.listing import File


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One output that came out otherwise the second time.

    ``path`` is the first path that differs (empty for a one-file output), ``offset`` the first byte in it, or None
    when they differ in something other than contents.
    """

    derivation: str
    output: str
    path: str
    what: str
    offset: int | None
    first: Output
    second: Output

    def document(self) -> dict[str, Json]:
        """Return the difference as it stands in a record."""
        return {
            "derivation": self.derivation,
            "output": self.output,
            "path": self.path,
            "what": self.what,
            "offset_bytes": self.offset,
            "first": str(self.first),
            "second": str(self.second),
        }


class Watcher(Protocol):
    """Is told of each step checked."""

    def __call__(self, derivation: Derivation, differences: int) -> None:
        """One step was built again."""


def check_closure(
    target: Derivation, executor: Executor, watch: Watcher, *, but: Collection[Digest] = ()
) -> tuple[int, list[Difference]]:
    """Rebuild all but the fetches below and including a derivation whose closure is present.

    ``but`` are ids of derivations that need not be rebuilt, such as those checked with another platform's image.

    Returns:
        How many steps were rebuilt, and every difference found.
    """
    order = closure(target)
    known = _known(order, executor.store)

    def again(derivation: Derivation) -> list[Difference]:
        inputs = known_inputs(derivation, lambda one: known.get(one.id))
        if inputs is None or derivation.id not in known:
            raise Missing(f"{derivation.name}, or an input of it, is not in the store")
        resolved = resolved_of(derivation, inputs)
        second = executor.build(derivation, resolved, f"{derivation.id.hex}.check.log", from_nothing=True)
        found = list(compare(executor.store, derivation.name, known[derivation.id].outputs, second))
        watch(derivation, len(found))
        return found

    steps = [derivation for derivation in order if derivation.fixed is None and derivation.id not in but]
    # No step waits for another, so the longest goes first: no other order keeps the jobs busy to the end.
    longest_first = sorted(steps, key=lambda one: -known[one.id].duration_ns if one.id in known else 0)
    with ThreadPoolExecutor(executor.jobs, thread_name_prefix="check") as pool:
        try:
            results = {derivation.id: pool.submit(again, derivation) for derivation in longest_first}
            return len(steps), [difference for one in steps for difference in results[one.id].result()]
        except BaseException:
            executor.cancel()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _known(order: list[Derivation], store: LocalStore) -> Mapping[Digest, Known]:
    resolved = store.database.resolved_ids(d.id for d in order)
    rows = store.database.realisations(resolved.values())
    return {d.id: known_of(rows[resolved[d.id]]) for d in order if d.id in resolved and resolved[d.id] in rows}


def compare(
    store: LocalStore, name: str, first: Mapping[str, Output], second: Mapping[str, Output]
) -> Iterator[Difference]:
    """Yield, for each output that differs, the first path and byte that do."""
    for output in sorted(first.keys() | second.keys()):
        a, b = first.get(output), second.get(output)
        if a == b:
            if isinstance(a, FlatOutput) and not _is_sound(store, a):
                what = f"the copy in the store is damaged: remove {store.blob_path(a.digest)} and derive again"
                yield _difference(name, output, b"", what, None, a, a)
            continue
        if a is None or b is None:
            present = a or b
            assert present is not None
            yield _difference(name, output, b"", "only one of the two builds gave this output", None, present, present)
            continue
        yield _compare_one(store, name, output, a, b)


def _compare_one(store: LocalStore, name: str, output: str, a: Output, b: Output) -> Difference:
    match a, b:
        case FlatOutput(), FlatOutput():
            offset = first_difference(store.read_blob(a.digest), store.read_blob(b.digest))
            return _difference(name, output, b"", "contents", offset, a, b)
        case TreeOutput(), TreeOutput():
            left, right = store.listing(a.digest), store.listing(b.digest)
            change = next(iter(diff(left, right)), None)
            if change is None:
                return _difference(name, output, b"", "the first tree's digest is not that of its contents", None, a, b)
            x, y = left.get(change.path), right.get(change.path)
            if isinstance(x, File) and isinstance(y, File) and x.sha256 != y.sha256:
                offset = first_difference(store.read(x), store.read(y))
                return _difference(name, output, change.path, "contents", offset, a, b)
            what = change.kind if isinstance(change, Changed) else type(change).__name__.lower()
            return _difference(name, output, change.path, what, None, a, b)
        case _:
            return _difference(name, output, b"", "one is a tree, the other a file", None, a, b)


def _is_sound(store: LocalStore, output: FlatOutput) -> bool:
    """Say whether a blob's bytes are still those of its name."""
    hasher = hashlib.sha256()
    for piece in store.read_blob(output.digest):
        hasher.update(piece)
    return hasher.hexdigest() == output.digest.hex


def _difference(
    name: str, output: str, path: bytes, what: str, offset: int | None, first: Output, second: Output
) -> Difference:
    return Difference(
        derivation=name,
        output=output,
        path=escape(path),
        what=what,
        offset=offset,
        first=first,
        second=second,
    )
