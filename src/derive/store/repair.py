# SPDX-License-Identifier: Apache-2.0
"""Mends what a check found: brings bytes back, makes listings again from what is sound, and else forgets.

Edge: the store. Where bytes come from is the caller's.

What is forgotten is made again by the next build that needs it. Nothing is thrown away: what is no longer what its name
says is moved to ``damaged/``, where a collection removes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from derive.canonical import Digest, Json
from derive.derivations.model import FlatOutput, ResolvedDerivation
from derive.errors import DeriveError, Interrupted
from derive.store.attached import lost_referrers
from derive.store.blobs import sync_folder
from derive.store.findings import Finding, Kind
from derive.store.graph import StoredDerivation, fetches
from derive.store.inventory import DAMAGED, read_roots, take_inventory
from derive.store.listings import blobs_of
from derive.store.local import LocalStore
from derive.store.needs import run_outputs
from derive.trees.materialise import remove_folder
from derive.trees.pack import add_members
from derive.trees.scan import scan_folder
from derive.words import count_text

Bring = Callable[[Digest, str, "ResolvedDerivation | None"], None]
"""Brings a blob into the store: by its digest, its name for people, and the fetch that gave it, if one did.

Raises:
    DeriveError: when nobody serves it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What was done about a finding, and whether all is well with it now."""

    finding: Finding
    done: str
    is_mended: bool

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {**self.finding.document(), "done": self.done, "mended": self.is_mended}


def repair(store: LocalStore, findings: Iterable[Finding], bring: Bring) -> tuple[Repair, ...]:
    """Mend what was found, blobs first; what is left over and harms nobody is left to gc.

    Raises:
        HostRefuses: when the store cannot be written.
        Interrupted: on Ctrl-C; what was mended stays so, and the same again goes on.
    """
    first = [Kind.INDEX, Kind.DERIVATION, Kind.REALISATION, Kind.BLOB, Kind.REFERRER, Kind.LISTING, Kind.TREE_ROWS]
    last = [Kind.FOLDER, Kind.STRAY, Kind.DATABASE, Kind.ROOT, Kind.PROOF]
    ranks = {kind: rank for rank, kind in enumerate([*first, *last])}
    found = sorted((one for one in findings if one.kind is not Kind.ORPHAN), key=lambda one: ranks[one.kind])
    done: list[Repair] = []
    for finding in found:
        what, mended = _mend(store, finding, bring)
        done.append(Repair(finding=finding, done=what, is_mended=mended))
    if any(one.finding.kind in (Kind.BLOB, Kind.ROOT) for one in done):
        _forget_broken_images(store)
    store.staging.settle()
    return tuple(done)


def _mend(store: LocalStore, finding: Finding, bring: Bring) -> tuple[str, bool]:
    """Do what can be done, and say it; True when all is well then."""
    match finding.kind:
        case Kind.BLOB | Kind.REFERRER:
            return (_blob if finding.kind is Kind.BLOB else _referrer)(store, finding, bring)
        case Kind.LISTING:
            return _tree(store, finding.digest), True
        case Kind.FOLDER | Kind.STRAY:
            return _away(store, finding)
        case Kind.TREE_ROWS | Kind.DERIVATION | Kind.REALISATION:
            return _rows(store, finding), True
        case Kind.INDEX:
            return _index(store), True
        case Kind.ROOT:
            return _root(store, finding)
        case Kind.PROOF:
            return "not mended: find out where it came from (derive show), and lock it afresh", False
        case Kind.DATABASE | Kind.ORPHAN:
            is_damage = finding.is_damage
            return "not mended: move it and its -wal and -shm away" if is_damage else "left for gc", not is_damage
        case _:
            assert_never(finding.kind)


def _blob(store: LocalStore, finding: Finding, bring: Bring) -> tuple[str, bool]:
    digest = finding.digest
    _move_aside(store, store.root / "blobs" / "sha256" / digest.hex)
    row = fetches(store.database, [digest.hex]).get(digest.hex)
    try:
        bring(digest, finding.lost if row is None else row.name, None if row is None else _request(row))
    except Interrupted:
        raise
    except DeriveError as error:
        said = _without(store, digest)
        if row is not None:
            return "; ".join(["moved aside", f"not brought back: {error.message}", _ASKED_AGAIN, *said]), False
        return "; ".join(["moved aside", *(said or [_FORGOTTEN])]), True
    return "brought back", True


def _referrer(store: LocalStore, finding: Finding, bring: Bring) -> tuple[str, bool]:
    """Bring back what is gone of a referrer, or forget it: while it is named, the image is not pushed without it."""
    manifest = finding.digest
    for _ in range(2):  # the manifest first: only it says what else there has to be
        for one in lost_referrers(store, take_inventory(store)):
            if one.manifest == manifest:
                try:
                    for blob in one.absent:
                        bring(blob, f"what refers to {one.image.short}", None)
                except Interrupted:
                    raise
                except DeriveError:
                    store.database.remove_referrer(one.image, manifest)
                    return "forgotten: attest the image again (derive attest), or pull it again", True
    return "whole again", True


def _without(store: LocalStore, blob: Digest) -> list[str]:
    """Make the trees again that lay in a blob which nobody serves, or forget them; say so."""
    trees = [_tree(store, tree) for tree in _trees_of(store, blob)]
    forgotten = trees.count(_FORGOTTEN)
    said = []
    if forgotten < len(trees):
        said.append(f"{count_text(len(trees) - forgotten, 'tree')} in it made again from folders")
    if forgotten:
        what = "it makes it" if forgotten == 1 else "them makes them"
        said.append(f"{count_text(forgotten, 'tree')} in it forgotten: the next build that needs {what} again")
    return said


def _request(row: StoredDerivation) -> ResolvedDerivation | None:
    """Return a fetch that the store remembers as a request to make again; None for one that gives no single file."""
    builder, _, version = row.builder.partition("/")
    arguments = row.document["arguments"]
    assert isinstance(arguments, dict)
    if "sha256" not in arguments:
        return None
    return ResolvedDerivation(
        builder=builder, version=int(version), build="any", host="any", arguments=arguments, inputs={}
    )


_FORGOTTEN = "forgotten: the next build that needs it makes it again"
_ASKED_AGAIN = "the next build that needs it asks for it again"


def _trees_of(store: LocalStore, blob: Digest) -> list[Digest]:
    with store.database.cursor() as cursor:
        rows = cursor.execute("SELECT tree FROM tree_blobs WHERE blob = ? ORDER BY tree", (blob.hex,)).fetchall()
    return [Digest(row[0]) for row in rows]


def _tree(store: LocalStore, tree: Digest) -> str:
    """Make a tree's listing again from its folder, or forget it."""
    listing = store.root / "listings" / f"{tree.hex}.json"
    _move_aside(store, listing)
    store.database.add_tree(tree, ())
    folder = store.root / "trees" / tree.hex
    try:
        with scan_folder(folder) as scan:
            found = add_members(store, scan.members())
        if store.add_foreign(found, tree) == tree:
            return "made again from its folder"
    except (OSError, DeriveError, ValueError):
        pass
    _remove(store, folder)
    return _FORGOTTEN


def _away(store: LocalStore, finding: Finding) -> tuple[str, bool]:
    if finding.kind is Kind.FOLDER:
        _remove(store, store.root / "trees" / finding.name)
        return "removed; it is made again from its listing", True
    path = store.root / finding.name
    if path.parent == store.root:
        return "left: it may be somebody's", True
    if path.is_dir() and not path.is_symlink():
        _remove(store, path)
        return "removed", True
    _move_aside(store, path)
    return "moved aside", True


def _rows(store: LocalStore, finding: Finding) -> str:
    if finding.kind is Kind.TREE_ROWS:
        store.database.add_tree(finding.digest, blobs_of(store.listing(finding.digest)))
        return "written again from the listing"
    table, column = ("derivations", "id") if finding.kind is Kind.DERIVATION else ("realisations", "resolved")
    with store.database.cursor() as cursor:
        cursor.execute(f"DELETE FROM {table} WHERE {column} = ?", (finding.name,))  # noqa: S608 - ours
    return "forgotten: it is found or built again"


def _index(store: LocalStore) -> str:
    """Write the OCI index again from the table of roots."""
    _move_aside(store, store.root / "index.json")
    roots = read_roots(store, index=False)
    names = [root for root in roots if root.kind in ("image", "pulled") and store.has_blob(root.digest)]
    store.write_empty_index()
    for root in names:
        store.tag(root.tag, root.digest, store.blob_size(root.digest), _media_type(store, root.digest))
    return f"written again: {len(names)} names from the table of roots"


def _media_type(store: LocalStore, manifest: Digest) -> str:
    """Return what a manifest says that it is: one that was pulled may be in Docker's form."""
    try:
        return str(json.loads(b"".join(store.read_blob(manifest)))["mediaType"])
    except (ValueError, KeyError, TypeError):
        return "application/vnd.oci.image.manifest.v1+json"


def _root(store: LocalStore, finding: Finding) -> tuple[str, bool]:
    inventory = take_inventory(store)
    for root in inventory.roots:
        if root.title == finding.name:
            outputs = run_outputs(store, inventory, root)
            if len(outputs) > 1 and all(isinstance(o, FlatOutput) and o.digest in inventory.blobs for o in outputs):
                return "whole again", True
            if root.kind == "pulled":
                repository = root.name.partition("@")[0].partition(":")[0]
                return f"not mended: derive pull {repository}@{root.digest}", False
    kind, _, name = finding.name.rpartition(" ")
    return f"not mended: derive {kind or 'image'} {name.partition('@')[0]}", False


def _forget_broken_images(store: LocalStore) -> None:
    """Forget that images were derived of which a part is gone: the next run would take the manifest for all of it."""
    inventory = take_inventory(store)
    broken = {
        FlatOutput(root.digest)
        for root in inventory.roots
        for output in run_outputs(store, inventory, root)
        if isinstance(output, FlatOutput) and output.digest not in inventory.blobs
    }
    gone = [(key.hex,) for key, given in inventory.outputs.items() if not broken.isdisjoint(given)]
    with store.database.cursor() as cursor:
        cursor.executemany("DELETE FROM realisations WHERE resolved = ?", gone)


def _move_aside(store: LocalStore, path: Path) -> None:
    target = store.root / DAMAGED
    target.mkdir(exist_ok=True)
    try:
        path.replace(target / path.name)
    except FileNotFoundError:
        return
    sync_folder(path.parent)


def _remove(store: LocalStore, folder: Path) -> None:
    """Take a folder away in one stroke: half of one is never seen under its name."""
    aside = store.staging.new_path()
    try:
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o755)  # an ordinary user may not move a read-only folder
        folder.replace(aside)
    except FileNotFoundError:
        return
    remove_folder(aside)
