# SPDX-License-Identifier: Apache-2.0
"""From which of its inputs a step has a file, and where the file lay in it.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.trees.listing import Entry, Listing
from derive.why.graph import Node

_MOVERS = frozenset({"debian-root", "install-wheel", "script"})
"""Builders that put files at other paths than they had."""

Places = dict[bytes, list[bytes]]


class Names:
    """Where files of a name lie in trees; each tree is looked through once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Listing, Places]] = {}

    def places(self, tree: Listing, name: bytes) -> list[bytes]:
        """Return the paths of a tree that end in a name."""
        known = self._known.get(id(tree))
        if known is None:
            found: Places = {}
            for path in tree:
                found.setdefault(path.rpartition(b"/")[2], []).append(path)
            known = self._known[id(tree)] = (tree, found)
        return known[1].get(name, [])


def source(
    node: Node, trees: Mapping[str, Listing], path: bytes, entry: Entry, names: Names | None = None
) -> tuple[str, bytes] | None:
    """Return which input has a file, by its role, and where: at its own path, else by the same name and contents."""
    folders = _put_at(node)
    for role, tree in trees.items():
        at = folders.get(role, b"")
        if path.startswith(at):
            for place in (path[len(at) :], b"data/" + path):
                if tree.get(place) == entry:
                    return role, place
    if node.builder not in _MOVERS:
        return None
    name, known = path.rpartition(b"/")[2], names or Names()
    same = [
        (_common_end(path, other), role, other)
        for role, tree in trees.items()
        if role != "root"
        for other in known.places(tree, name)
        if tree[other] == entry
    ]
    return max(same)[1:] if same else None


def _common_end(one: bytes, other: bytes) -> int:
    """Return how many of the last components of two paths are the same."""
    pairs = zip(reversed(one.split(b"/")), reversed(other.split(b"/")), strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b), min(one.count(b"/"), other.count(b"/")) + 1)


def _put_at(node: Node) -> dict[str, bytes]:
    """Return the folders, with their slashes, in which a union puts parts of it; those at its root are left out."""
    parts = node.arguments.get("parts")
    if not isinstance(parts, list):
        return {}
    return {
        str(part.get("name")): str(part["at"]).encode() + b"/"
        for part in parts
        if isinstance(part, Mapping) and part.get("at")
    }
