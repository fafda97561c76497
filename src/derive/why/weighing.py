# SPDX-License-Identifier: Apache-2.0
"""How many bytes each cause moved between two images that were found: their trees and layers read from the store.

Edge: the store, through the finder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from derive.derivations.model import parse_output
from derive.store.local import LocalStore
from derive.trees.listing import Listing
from derive.why.blame import Blame, KeyOf
from derive.why.causes import Key, cause_key
from derive.why.compare import image_layers, layer_names, listing_of
from derive.why.differences import BuilderMoved, Difference, ValueMoved
from derive.why.find import Finder, FoundDerivation
from derive.why.moved import Moved, weigh
from derive.why.pull import Blob, LayerRow, layer_rows

_OF_IMAGES = ("sandbox.", "modes.", "encoding.")
"""Arguments that an image's file, or the engine, gives to many steps alike."""


def one_line_key(about: tuple[str, ...], difference: Difference) -> Key:
    """Return a key under which a thing that a person changed is one cause, however many steps it is an argument of.

    Lock entries, patches, hunks and texts are such things; a value is one by the step that it is given to.
    """
    alike = not isinstance(difference, ValueMoved) or f"{difference.place}.".startswith(_OF_IMAGES)
    return (() if alike or isinstance(difference, BuilderMoved) else about, repr(difference))


def weigh_images(
    finder: Finder,
    first: FoundDerivation,
    second: FoundDerivation,
    *,
    key_of: KeyOf = cause_key,
    layers: tuple[Mapping[str, Blob], Mapping[str, Blob]] | None = None,
    contents: Iterable[Mapping[str, bytes]] = (),
) -> Moved | None:
    """Return what moved between two images, cause by cause; None where either is no image, or was never derived.

    ``layers`` are those of both by name, where they are recorded; else they are read from the store. ``contents`` are
    files of projects that may know what patches are called.
    """
    nodes = first.node, second.node
    if any(node.builder != "image" for node in nodes):
        return None
    if "out" not in first.graph.outputs.get(first.id, {}) or "out" not in second.graph.outputs.get(second.id, {}):
        return None
    wanted = first.graph.fixed(first.id) ^ second.graph.fixed(second.id)
    graphs = [finder.labelled(finder.with_fetches(one.graph, wanted), contents) for one in (first, second)]
    blame = Blame(graphs[0], graphs[1], _Trees(finder.store), key_of)
    rows = _rows(finder, first, second) if layers is None else _recorded(*layers)
    return weigh(blame, first.id, second.id, rows)


class _Trees:
    """Listings of the store by output; each read once."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._known: dict[str, Listing | None] = {}

    def __call__(self, output: str) -> Listing | None:
        if output not in self._known:
            self._known[output] = listing_of(self._store, parse_output(output))
        return self._known[output]


def _rows(finder: Finder, first: FoundDerivation, second: FoundDerivation) -> list[LayerRow]:
    blobs = [_blobs(finder.store, one) for one in (first, second)]
    return list(layer_rows(blobs[0], blobs[1], {**layer_names(first), **layer_names(second)}))


def _blobs(store: LocalStore, found: FoundDerivation) -> tuple[Blob, ...]:
    return image_layers(store, parse_output(found.graph.outputs[found.id]["out"]))


def _recorded(before: Mapping[str, Blob], after: Mapping[str, Blob]) -> list[LayerRow]:
    names = {blob[0]: name for layers in (before, after) for name, blob in layers.items()}
    return list(layer_rows(tuple(before.values()), tuple(after.values()), names))
