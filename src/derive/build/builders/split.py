# SPDX-License-Identifier: Apache-2.0
"""``split``: one tree cut into several, of which each becomes a layer. Page: docs/builders/split.md.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derive.build.context import Context
from derive.canonical import Json, escape
from derive.debian.owners import owners
from derive.derivations.model import Output, ResolvedDerivation, TreeOutput
from derive.errors import InputErrors
from derive.images.split import BASE, own_output, shared_output, shared_place
from derive.trees.listing import Directory, Entry, Listing
from derive.trees.partition import given_twice, partition


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Cut a tree as the argument ``by`` says: every leaf of it is in at most one output."""
    by = request.arguments["by"]
    match by:
        case "package":
            shared = request.arguments["shared"]
            assert isinstance(shared, int)
            root = context.store.listing(request.tree("tree"))
            found = _by_package(context, root, _texts(request.arguments["own"]), shared)
        case "several":
            roles = [role for role in sorted(request.inputs) if role.startswith("part.")]
            parts = [context.store.listing(request.tree(role)) for role in roles]
            found = {"out": given_twice(parts)}
        case _:
            raise ValueError(f"split knows no {by!r}")
    for name, one in found.items():
        context.log(f"{name}: {sum(1 for _ in one.files())} files, {one.size} bytes")
    return {name: TreeOutput(context.store.add_listing(one, by_facts=True), "facts") for name, one in found.items()}


def _by_package(context: Context, tree: Listing, own: Sequence[str], shared: int) -> dict[str, Listing]:
    owner = owners(context.store, tree)
    places = {name: own_output(name) for name in own}

    def place(path: bytes, entry: Entry) -> str:
        name = None if isinstance(entry, Directory) else owner.get(path)
        if name is None:
            return BASE
        if name not in places:
            if not shared:
                raise InputErrors.one(f"/{escape(path)} is of {name}, for which there is no layer", where=context.name)
            places[name] = shared_output(shared_place(name, shared))
        return places[name]

    names = (BASE, *places.values(), *(shared_output(number) for number in range(1, shared + 1)))
    return partition(tree, place, names)


def _texts(value: Json) -> tuple[str, ...]:
    assert isinstance(value, list | tuple)
    return tuple(str(one) for one in value)
