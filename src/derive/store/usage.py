# SPDX-License-Identifier: Apache-2.0
"""Whose a store's bytes are: of which image, shared or its own, of which package, or of nobody.

Edge: the store. Reads alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from derive.canonical import Digest, Json
from derive.derivations.model import FlatOutput, Output, TreeOutput, parse_output
from derive.errors import Corrupt, Missing
from derive.store.collect import folder_size
from derive.store.graph import StoredDerivation, fetches, load_closure, outputs
from derive.store.inventory import FAILED, Inventory, Root, files_of, roots_named, take_inventory
from derive.store.layout import RESERVE
from derive.store.local import LocalStore
from derive.store.needs import needs_of_roots
from derive.store.reach import Level, Needs, live_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUsage:
    """Bytes of one root: what runs it, what was fetched for it, all that was built on the way, and its share of those.

    ``total`` is all of it, each blob counted once; ``exclusive`` the part that no other root has.
    """

    root: Root
    image: int
    fetched: int
    total: int
    exclusive: int

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {
            "kind": self.root.kind,
            "name": self.root.operand,
            "digest": str(self.root.digest),
            "image_bytes": self.image,
            "fetched_bytes": self.fetched,
            "total_bytes": self.total,
            "exclusive_bytes": self.exclusive,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageUsage:
    """Bytes of one artifact: the archive, what was unpacked from it, and its contents in the layers of images."""

    name: str
    archive: int
    unpacked: int
    in_layers: int

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {
            "name": self.name,
            "archive_bytes": self.archive,
            "unpacked_bytes": self.unpacked,
            "in_layers_bytes": self.in_layers,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """A store's bytes by image; ``others`` are the kinds of things that are no image's, with how many and how large."""

    images: tuple[ImageUsage, ...]
    others: tuple[tuple[str, int, int], ...]
    total: int

    def document(self) -> dict[str, Json]:
        """Return it as a record's body."""
        others: list[Json] = [{"kind": kind, "count": count, "bytes": size} for kind, count, size in self.others]
        return {"images": [one.document() for one in self.images], "others": others, "total_bytes": self.total}


def usage(store: LocalStore, names: Iterable[str] = ()) -> Usage:
    """Return whose a store's bytes are; with names, only those images are listed.

    Raises:
        InputErrors: when no root has one of the names.
    """
    inventory = take_inventory(store)
    chosen = _chosen(inventory.roots, names)
    needs = needs_of_roots(store, inventory)
    parts = {root: _blobs(inventory, one.kept(Level.AUDIT)) for root, one in needs.items()}
    # Two roots of one image are one: neither would have anything of its own.
    sharing = Counter(blob for digest in {root.digest for root in parts} for blob in _of(parts, digest))
    images = tuple(_image(inventory, root, needs[root], parts[root], sharing) for root in chosen)
    others = _others(store, inventory, frozenset(sharing))
    total = sum(inventory.blobs.values()) + sum(size for kind, _, size in others if kind != "blobs of no image")
    return Usage(images=images, others=others, total=total)


def _chosen(roots: tuple[Root, ...], names: Iterable[str]) -> tuple[Root, ...]:
    wanted = frozenset(names)
    return roots_named(roots, wanted) if wanted else roots


def _blobs(inventory: Inventory, kept: Iterable[Output]) -> frozenset[Digest]:
    return live_of(kept, inventory.tree_blobs).blobs & inventory.blobs.keys()


def _of(parts: Mapping[Root, frozenset[Digest]], digest: Digest) -> frozenset[Digest]:
    return next(blobs for root, blobs in parts.items() if root.digest == digest)


def _image(
    inventory: Inventory, root: Root, needs: Needs, blobs: frozenset[Digest], sharing: Mapping[Digest, int]
) -> ImageUsage:
    def size(some: Iterable[Digest]) -> int:
        return sum(inventory.blobs[blob] for blob in some)

    return ImageUsage(
        root=root,
        image=size(_blobs(inventory, needs.run)),
        fetched=size(_blobs(inventory, needs.rebuild)),
        total=size(blobs),
        exclusive=size(blob for blob in blobs if sharing[blob] == 1),
    )


def _others(store: LocalStore, inventory: Inventory, owned: frozenset[Digest]) -> tuple[tuple[str, int, int], ...]:
    loose = [size for blob, size in inventory.blobs.items() if blob not in owned]
    folders = [folder_size(store.root / "trees" / tree.hex) for tree in sorted(inventory.folders)]
    files = files_of(store.root)
    database = [size for name, size in files.items() if name.startswith("derive.sqlite")]
    found = (
        ("blobs of no image", loose),
        ("listings", inventory.listings.values()),
        ("unpacked trees", folders),
        ("logs", inventory.logs.values()),
        ("unfinished downloads", inventory.partial.values()),
        ("kept of failed builds", [folder_size(store.root / FAILED / name) for name in inventory.failed]),
        ("damaged files", inventory.damaged.values()),
        ("database", database),
        ("room for a collection", [size for name, size in files.items() if name == RESERVE]),
    )
    return tuple((kind, len(sizes), sum(sizes)) for kind, sizes in found if sizes)


def packages(store: LocalStore, names: Iterable[str] = ()) -> tuple[PackageUsage, ...]:
    """Return the artifacts that images are made of, the largest first; of some images alone when they are named.

    Raises:
        InputErrors: as :func:`usage`.
    """
    inventory = take_inventory(store)
    chosen = _chosen(inventory.roots, names)
    needs = needs_of_roots(store, inventory)
    targets = {key for root in chosen for key in needs[root].derivations}
    rows = load_closure(store.database, targets)
    given = outputs(store.database, rows.values())
    fixed = {one.digest for root in chosen for one in needs[root].rebuild if isinstance(one, FlatOutput)}
    artifacts = fetches(store.database, [digest.hex for digest in fixed])
    owners, unpacked = _owners(inventory, rows, given, fixed)
    layers = _in_layers(store, rows, given, owners)
    found = [
        PackageUsage(
            name=artifacts[digest.hex].name if digest.hex in artifacts else digest.short,
            archive=inventory.blobs.get(digest, 0),
            unpacked=unpacked[digest],
            in_layers=layers[digest],
        )
        for digest in fixed
    ]
    return tuple(sorted(found, key=lambda one: (-(one.archive + one.unpacked), one.name)))


def _owners(
    inventory: Inventory,
    rows: Mapping[Digest, StoredDerivation],
    given: Mapping[Digest, Mapping[str, str]],
    fixed: set[Digest],
) -> tuple[dict[Digest, Digest], Counter[Digest]]:
    """Return whose artifact's contents lie in each blob, and how many bytes were unpacked from each artifact."""
    owners = {digest: digest for digest in fixed}
    unpacked: Counter[Digest] = Counter()
    for key in sorted(rows):
        archives = [digest for digest in _fixed_of(rows[key]) if digest in fixed]
        if len(archives) != 1:
            continue
        for text in given.get(key, {}).values():
            output = parse_output(text)
            for blob in inventory.tree_blobs.get(output.digest, ()) if isinstance(output, TreeOutput) else ():
                if blob not in owners:
                    owners[blob] = archives[0]
                    unpacked[archives[0]] += inventory.blobs.get(blob, 0)
    return owners, unpacked


def _fixed_of(row: StoredDerivation) -> list[Digest]:
    inputs = row.document["inputs"]
    assert isinstance(inputs, Mapping)
    return [parse_output(str(v["fixed"])).digest for v in inputs.values() if isinstance(v, Mapping) and "fixed" in v]


def _in_layers(
    store: LocalStore,
    rows: Mapping[Digest, StoredDerivation],
    given: Mapping[Digest, Mapping[str, str]],
    owners: Mapping[Digest, Digest],
) -> Counter[Digest]:
    """Return how many bytes of each artifact's contents stand in layers, uncompressed."""
    trees: set[Digest] = set()
    for row in rows.values():
        inputs = row.document["inputs"]
        if not row.builder.startswith("layer/") or not isinstance(inputs, Mapping):
            continue
        for value in inputs.values():
            if isinstance(value, Mapping) and "derivation" in value:
                text = given.get(Digest(str(value["derivation"])), {}).get(str(value["output"]))
                trees.update([parse_output(text).digest] if text is not None else [])
    found: Counter[Digest] = Counter()
    for tree in sorted(trees):
        try:
            listing = store.listing(tree)
        except (Missing, Corrupt):
            continue
        for _, file in listing.files():
            if file.at is not None and file.at.blob in owners:
                found[owners[file.at.blob]] += file.size
    return found
