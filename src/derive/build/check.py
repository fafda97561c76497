# SPDX-License-Identifier: Apache-2.0
"""Builds every step of a closure again, another way, and compares every output.

Edge: threads, the store. What was there stays as it is.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Protocol

from derive.build.execute import Executor, known_of
from derive.build.knowledge import Known
from derive.build.past import past_of
from derive.build.placing import AtOnce, Place, Placing, StepLost
from derive.build.plan import Action, Plan, Step, known_inputs, resolved_of
from derive.build.prices import forecast
from derive.canonical import Digest, Json, escape
from derive.derivations.model import Derivation, FlatOutput, Output, TreeOutput, closure
from derive.errors import DeriveError, Missing
from derive.store.local import LocalStore
from derive.trees.diff import Changed, diff, first_difference
from derive.trees.listing import File

_PAUSE_S = 0.5


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
    known = _known(closure(target), executor.store)
    plan = plan_again(target, but, known)

    def again(derivation: Derivation) -> list[Difference]:
        inputs = known_inputs(derivation, lambda one: known.get(one.id))
        if inputs is None or derivation.id not in known:
            raise Missing(f"{derivation.name}, or an input of it, is not in the store")
        resolved = resolved_of(derivation, inputs)
        second = executor.build(derivation, resolved, f"{derivation.id.hex}.check.log", from_nothing=True)
        found = list(compare(executor.store, derivation.name, known[derivation.id].outputs, second))
        watch(derivation, len(found))
        return found

    results = _run_all(plan, executor, again)
    steps = plan.of(Action.BUILD)
    return len(steps), [difference for step in steps for difference in results[step.derivation.id]]


def plan_again(target: Derivation, but: Collection[Digest] = (), known: Mapping[Digest, Known] | None = None) -> Plan:
    """Return the plan of a check, in which nothing is fetched; ``known`` are what the first builds gave."""
    steps = []
    for one in closure(target):
        if one.fixed is None:
            first = None if known is None else known.get(one.id)
            action = Action.REUSE if one.id in but else Action.BUILD
            outputs, took = (None, 0) if first is None else (first.outputs, first.duration_ns)
            reason = "built again, and compared"
            steps.append(Step(derivation=one, action=action, reason=reason, outputs=outputs, expected_ns=took))
    return Plan(target=target, steps=tuple(steps))


def _run_all(
    plan: Plan, executor: Executor, again: Callable[[Derivation], list[Difference]]
) -> Mapping[Digest, list[Difference]]:
    """Do the steps of a check, none of which waits for another, where they are placed; return what each gave."""
    stopped = threading.Event()
    placing: Placing = AtOnce(executor.jobs, stopped)
    if executor.placer is not None:
        placing = executor.placer(plan, forecast(plan, past_of(executor.store.database, plan), executor.jobs))

    def run(step: Step, place: Place) -> list[Difference]:
        # Another job count than the first time, and never more than a guard allows.
        executor.places[step.derivation.id] = place if place.jobs is None else replace(place, jobs=1)
        try:
            return again(step.derivation)
        except DeriveError as error:
            if placing.is_lost(step, place, error):
                raise StepLost from error
            raise

    found: dict[Digest, list[Difference]] = {}
    running: dict[Future[list[Difference]], tuple[Step, Place]] = {}
    with ThreadPoolExecutor(placing.threads, thread_name_prefix="check") as pool:
        try:
            # The longest goes first: no other order keeps the jobs busy to the end.
            placing.offer(sorted(plan.of(Action.BUILD), key=lambda step: -step.expected_ns))
            while True:
                running |= {pool.submit(run, step, place): (step, place) for step, place in placing.take()}
                if not running and not placing.is_waiting:
                    return found
                if not running:
                    time.sleep(placing.poll_s or _PAUSE_S)  # a host is asked, and has not answered yet
                for future in wait(running, timeout=placing.poll_s, return_when=FIRST_COMPLETED).done:
                    step, place = running.pop(future)
                    try:
                        found[step.derivation.id] = future.result()
                    except StepLost:
                        placing.lost(step, place)
                    else:
                        placing.ended(step, place)
        except BaseException:
            stopped.set()
            placing.stop()
            executor.cancel()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            placing.close()


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
