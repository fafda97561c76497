# SPDX-License-Identifier: Apache-2.0
"""Collects from a store what a closure file is to hold.

Edge: the store, read alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from derive.canonical import Digest, sha256
from derive.derivations.model import Derivation, FlatOutput, Output, TreeOutput, closure, parse_output
from derive.errors import InputErrors, Missing, Problem
from derive.images.oci import named_blobs
from derive.store import graph
from derive.store.closure import Closure, ClosureStep, ClosureTree, History, Sized, StepInput, step_of
from derive.store.closure_check import MANIFEST, included, require_coherent, resolved_id
from derive.store.closure_pack import Pack, place
from derive.store.database import Realisation
from derive.store.listings import dump_listing
from derive.store.local import LocalStore
from derive.store.reach import Level
from derive.trees.listing import Listing
from derive.trust.statement import Claim, Statement, Subject

_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """A closure with everything that its file holds and no blob of the store is: listings, packs, logs."""

    closure: Closure
    statement: Statement
    listings: Mapping[Digest, bytes]
    packs: Mapping[Digest, Pack]
    logs: Mapping[Digest, bytes]


def gather(store: LocalStore, targets: Sequence[Derivation | Digest], level: Level) -> Gathered:
    """Collect the closure of targets: derivations of a project, or ids of such as the store has realised.

    Raises:
        Missing: when the store does not hold all of it.
        InputErrors: when an id is not known here.
    """
    ids = list(dict.fromkeys(one.id if isinstance(one, Derivation) else one for one in targets))
    steps = _steps(store, targets, level)
    store.protect(steps)  # a collection at the same time removes nothing of it
    collected = _Collected(store)
    held = included(level, frozenset(ids), steps)
    rows = store.database.realisations(step.resolved for key in held if (step := steps[key]).resolved is not None)
    for key in sorted(held):
        collected.add(steps[key], rows)
    collected.require_whole()
    placed = place(store, collected.trees, collected.artifacts)
    packs = {pack.blob.digest: pack for pack in placed.packs if pack.blob.digest not in collected.blobs}
    listings = {tree: dump_listing(listing) for tree, listing in placed.listings.items()}
    histories, logs = _histories(store, collected.rows) if level is Level.AUDIT else ([], {})
    found = Closure.of(
        level,
        ids,
        steps.values() if level is not Level.RUN else (steps[key] for key in ids),
        [ClosureTree(digest=tree, listing=_sized(data)) for tree, data in listings.items()],
        [*(Sized(digest=key, size=size) for key, size in collected.blobs.items()), *(p.blob for p in packs.values())],
        histories,
    )
    statement = Statement.of([Subject(name=MANIFEST, digest=sha256(found.encoded()))], collected.claims.values())
    require_coherent(found, statement)
    return Gathered(closure=found, statement=statement, listings=listings, packs=packs, logs=logs)


@dataclass(slots=True)
class _Collected:
    """What the steps added so far gave, and what of it the store does not hold."""

    store: LocalStore
    claims: dict[Digest, Claim] = field(default_factory=dict)
    rows: dict[Digest, Realisation] = field(default_factory=dict)
    trees: dict[Digest, Listing] = field(default_factory=dict)
    blobs: dict[Digest, int] = field(default_factory=dict)
    artifacts: set[Digest] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)

    def add(self, step: ClosureStep, rows: Mapping[Digest, Realisation]) -> None:
        """Add a step's outputs."""
        row = rows.get(step.resolved) if step.resolved is not None else None
        if row is None:
            self.missing.append(f"{step.name}, which was not built here")
            return
        outputs = {name: parse_output(text) for name, text in row.outputs.items()}
        if not all(self._add(output, is_fetch=step.is_fetch) for output in outputs.values()):
            self.missing.append(f"{step.name}, whose output is gone")
            return
        self.rows[row.resolved] = row
        self.claims[row.resolved] = Claim(resolved=row.resolved, builder=row.builder, outputs=outputs)
        if step.is_image:
            self._add_image(step.name, outputs["out"].digest)

    def require_whole(self) -> None:
        """Raise Missing, naming what the store does not hold."""
        if not self.missing:
            return
        found = sorted(set(self.missing))
        shown = [f"missing   {text}" for text in found[:_SHOWN]]
        if len(found) > _SHOWN:
            shown.append(f"and {len(found) - _SHOWN} more")
        hint = "build it first: derive build or derive image; or take less along: --with run"
        raise Missing("the store does not hold all of it", detail=shown, hint=hint)

    def _add(self, output: Output, *, is_fetch: bool) -> bool:
        match output:
            case TreeOutput(digest):
                if digest not in self.trees:
                    if not self.store.has_tree(digest):
                        return False
                    self.trees[digest] = self.store.listing(digest)
            case FlatOutput(digest):
                if not self.store.has_blob(digest):
                    return False
                self.blobs[digest] = self.store.blob_size(digest)
                if is_fetch:
                    self.artifacts.add(digest)
            case _:
                assert_never(output)
        return True

    def _add_image(self, name: str, manifest: Digest) -> None:
        for blob in named_blobs(b"".join(self.store.read_blob(manifest))):
            if self.store.has_blob(blob.digest):
                self.blobs[blob.digest] = self.store.blob_size(blob.digest)
            else:
                self.missing.append(f"{name}, of which the blob {blob.digest.short} is gone")


def _steps(store: LocalStore, targets: Iterable[Derivation | Digest], level: Level) -> dict[Digest, ClosureStep]:
    """Return the derivations of closures, or where only the targets matter, those."""
    evaluated = [one for one in targets if isinstance(one, Derivation)]
    by_id = [one for one in targets if isinstance(one, Digest)]
    steps = _stored_steps(store, by_id, level) if by_id else {}
    for target in evaluated:
        order = closure(target)
        known = store.database.resolved_ids(one.id for one in order)
        for one in order:
            if one.id not in steps:
                steps[one.id] = step_of(one.name, known.get(one.id), one.document())
    _find_resolved(store, steps)
    return steps


def _stored_steps(store: LocalStore, ids: Sequence[Digest], level: Level) -> dict[Digest, ClosureStep]:
    """Return the closures of derivations as the store knows them; the fetches of each hash are the latest ones."""
    database = store.database
    rows = graph.load_closure(database, ids) if level is not Level.RUN else graph.derivations(database, ids)
    unknown = [key for key in ids if key not in rows]
    if unknown:
        raise InputErrors([_unknown(key) for key in unknown])
    steps = {key: step_of(row.name, row.resolved, row.document) for key, row in rows.items()}
    fixed = {one for step in steps.values() for one in step.inputs().values() if not isinstance(one, StepInput)}
    if level is not Level.RUN and fixed:
        for row in graph.fetches(database, sorted(output.digest.hex for output in fixed)).values():
            steps[row.id] = step_of(row.name, row.resolved, row.document)
    return steps


def _find_resolved(store: LocalStore, steps: dict[Digest, ClosureStep]) -> None:
    """Fill in what a step resolves to where the store knows its inputs, though not the step under this id."""
    for key, step in list(steps.items()):
        if step.resolved is not None:
            continue
        inputs: dict[str, Output] = {}
        for role, reference in step.inputs().items():
            output = _output(store, steps, reference) if isinstance(reference, StepInput) else reference
            if output is None:
                break
            inputs[role] = output
        else:
            steps[key] = replace(step, resolved=resolved_id(step, inputs))


def _output(store: LocalStore, steps: Mapping[Digest, ClosureStep], reference: StepInput) -> Output | None:
    above = steps.get(reference.derivation)
    row = store.database.realisation(above.resolved) if above is not None and above.resolved is not None else None
    given = row.outputs.get(reference.output) if row is not None else None
    return None if given is None else parse_output(given)


def _histories(store: LocalStore, rows: Mapping[Digest, Realisation]) -> tuple[list[History], dict[Digest, bytes]]:
    histories: list[History] = []
    logs: dict[Digest, bytes] = {}
    for resolved, row in rows.items():
        log_of, log = _log(store, row.log)
        if log_of is not None and log is not None and log_of not in logs:
            logs[log_of] = log
        histories.append(
            History(
                resolved=resolved,
                engine=row.engine,
                host=row.host,
                duration_ns=row.duration_ns,
                built_s=row.built_s,
                log_of=log_of,
                log=None if log is None else _sized(log),
            )
        )
    return histories, logs


def _log(store: LocalStore, name: str) -> tuple[Digest | None, bytes | None]:
    """Return the derivation that a log is of, and its text; nothing where none is kept."""
    try:
        log_of = Digest(name.removesuffix(".log"))
        return log_of, store.log_path(f"{log_of.hex}.log").read_bytes()
    except (ValueError, FileNotFoundError):
        return None, None


def _sized(data: bytes) -> Sized:
    return Sized(digest=sha256(data), size=len(data))


def _unknown(key: Digest) -> Problem:
    return Problem(where="", message=f"the store knows no derivation {key}", hint="name it as the project does")
