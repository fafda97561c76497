# SPDX-License-Identifier: Apache-2.0
"""Finds whether a store holds what it says it holds: blobs, listings, unpacked trees, database, roots.

Edge: the store, threads. Nothing is changed but memos of what was found to be right.

A tree's digest is a function of its listing's bytes and of the blobs that it names. A tree that was hashed once from
this very listing is thus right as long as its blobs are, and is not hashed again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from derive.canonical import Digest
from derive.derivations.model import FlatOutput, Output, TreeOutput
from derive.errors import Corrupt, DeriveError, Missing
from derive.store.attached import image_name, images_referred_by, lost_referrers, orphaned_envelopes
from derive.store.findings import Finding, Kind, Verified
from derive.store.folders import files_in, folder_differs, shown
from derive.store.hashing import Expected, Wrong, batches, wrong_of
from derive.store.inventory import Inventory, index_names, manifest_parts, take_inventory
from derive.store.layout import NAMES, OF_DISKS
from derive.store.leases import folder_lock, read_leases
from derive.store.listings import blobs_named, blobs_of, checked_key, load_listing
from derive.store.local import LocalStore
from derive.store.needs import run_outputs
from derive.store.records import check_rows
from derive.trees.facts import digest_again
from derive.trees.listing import Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How thoroughly to look.

    ``fast`` hashes nothing: presence, sizes, structure. ``trees`` hashes every tree again, also those that were hashed
    from the same listing before. ``jobs`` files are hashed at once.
    """

    jobs: int
    fast: bool = False
    trees: bool = False


def verify(store: LocalStore, how: How) -> Verified:
    """Check a store; collections wait meanwhile, builds do not.

    Raises:
        HostRefuses: when there is none.
    """
    if store.is_absent:
        store.staging.require_writable()
    tmp = store.root / "tmp"
    with folder_lock(tmp, alone=False) if tmp.is_dir() else nullcontext():
        findings, inventory = _opened(store, fast=how.fast)
        if inventory is None:
            return Verified(findings=tuple(findings), blobs=0, hashed=0, trees=0, folders=0, derivations=0)
        pool = ThreadPoolExecutor(how.jobs, thread_name_prefix="verify")
        try:
            look = _Look(store=store, inventory=inventory, how=how, pool=pool, findings=findings)
            derivations = look.all()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    ranks = {kind: rank for rank, kind in enumerate(Kind)}
    return Verified(
        findings=tuple(sorted(findings, key=lambda one: (ranks[one.kind], one.name))),
        blobs=len(inventory.blobs),
        hashed=look.hashed,
        trees=len(inventory.listings),
        folders=len(inventory.folders),
        derivations=derivations,
    )


def _opened(store: LocalStore, *, fast: bool) -> tuple[list[Finding], Inventory | None]:
    """Read what the store says of itself; without that, nothing can be compared with it."""
    findings: list[Finding] = []
    try:
        with store.database.cursor() as cursor:
            said = cursor.execute(f"PRAGMA {'quick_check' if fast else 'integrity_check'}(10)").fetchall()
        lost = "what it knows; move it out of the store, and everything is found or built again"
        findings += [
            Finding(kind=Kind.DATABASE, name="derive.sqlite", what=text, lost=lost) for (text,) in said if text != "ok"
        ]
    except Corrupt as error:
        findings.append(Finding(kind=Kind.DATABASE, name="derive.sqlite", what=error.message, lost="what it knows"))
        return findings, None
    try:
        index_names(store.root)
    except Corrupt as error:
        lost = "the names of images, for other OCI tools"
        findings.append(Finding(kind=Kind.INDEX, name="index.json", what=error.message, lost=lost))
        return findings, take_inventory(store, index=False)
    return findings, take_inventory(store)


@dataclass(slots=True, kw_only=True)
class _Look:
    """One check under way. ``bad`` are the damaged blobs, ``hashed`` the bytes handed out to be hashed."""

    store: LocalStore
    inventory: Inventory
    how: How
    pool: ThreadPoolExecutor
    findings: list[Finding]
    hashed: int = 0
    bad: set[Digest] = field(default_factory=set)
    _running: list[Future[list[Wrong]]] = field(default_factory=list)

    def all(self) -> int:
        """Look at everything; the files are hashed while the rest is read. Return how many derivations are known."""
        blobs = os.fsencode(self.store.root / "blobs" / "sha256")
        self._hand_out(
            Expected(blobs + b"/" + blob.hex.encode(), blob, size) for blob, size in self.inventory.blobs.items()
        )
        self.folders()
        findings, count = check_rows(self.store)
        self.findings.extend(findings)
        self.roots()
        self.referrers()
        self.orphans()
        self._collect()
        self.listings()
        return count

    def _hand_out(self, files: Iterable[Expected]) -> None:
        if self.how.fast:
            return
        for batch in batches(files):
            self.hashed += sum(file.size for file in batch)
            self._running.append(self.pool.submit(wrong_of, batch))

    def _collect(self) -> None:
        """Wait for what was handed out, and tell of each blob and of each unpacked tree once."""
        trees: dict[Digest, str] = {}
        for future in self._running:
            for wrong in future.result():
                if wrong.file.tree is not None:
                    path = wrong.file.path.removeprefix(os.fsencode(self.store.root / "trees" / wrong.file.tree.hex))
                    trees.setdefault(wrong.file.tree, f"{shown(path.removeprefix(b'/'))}: {wrong.what}")
                elif not wrong.is_gone:  # a person removed it meanwhile
                    blob = wrong.file.sha256
                    self.bad.add(blob)
                    lost = self._lost(blob)
                    self.findings.append(Finding(kind=Kind.BLOB, name=blob.hex, what=wrong.what, lost=lost))
        self.findings += [self._folder(tree, what) for tree, what in trees.items()]

    def folders(self) -> None:
        """Compare each unpacked tree with its listing, and hand out its files."""
        for tree in sorted(self.inventory.folders):
            path = self.store.root / "trees" / tree.hex
            if tree not in self.inventory.listings:
                what = "it has no listing, and nothing names it"
                self.findings.append(Finding(kind=Kind.STRAY, name=f"trees/{tree.hex}", what=what))
                continue
            try:
                listing = self.store.listing(tree)
            except (Corrupt, Missing):
                continue  # told as the listing's own damage
            what = folder_differs(path, listing)
            if what:
                self.findings.append(self._folder(tree, what))
            else:
                self._hand_out(files_in(path, listing, tree))

    def _folder(self, tree: Digest, what: str) -> Finding:
        return Finding(kind=Kind.FOLDER, name=tree.hex, what=what, lost="nothing: it is made again from its listing")

    def listings(self) -> None:
        """Check that each listing can be read, lies within its blobs, and gives the tree that it is called."""
        trees = sorted(self.inventory.listings)
        for tree, what in zip(trees, self.pool.map(self._listing, trees), strict=True):
            if what:
                lost = self._named([TreeOutput(tree)])
                self.findings.append(Finding(kind=Kind.LISTING, name=tree.hex, what=what, lost=lost))

    def _listing(self, tree: Digest) -> str:
        """Return what is wrong with a tree, or nothing."""
        try:
            data = (self.store.root / "listings" / f"{tree.hex}.json").read_bytes()
        except FileNotFoundError:  # a person removed it meanwhile
            return ""
        except OSError as error:
            return f"cannot be read: {(error.strerror or str(error)).lower()}"
        key = checked_key(tree, data)
        if not self.how.trees and not self.how.fast and self.store.database.memo(key) is not None:
            blobs = blobs_named(data)
            absent = sorted(blob for blob in blobs if blob not in self.inventory.blobs)
            self._compare_rows(tree, blobs)
            return _absent(absent[0]) if absent else ""
        try:
            listing = load_listing(data, tree.short)
        except Corrupt as error:
            return f"cannot be read: {'; '.join(error.detail) or error.message}"
        self._compare_rows(tree, blobs_of(listing))
        what = _within(listing, self.inventory)
        if what or self.how.fast or not self.bad.isdisjoint(blobs_of(listing)):
            return what  # a damaged blob is told as such, with the trees that it spoils
        return self._hash(tree, listing, key)

    def _compare_rows(self, tree: Digest, listed: frozenset[Digest]) -> None:
        """Tell of a tree whose rows name other blobs than its listing; rows that are absent are not needed."""
        rows = frozenset(self.store.database.tree_blobs(tree))
        if rows and rows != listed:
            what = "the blobs that the database names are not those of its listing"
            lost = "nothing: the listing is right"
            self.findings.append(Finding(kind=Kind.TREE_ROWS, name=tree.hex, what=what, lost=lost))

    def _hash(self, tree: Digest, listing: Listing, key: Digest) -> str:
        try:
            found = digest_again(listing, tree, self.store.read)
        except (DeriveError, ValueError, OSError) as error:
            return f"its contents cannot be read: {error}"
        if found != tree:
            return f"it lists the tree {found.short}"
        if not self.store.read_only:
            self.store.database.set_memo(key, tree.hex)
        return ""

    def roots(self) -> None:
        """Say which roots can no longer be run."""
        for root in self.inventory.roots:
            run = run_outputs(self.store, self.inventory, root)
            gone = sorted(str(output) for output in run if not self._is_there(output))
            if gone or (root.digest not in self.inventory.listings and manifest_parts(self.store, root.digest) is None):
                what = f"{gone[0]} is absent" if gone else f"{root.digest.short} is no manifest"
                if len(gone) > 1:
                    what += f", and {len(gone) - 1} more"
                lost = "it cannot be run; derive it again"
                self.findings.append(Finding(kind=Kind.ROOT, name=root.title, what=what, lost=lost))

    def referrers(self) -> None:
        """Say what of an image's attestations, and of all else that refers to it, is lost."""
        for one in lost_referrers(self.store, self.inventory):
            name = image_name(self.inventory, one.image)
            lost = "what it says of the image: attest it again (derive attest), or pull it again"
            what = f"it refers to {name}: {one.what}"
            self.findings.append(Finding(kind=Kind.REFERRER, name=one.manifest.hex, what=what, lost=lost))

    def _is_there(self, output: Output) -> bool:
        match output:
            case TreeOutput(digest):
                return self.inventory.has_tree(digest)
            case FlatOutput(digest):
                return digest in self.inventory.blobs

    def orphans(self) -> None:
        """Find what nothing names, and files that no store has."""
        named = {blob for blobs in self.inventory.tree_blobs.values() for blob in blobs}
        for given in self.inventory.outputs.values():
            named.update(output.digest for output in given)
        for root in self.inventory.roots:
            named.update(output.digest for output in run_outputs(self.store, self.inventory, root))
        named |= read_leases(self.store.root / "tmp").blobs
        orphans = self.inventory.blobs.keys() - named
        said = dict(orphaned_envelopes(self.store, self.inventory, orphans))
        for blob in sorted(orphans):
            what = f"nothing names it ({self.inventory.blobs[blob]} bytes): derive store gc removes it"
            if blob in said:
                name = image_name(self.inventory, said[blob])
                what = f"an attestation of {name}, whose manifest is gone: attest it again before gc removes this"
            self.findings.append(Finding(kind=Kind.ORPHAN, name=blob.hex, what=what))
        self.findings += _strays(self.store.root)

    def _lost(self, blob: Digest) -> str:
        trees = [tree for tree, blobs in self.inventory.tree_blobs.items() if blob in blobs]
        images = images_referred_by(self.store, self.inventory, blob)
        if images:
            return f"what it says of {', '.join(image_name(self.inventory, one) for one in images)}: attest it again"
        return self._named([FlatOutput(blob), *map(TreeOutput, trees)])

    def _named(self, outputs: Iterable[Output]) -> str:
        """Return what steps gave these outputs, for people."""
        from derive.store.graph import givers

        names = sorted({row.name for output in outputs for row in givers(self.store.database, output.digest)})
        if not names:
            return "nothing that is known by a name"
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _within(listing: Listing, inventory: Inventory) -> str:
    """Say which file of a listing lies outside what is there, or nothing."""
    for _, file in listing.files():
        at = file.at
        if at is None or at.offset < 0 or at.size < 0 or file.size < 0:
            return "a file has no place"
        size = inventory.blobs.get(at.blob)
        if size is None:
            return _absent(at.blob)
        if at.offset + at.size > size:
            return f"it goes beyond the end of blob {at.blob.short}"
    return ""


def _absent(blob: Digest) -> str:
    return f"blob {blob.short}, which it names, is absent"


def _strays(root: Path) -> Iterator[Finding]:
    """Yield files that are none of a store's, and unfinished work whose owner cannot be told any more."""
    for path in sorted(root.iterdir()):
        if path.name not in NAMES and path.name not in OF_DISKS:
            yield Finding(kind=Kind.STRAY, name=path.name, what="no part of a store has this name")
    for folder, suffix in (("blobs/sha256", ""), ("listings", ".json"), ("trees", ""), ("failed", "")):
        for path in sorted((root / folder).glob("*")):
            if not _is_digest(path.name, suffix):
                yield Finding(kind=Kind.STRAY, name=f"{folder}/{path.name}", what="its name is no digest")
    for path in sorted((root / "tmp").iterdir()):
        if path.suffix != ".lock" and not path.with_suffix(".lock").exists():
            yield Finding(kind=Kind.STRAY, name=f"tmp/{path.name}", what="unfinished work that nobody goes on with")


def _is_digest(name: str, suffix: str) -> bool:
    try:
        Digest(name.removesuffix(suffix))
    except ValueError:
        return False
    return name.endswith(suffix)
