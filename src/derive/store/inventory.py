# SPDX-License-Identifier: Apache-2.0
"""Everything that a store holds and says it holds, read once: what gc, du and verify decide from.

Edge: the store's folder and database. Reads alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from derive.canonical import Digest
from derive.derivations.model import Output, parse_output
from derive.errors import Corrupt, InputErrors, Missing, Problem
from derive.store.database import Database
from derive.store.listings import blobs_of, load_listing
from derive.store.local import LocalStore
from derive.store.partial import FOLDER as PARTIAL

FAILED = "failed"
"""The folder in which the folders of failed builds are kept for a person, by derivation."""

DAMAGED = "damaged"
"""The folder below a store's own to which a repair moves what is no longer what its name says."""

MANIFEST_LIMIT = 1 << 22
"""Bytes beyond which a blob is not looked at as a manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """Something that stays, with all under it.

    ``kind`` is that of the table of roots (``image``, ``dev`` for an image with overlays, ``release`` for an image or
    the content of a release), or ``name`` for a name in the store's own OCI index that no root has.
    """

    kind: str
    name: str
    digest: Digest

    @property
    def operand(self) -> str:
        """The name as a person gives it: ``probe@linux/amd64``."""
        return self.name.replace(" ", "@")

    @property
    def title(self) -> str:
        """The name by which it differs from every other root: ``probe@linux/amd64``, ``dev probe@linux/amd64``."""
        return self.operand if self.kind == "image" else f"{self.kind} {self.operand}"

    @property
    def tag(self) -> str:
        """The name that it has in the OCI index, if it has one: ``probe-amd64``, ``probe-dev-amd64``."""
        if self.kind == "release":
            return self.title  # it has none, and must not take that of an image which is called like it
        return self.name.replace(" linux/", "-dev-" if self.kind == "dev" else "-")

    def is_named(self, name: str) -> bool:
        """Say whether a person means this one, perhaps among others."""
        bare = self.name.partition(" ")[0]
        if self.kind in ("image", "name"):
            return name in (self.title, self.operand, self.tag, bare)
        return name in (self.title, self.tag, f"{self.kind} {bare}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What lies in a store. Sizes are in bytes.

    ``blobs``, ``listings``, ``logs`` and ``partial`` are files with their sizes; ``folders`` the trees that are
    unpacked; ``failed`` what is kept of builds that failed; ``tree_blobs`` the blobs under each tree that has a
    listing; ``outputs`` what each realised resolved derivation gave, and ``builders`` which builder gave it;
    ``referrers`` the manifests that refer to another.
    """

    blobs: Mapping[Digest, int]
    listings: Mapping[Digest, int]
    folders: frozenset[Digest]
    logs: Mapping[str, int]
    partial: Mapping[str, int]
    damaged: Mapping[str, int]
    failed: tuple[str, ...]
    tree_blobs: Mapping[Digest, tuple[Digest, ...]]
    outputs: Mapping[Digest, tuple[Output, ...]]
    builders: Mapping[Digest, str]
    roots: tuple[Root, ...]
    referrers: Mapping[Digest, tuple[Digest, ...]] = field(default_factory=dict)

    def has_tree(self, tree: Digest) -> bool:
        """Say whether a tree's listing and all its blobs are there."""
        return tree in self.listings and all(blob in self.blobs for blob in self.tree_blobs.get(tree, ()))


def take_inventory(store: LocalStore, *, index: bool = True) -> Inventory:
    """Read what a store holds; ``index`` False leaves out the names in the OCI index.

    Raises:
        Corrupt: when the OCI index cannot be read.
    """
    root = store.root
    listings = _digests(root / "listings", ".json")
    outputs, builders = _realised(store.database)
    roots = read_roots(store, index=index)
    # Blobs last: whatever names one was written after it, so that none is missing only because it is new.
    return Inventory(
        blobs=_digests(root / "blobs" / "sha256", ""),
        listings=listings,
        folders=frozenset(_digests(root / "trees", "")),
        logs=files_of(root / "logs"),
        partial=files_of(root / PARTIAL),
        damaged=files_of(root / DAMAGED),
        failed=tuple(sorted(files_of(root / FAILED))),
        tree_blobs=_tree_blobs(store, listings),
        outputs=outputs,
        builders=builders,
        roots=roots,
        referrers=store.database.referrers(),
    )


def files_of(folder: Path) -> dict[str, int]:
    """Return the files of a folder with their sizes; none when the folder is not there."""
    try:
        with os.scandir(folder) as found:
            return {item.name: _size(item) for item in found}
    except FileNotFoundError:
        return {}


def read_roots(store: LocalStore, *, index: bool = True) -> tuple[Root, ...]:
    """Return what the table of roots and the OCI index name, sorted."""
    roots = [Root(kind=kind, name=name, digest=digest) for kind, name, digest in store.database.roots()]
    if not index:
        return tuple(roots)
    known = {root.digest for root in roots}
    names = [(name, digest) for name, digest in index_names(store.root) if digest not in known]
    return (*roots, *(Root(kind="name", name=name, digest=digest) for name, digest in names))


def roots_named(roots: Iterable[Root], names: Iterable[str]) -> tuple[Root, ...]:
    """Return the roots that people name: ``name``, ``name@platform``, both with the kind before them, or in the index.

    Raises:
        InputErrors: every name that no root has.
    """
    known = tuple(roots)
    hint = f"there are: {', '.join(sorted({root.title for root in known})) or 'none'}"
    absent = sorted(name for name in names if not any(root.is_named(name) for root in known))
    if absent:
        raise InputErrors([Problem(where="", message=f"no root is named {name!r}", hint=hint) for name in absent])
    return tuple(root for root in known if any(root.is_named(name) for name in names))


def index_names(root: Path) -> list[tuple[str, Digest]]:
    """Return the names in a store's OCI index, sorted.

    Raises:
        Corrupt: when the index cannot be read.
    """
    path = root / "index.json"
    try:
        entries = json.loads(path.read_bytes())["manifests"]
        return sorted((_name(entry), Digest.parse(entry["digest"])) for entry in entries)
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "derive store verify --repair writes it again"
        raise Corrupt("the store's index of images cannot be read", where=str(path), hint=hint) from error


def manifest_parts(store: LocalStore, digest: Digest) -> tuple[Digest, ...] | None:
    """Return the config and layers that a manifest names, or None when the blob is absent or no manifest."""
    try:
        if store.blob_size(digest) > MANIFEST_LIMIT:
            return None
        document = json.loads(b"".join(store.read_blob(digest)))
        return tuple(Digest.parse(part["digest"]) for part in (document["config"], *document["layers"]))
    except (Missing, Corrupt, ValueError, KeyError, TypeError):
        return None


def _name(entry: Mapping[str, Mapping[str, object]]) -> str:
    return str(entry["annotations"]["org.opencontainers.image.ref.name"])


def _digests(folder: Path, suffix: str) -> dict[Digest, int]:
    """Return the files whose names are digests; anything else is for verify to tell."""
    found = {}
    for name, size in files_of(folder).items():
        try:
            found[Digest(name.removesuffix(suffix))] = size
        except ValueError:
            continue
    return found


def _size(item: os.DirEntry[str]) -> int:
    try:
        return item.stat(follow_symlinks=False).st_size
    except FileNotFoundError:  # gone meanwhile
        return 0


def _tree_blobs(store: LocalStore, trees: Iterable[Digest]) -> dict[Digest, tuple[Digest, ...]]:
    """Return the blobs under each tree: as the database has it, and where it has nothing, from the listing itself."""
    rows: dict[str, list[str]] = {}
    with store.database.cursor() as cursor:
        for tree, blob in cursor.execute("SELECT tree, blob FROM tree_blobs"):
            rows.setdefault(tree, []).append(blob)
    digests: dict[str, Digest] = {}
    found = {}
    for tree in trees:
        if tree.hex in rows:
            found[tree] = tuple(digests.setdefault(text, Digest(text)) for text in rows[tree.hex])
        else:
            found[tree] = _blobs_listed(store, tree)
    return found


def _blobs_listed(store: LocalStore, tree: Digest) -> tuple[Digest, ...]:
    try:
        data = (store.root / "listings" / f"{tree.hex}.json").read_bytes()
        return tuple(sorted(blobs_of(load_listing(data, tree.short))))
    except (FileNotFoundError, Corrupt):  # gone meanwhile, or for verify to tell
        return ()


def _realised(database: Database) -> tuple[dict[Digest, tuple[Output, ...]], dict[Digest, str]]:
    outputs: dict[Digest, tuple[Output, ...]] = {}
    builders: dict[Digest, str] = {}
    with database.cursor() as cursor:
        for resolved, text, builder in cursor.execute("SELECT resolved, outputs, builder FROM realisations"):
            try:
                outputs[Digest(resolved)] = tuple(parse_output(value) for value in json.loads(text).values())
                builders[Digest(resolved)] = builder
            except (ValueError, AttributeError, TypeError):  # for verify to tell; it names nothing
                continue
    return outputs, builders
