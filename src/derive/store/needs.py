# SPDX-License-Identifier: Apache-2.0
"""What each root of a store needs, found from manifests and from the derivations that the store remembers.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Iterable

from derive.canonical import Digest
from derive.derivations.model import FlatOutput, Output, TreeOutput, parse_output
from derive.errors import Corrupt
from derive.store.database import Database
from derive.store.graph import load_closure, outputs
from derive.store.inventory import Inventory, Root, manifest_parts
from derive.store.leases import Held
from derive.store.local import LocalStore
from derive.store.reach import Needs, Node, needs_of, node_of


def needs_of_roots(store: LocalStore, inventory: Inventory) -> dict[Root, Needs]:
    """Return what each root needs, in the roots' order."""
    givers = _givers(store.database, inventory)
    targets = {root: givers.get(root.digest, ()) for root in inventory.roots}
    graph = load_graph(store.database, inventory, (key for keys in targets.values() for key in keys))
    return {root: needs_of(run_outputs(store, inventory, root), targets[root], graph) for root in inventory.roots}


def load_graph(database: Database, inventory: Inventory, targets: Iterable[Digest]) -> dict[Digest, Node]:
    """Return the closures of some derivations as nodes, as far as the store knows them.

    Raises:
        Corrupt: when a row is no derivation.
    """
    try:
        rows = load_closure(database, targets)
        given = outputs(database, rows.values())
        fetched = _fetched_together(inventory)
        return {
            key: node_of(row.document, {name: parse_output(text) for name, text in given.get(key, {}).items()}, fetched)
            for key, row in rows.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        hint = "derive store verify --repair"
        raise Corrupt("a row of the store's database cannot be read", detail=[str(error)], hint=hint) from error


def held_outputs(database: Database, inventory: Inventory, held: Held) -> frozenset[Output]:
    """Return what living processes build from: all that the derivations they named gave, and the artifacts in them."""
    graph = load_graph(database, inventory, held.derivations)
    nodes = [node for key, node in graph.items() if key in held.derivations]
    return frozenset(output for node in nodes for output in (*node.fixed, *node.outputs.values()))


def run_outputs(store: LocalStore, inventory: Inventory, root: Root) -> tuple[Output, ...]:
    """Return what a root is: a tree, or a blob with the parts that it names when it is a manifest.

    With it goes what refers to it, as far as that is there: without it the root is no less.
    """
    if root.digest in inventory.listings:
        return (TreeOutput(root.digest),)
    parts = manifest_parts(store, root.digest) or ()
    attached = [
        one for referrer in inventory.referrers.get(root.digest, ()) for one in _with_parts(store, inventory, referrer)
    ]
    return (FlatOutput(root.digest), *map(FlatOutput, (*parts, *attached)))


def _with_parts(store: LocalStore, inventory: Inventory, manifest: Digest) -> tuple[Digest, ...]:
    """Return a manifest and what it names, of which the store has."""
    parts = manifest_parts(store, manifest) or ()
    return tuple(one for one in (manifest, *parts) if one in inventory.blobs)


def _fetched_together(inventory: Inventory) -> dict[Output, tuple[Output, ...]]:
    """Return what came with each artifact that did not come alone: a tree of git, and what proves its commit."""
    return {
        output: given
        for resolved, given in inventory.outputs.items()
        if len(given) > 1 and inventory.builders[resolved].startswith("fetch-")
        for output in given
    }


def _givers(database: Database, inventory: Inventory) -> dict[Digest, tuple[Digest, ...]]:
    """Return the derivations that gave each root."""
    wanted = {root.digest for root in inventory.roots}
    resolved = {
        key: output.digest for key, given in inventory.outputs.items() for output in given if output.digest in wanted
    }
    found: dict[Digest, tuple[Digest, ...]] = {}
    with database.cursor() as cursor:
        for key, digest in resolved.items():
            rows = cursor.execute("SELECT id FROM derivations WHERE resolved = ? ORDER BY id", (key.hex,)).fetchall()
            found[digest] = (*found.get(digest, ()), *(Digest(row[0]) for row in rows))
    return found
