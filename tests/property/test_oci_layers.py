# SPDX-License-Identifier: Apache-2.0
"""Layers laid upon each other, against the rules written down plainly over a dictionary of paths."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from derive.errors import InputErrors
from derive.oci.tree import oci_tree
from derive.store.memory import MemoryStore
from derive.trees.listing import parents
from support.archives import Tar, contents, folder, put, tar
from support.oci_registry import image

PATHS = [b"/".join(parts) for parts in ([b"a"], [b"b"], [b"a", b"a"], [b"a", b"b"], [b"b", b"a"], [b"a", b"a", b"b"])]
KINDS = st.sampled_from(["file", "folder", "whiteout", "opaque"])
LAYER = st.lists(st.tuples(KINDS, st.sampled_from(PATHS)), max_size=5)


def member(kind: str, path: bytes, layer: int) -> Tar:
    above, slash, base = path.rpartition(b"/")
    match kind:
        case "file":
            return Tar(name=path, data=b"%d" % layer)
        case "folder":
            return folder(path)
        case "whiteout":
            return Tar(name=above + slash + b".wh." + base)
        case _:
            return Tar(name=path + b"/.wh..wh..opq")


def below(path: bytes, paths: Iterable[bytes]) -> list[bytes]:
    return [other for other in paths if other.startswith(path + b"/")]


def plainly(layers: list[list[tuple[str, bytes]]]) -> dict[bytes, object]:
    """Take away what each layer takes away, then let its own paths cover what is there."""
    tree: dict[bytes, object] = {}
    for number, layer in enumerate(layers):
        folders = {path for kind, path in layer if kind in ("folder", "opaque")}
        folders |= {above for _, path in layer for above in parents(path) if above}
        files = {path for kind, path in layer if kind == "file"}
        gone = {path for kind, path in layer if kind == "whiteout"} | files
        hidden = {path for kind, path in layer if kind == "opaque"}
        for path in list(tree):
            covered = path in folders and tree[path] != "/"
            if path in gone or any(path in below(top, [path]) for top in gone | hidden) or covered:
                del tree[path]
        tree |= dict.fromkeys(folders, "/") | dict.fromkeys(files, b"%d" % number)
    return tree


@settings(max_examples=60)
@given(st.lists(LAYER, max_size=4))
def test_layers_are_laid_as_the_rules_say(layers: list[list[tuple[str, bytes]]]) -> None:
    item = image(*(tar(*(member(*entry, number) for entry in layer)) for number, layer in enumerate(layers)))
    store = MemoryStore()
    for data in item.blobs.values():
        put(store, data)
    try:
        found = contents(store, oci_tree(store, put(store, item.manifest)).listing)
    except InputErrors:
        assume(False)
    assert found == plainly(layers)


@settings(max_examples=40)
@given(st.lists(LAYER, max_size=3), st.randoms(use_true_random=False))
def test_the_order_within_a_layer_decides_nothing_but_whether_it_is_taken(
    layers: list[list[tuple[str, bytes]]], random: object
) -> None:
    shuffled = [list(layer) for layer in layers]
    for layer in shuffled:
        random.shuffle(layer)  # type: ignore[attr-defined]
    trees = []
    for order in (layers, shuffled):
        store = MemoryStore()
        item = image(*(tar(*(member(*entry, number) for entry in layer)) for number, layer in enumerate(order)))
        for data in item.blobs.values():
            put(store, data)
        try:
            trees.append(contents(store, oci_tree(store, put(store, item.manifest)).listing))
        except InputErrors:
            assume(False)
    assert trees[0] == trees[1]
