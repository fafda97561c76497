# SPDX-License-Identifier: Apache-2.0
"""Brings what a closure file holds into a store.

Edge: the store, the clock.

The order is what keeps the store sound: blobs come in one by one, each checked before it is there, then trees, and what
is known of derivations last. A run that is stopped leaves blobs that nothing names yet, and the next one goes on from
them. Whether the file is to be believed is settled before: see :func:`derive.trust.policy.require_trusted`.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from derive.canonical import Digest, encode, escape
from derive.derivations.model import FlatOutput, Output, TreeOutput, parse_output
from derive.errors import CheckFailed, Corrupt, HostRefuses, expected_got
from derive.images.oci import MANIFEST_TYPE, named_blobs
from derive.store import graph
from derive.store.blobs import write_whole
from derive.store.closure import ClosureStep, History
from derive.store.closure_file import Blob, Log, Member
from derive.store.closure_read import ClosureFile
from derive.store.database import Realisation
from derive.store.history import Source, add_source
from derive.store.inventory import MANIFEST_LIMIT
from derive.store.listings import blobs_of
from derive.store.local import LocalStore
from derive.trees.listing import Listing
from derive.trust.statement import Claim
from derive.words import size_text

IMPORTED = "import"
"""The kind of root that keeps what an import brought, but for images, which are roots of their own kind."""

_TAGGED = re.compile(r"[A-Za-z0-9]+([-._]+[A-Za-z0-9]+)*")
_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTarget:
    """One of the things that a file was exported for, and its main output."""

    name: str
    host: str
    output: Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import brought: numbers of blobs and trees, with those that were there before, and bytes."""

    targets: tuple[ImportedTarget, ...]
    blobs: int
    known_blobs: int
    trees: int
    known_trees: int
    realisations: int
    size: int


def import_closure(store: LocalStore, file: ClosureFile) -> Imported:
    """Add everything that a closure file holds and the store does not.

    Raises:
        CheckFailed: before anything is added, when the store built something otherwise.
        Corrupt: when a part of the file is altered; what was checked before it stays.
        HostRefuses: when the store has no room.
    """
    store.protect(step.id for step in file.closure.steps)
    _require_agreement(store, file)
    listings = file.listings()
    absent = {tree: listing for tree, listing in listings.items() if not store.has_tree(tree)}
    wanted = [member for member in _wanted(file, listings, absent) if not store.has_blob(member.contents.digest)]
    size = sum(member.contents.size for member in wanted)
    _require_room(store, size)
    try:
        for member in wanted:
            _add_blob(store, file, member)
        _require_images(store, file)
        for tree, listing in sorted(absent.items()):
            got = store.add_foreign(listing, tree)
            if got != tree:
                raise Corrupt("a tree is not what its name says", where=str(file.path), detail=expected_got(tree, got))
        _add_logs(store, file)
        store.staging.settle()  # rows speak of what is in place
        added = _learn(store, file, {member.contents.digest for member in wanted})
        targets = _keep(store, file)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_room(store, size) from error
        raise
    return Imported(
        targets=targets,
        blobs=len(wanted),
        known_blobs=len(file.closure.blobs) - len(wanted),
        trees=len(absent),
        known_trees=len(listings) - len(absent),
        realisations=added,
        size=size,
    )


def _add_blob(store: LocalStore, file: ClosureFile, member: Member) -> None:
    with store.blob_writer() as writer:
        for piece in file.pieces(member):
            writer.write(piece)
        try:
            writer.commit(member.contents.digest)
        except Corrupt as error:
            raise file.altered(member) from error


def _wanted(
    file: ClosureFile, listings: Mapping[Digest, Listing], absent: Mapping[Digest, Listing]
) -> Iterable[Member]:
    """Return the blobs that the store needs: not the packs of trees that it has in another place."""
    flat = {
        output.digest
        for claim in file.statement.claims
        for output in claim.outputs.values()
        if isinstance(output, FlatOutput)
    }
    packs = {blob for listing in listings.values() for blob in blobs_of(listing)} - flat
    needed = {blob for listing in absent.values() for blob in blobs_of(listing)}
    blobs = [member for member in file.members if isinstance(member.what, Blob)]
    return [m for m in blobs if m.contents.digest not in packs or m.contents.digest in needed]


def _require_agreement(store: LocalStore, file: ClosureFile) -> None:
    """Raise CheckFailed when something that the file speaks of is here, and came out otherwise."""
    found: list[str] = []
    claims = {claim.resolved: claim for claim in file.statement.claims}
    rows = store.database.realisations(claims)
    known = graph.derivations(store.database, (step.id for step in file.closure.steps))
    for step in file.closure.steps:
        claim = claims.get(step.resolved) if step.resolved is not None else None
        row = rows.get(step.resolved) if step.resolved is not None else None
        if claim is not None and row is not None and row.outputs != _texts(claim) and _is_whole(store, row):
            found += [
                f"here      {step.name}: {_shown(row.outputs)}",
                f"in it     {step.name}: {_shown(_texts(claim))}",
            ]
        mine = known.get(step.id)
        if mine is not None and step.resolved not in (None, mine.resolved):
            other = store.database.realisation(mine.resolved)
            if other is not None and _is_whole(store, other):
                found += [
                    f"here      {step.name}: from {mine.resolved}",
                    f"in it     {step.name}: from {step.resolved}",
                ]
    if found:
        shown = [*found[: 2 * _SHOWN], *([f"and {len(found) // 2 - _SHOWN} more"] if len(found) > 2 * _SHOWN else [])]
        hint = "one of the two is not what its derivation gives: derive image --check builds each step again"
        raise CheckFailed("this store built the same otherwise", where=str(file.path), detail=shown, hint=hint)


def _is_whole(store: LocalStore, row: Realisation) -> bool:
    outputs = [parse_output(text) for text in row.outputs.values()]
    return all(
        store.has_tree(one.digest) if isinstance(one, TreeOutput) else store.has_blob(one.digest) for one in outputs
    )


def _texts(claim: Claim) -> dict[str, str]:
    return {name: str(output) for name, output in claim.outputs.items()}


def _shown(outputs: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in sorted(outputs.items()))


def _require_images(store: LocalStore, file: ClosureFile) -> None:
    """Raise Corrupt when an image lacks one of the blobs that its manifest names."""
    claims = {claim.resolved: claim for claim in file.statement.claims}
    for step in file.closure.steps:
        claim = claims.get(step.resolved) if step.is_image and step.resolved is not None else None
        if claim is None:
            continue
        manifest = claim.outputs["out"].digest
        if store.blob_size(manifest) > MANIFEST_LIMIT:
            raise Corrupt(f"the image {step.name} has a manifest too large to be one", where=str(file.path))
        for blob in named_blobs(b"".join(store.read_blob(manifest))):
            if not store.has_blob(blob.digest) or store.blob_size(blob.digest) != blob.size:
                message = f"the image {step.name} is not whole: blob {blob.digest.short} is not in the closure"
                raise Corrupt(message, where=str(file.path))


def _add_logs(store: LocalStore, file: ClosureFile) -> None:
    for member in file.members:
        if isinstance(member.what, Log):
            path = store.log_path(f"{member.what.derivation.hex}.log")
            if not path.exists():
                write_whole(path, file.read(member), store.staging)


def _learn(store: LocalStore, file: ClosureFile, brought: set[Digest]) -> int:
    """Add what is known of derivations, and return how many realisations are new."""
    database = store.database
    claims = {claim.resolved: claim for claim in file.statement.claims}
    histories = {history.resolved: history for history in file.closure.histories}
    rows = dict(database.realisations(claims))
    known = graph.derivations(database, (step.id for step in file.closure.steps))
    now = int(time.time())
    added = 0
    for step in file.closure.steps:
        if step.resolved is None:
            continue
        mine = known.get(step.id)
        name = mine.name if mine is not None else step.name
        claim = claims.get(step.resolved)
        row = rows.get(step.resolved)
        if claim is None or (row is not None and row.outputs == _texts(claim)):
            if mine is None or (claim is not None and mine.resolved != step.resolved):
                database.map_derivation(step.id, name, step.resolved, encode(step.document))
            continue
        entry = _entry(claim, histories.get(step.resolved), now)
        keep = database.add_realisation if row is None else database.replace_realisation
        rows[step.resolved] = keep(entry, step.id, name, encode(step.document))
        added += 1
        for output in claim.outputs.values():
            if step.is_fetch and output.digest in brought:
                place = escape(os.fsencode(file.path.absolute()))
                add_source(database, Source(digest=output.digest, place=place, fetched_s=now))
    return added


def _entry(claim: Claim, history: History | None, now: int) -> Realisation:
    log_of = history.log_of if history is not None else None
    return Realisation(
        resolved=claim.resolved,
        outputs=_texts(claim),
        builder=claim.builder,
        engine=history.engine if history is not None else "",
        host=history.host if history is not None else "",
        duration_ns=history.duration_ns if history is not None else 0,
        log=f"{log_of.hex}.log" if log_of is not None else "",
        built_s=history.built_s if history is not None else now,
    )


def _keep(store: LocalStore, file: ClosureFile) -> tuple[ImportedTarget, ...]:
    """Make roots of the targets; an image that the store has under the same name stays what it is."""
    steps = {step.id: step for step in file.closure.steps}
    claims = {claim.resolved: claim for claim in file.statement.claims}
    roots = {(kind, name): digest for kind, name, digest in store.database.roots()}
    found = []
    for key in file.closure.targets:
        step = steps[key]
        assert step.resolved is not None
        output = claims[step.resolved].outputs["out"]
        # An image with overlays stays one, wherever it goes.
        kind = "dev" if step.is_overlaid else "image"
        name = f"{step.name.removesuffix('-dev') if kind == 'dev' else step.name} {step.host}"
        is_free = roots.get((kind, name), output.digest) == output.digest
        if step.is_image and is_free:
            store.database.set_root(kind, name, output.digest)
            _tag(store, step, output.digest)
        else:
            store.database.set_root(IMPORTED, name, output.digest)
        found.append(ImportedTarget(name=step.name, host=step.host, output=output))
    return tuple(found)


def _tag(store: LocalStore, step: ClosureStep, manifest: Digest) -> None:
    if _TAGGED.fullmatch(step.name):
        name = f"{step.name}-{step.host.removeprefix('linux/')}"
        store.tag(name, manifest, store.blob_size(manifest), MANIFEST_TYPE)


def _require_room(store: LocalStore, size: int) -> None:
    stats = os.statvfs(store.root)
    if stats.f_blocks and size > stats.f_bavail * stats.f_frsize:
        raise _no_room(store, size)


def _no_room(store: LocalStore, size: int) -> HostRefuses:
    return HostRefuses(
        f"no space left in the store {store.root}",
        detail=[f"to bring  {size_text(size)}"],
        hint="free some space, or name a store on a larger disk with --store; everything finished is kept",
    )
