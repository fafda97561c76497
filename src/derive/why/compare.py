# SPDX-License-Identifier: Apache-2.0
"""What moved between two derivations, closures, images or trees.

Edge: the store, through the finder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Json, encode
from derive.derivations.model import FlatOutput, Output, TreeOutput, parse_output
from derive.errors import Corrupt, Missing
from derive.images.oci import DERIVATION_LABEL, named_blobs
from derive.store.local import LocalStore
from derive.trees.diff import Change, diff, first_difference
from derive.trees.listing import File, Listing
from derive.why.blobs import small_document
from derive.why.causes import align
from derive.why.closures import PackageMoved, contents, packages_moved
from derive.why.differences import ABSENT, Difference, ValueMoved, own_differences, values_moved
from derive.why.find import Finder, Found, FoundBlob, FoundDerivation, FoundTree
from derive.why.graph import Node
from derive.why.pull import Blob, LayerRow, Pull, layer_rows, pull


@dataclass(frozen=True, slots=True)
class InputRow:
    """An input that two derivations have otherwise: what each says of it."""

    role: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What moved. ``sizes`` are bytes of the outputs, ``fetched`` bytes of all artifacts below, before and after.

    ``pull`` is what of the second image someone must pull who has the first.
    ``notes`` say what could not be compared. ``trees`` are the two trees whose paths were compared, if any were.
    """

    before: str
    after: str
    same: bool
    fields: tuple[Difference, ...] = ()
    inputs: tuple[InputRow, ...] = ()
    packages: tuple[PackageMoved, ...] = ()
    fetched: tuple[int, int] | None = None
    layers: tuple[LayerRow, ...] = ()
    pull: Pull | None = None
    config: tuple[ValueMoved, ...] = ()
    paths: tuple[Change, ...] = ()
    trees: tuple[Listing, Listing] | None = None
    sizes: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Image:
    config: Mapping[str, Json]
    layers: tuple[Blob, ...]
    documents: int  # bytes of manifest and config


def compare(finder: Finder, before: Found, after: Found) -> Comparison:
    """Return what moved between two things that were found; they need not be of one kind."""
    if isinstance(before, FoundDerivation) and isinstance(after, FoundDerivation):
        return _derivations(finder, before, after)
    outputs = _output(before), _output(after)
    return _with_outputs(finder, _title(before), _title(after), outputs)


def _derivations(finder: Finder, before: FoundDerivation, after: FoundDerivation) -> Comparison:
    graph = before.graph | after.graph
    graph = finder.with_fetches(graph, graph.fixed(before.id) | graph.fixed(after.id))
    if before.node.builder == after.node.builder == "patch":
        graph = finder.labelled(graph)
    old, new = graph.nodes[before.id], graph.nodes[after.id]
    made_of = contents(graph, before.id), contents(graph, after.id)
    inputs = tuple(
        InputRow(role, *(_reference(graph.name(one), graph.output(one)) if one else None for one in (left, right)))
        for role, left, right in align(graph, old, new)
        if left != right and not (new.builder == "image" and role.startswith("blob."))  # beside its descriptor
    )
    base = _with_outputs(
        finder,
        f"{old.title}, drv:{old.id.short}",
        f"{new.title}, drv:{new.id.short}",
        (_output(before), _output(after)),
        (_root(before), _root(after)),
        {**layer_names(before), **layer_names(after)},
    )
    return Comparison(
        before=base.before,
        after=base.after,
        same=old.id == new.id,
        fields=own_differences(old, new),
        inputs=inputs,
        packages=tuple(packages_moved(*made_of)),
        fetched=(made_of[0].size, made_of[1].size),
        layers=base.layers,
        pull=base.pull,
        config=base.config,
        paths=base.paths,
        trees=base.trees,
        sizes=base.sizes,
        notes=base.notes,
    )


def _reference(name: str | None, output: str | None) -> str:
    """Write what an input is, and what it came out as."""
    kind, _, digest = (output or "").partition(":")
    known = f"{kind}:{digest.removeprefix('sha256:')[:12]}" if digest else "not built"
    return f"{name or 'a step that is not known here'}, {known}"


def _with_outputs(
    finder: Finder,
    before: str,
    after: str,
    outputs: tuple[Output | None, Output | None],
    roots: tuple[Output | None, Output | None] = (None, None),
    names: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare two outputs: images by their parts and what they are made of, trees by path, files by their bytes."""
    store, given = finder.store, outputs
    notes = [f"{title} is not built" for title, one in zip((before, after), outputs, strict=True) if one is None]
    images = _image(store, outputs[0]), _image(store, outputs[1])
    layers: tuple[LayerRow, ...] = ()
    to_pull = None
    config: tuple[ValueMoved, ...] = ()
    if images[0] is not None and images[1] is not None:
        layers = tuple(layer_rows(images[0].layers, images[1].layers, names))
        to_pull = pull(images[0].layers, images[1].layers, 0 if outputs[0] == outputs[1] else images[1].documents)
        config = tuple(one for one in _config(images[0], images[1]) if isinstance(one, ValueMoved))
        outputs = roots
    listings = listing_of(store, outputs[0]), listing_of(store, outputs[1])
    trees = None
    if listings[0] is not None and listings[1] is not None:
        trees = listings[0], listings[1]
    elif outputs[0] is not None and outputs[1] is not None and outputs[0] != outputs[1]:
        notes += list(_unlike(store, (before, after), outputs))
    return Comparison(
        before=before,
        after=after,
        same=given[0] is not None and given[0] == given[1],
        layers=layers,
        pull=to_pull,
        config=config,
        paths=() if trees is None else diff(*trees),
        trees=trees,
        sizes=None if trees is None else (trees[0].size, trees[1].size),
        notes=tuple(notes),
    )


def _unlike(store: LocalStore, titles: tuple[str, str], outputs: tuple[Output | None, ...]) -> Iterator[str]:
    """Say how two outputs differ that are not both trees of the store."""
    files = [one.digest for one in outputs if isinstance(one, FlatOutput) and store.has_blob(one.digest)]
    if len(files) == 2:
        offset = first_difference(store.read_blob(files[0]), store.read_blob(files[1]))
        sizes = " and ".join(str(store.blob_size(one)) for one in files)
        yield f"two files of {sizes} bytes, which differ first at byte {offset}"
        return
    for title, one in zip(titles, outputs, strict=True):
        if isinstance(one, TreeOutput) and listing_of(store, one) is None:
            yield f"the tree of {title} is not in the store: no path of it can be compared"
        elif isinstance(one, FlatOutput):
            yield f"{title} is one file" + ("" if store.has_blob(one.digest) else ", and not in the store")


def _title(found: Found) -> str:
    match found:
        case FoundDerivation():
            return f"{found.node.title}, drv:{found.id.short}"
        case FoundTree(digest=digest):
            return f"tree:{digest.short}"
        case FoundBlob(digest=digest):
            return f"sha256:{digest.short}"


def _output(found: Found) -> Output | None:
    match found:
        case FoundDerivation():
            text = found.graph.outputs.get(found.id, {}).get("out")
            return None if text is None else parse_output(text)
        case FoundTree(digest=digest):
            return TreeOutput(digest)
        case FoundBlob(digest=digest):
            return FlatOutput(digest)


def _root(found: FoundDerivation) -> Output | None:
    """Return the union of an image's layers."""
    node: Node = found.node
    if node.builder != "image" or "root" not in node.inputs:
        return None
    text = found.graph.output(node.inputs["root"])
    return None if text is None else parse_output(text)


def listing_of(store: LocalStore, output: Output | None) -> Listing | None:
    """Return a tree of the store; None for what is no tree, or is not there."""
    if not isinstance(output, TreeOutput):
        return None
    try:
        return store.listing(output.digest)
    except Missing:
        return None


def _image(store: LocalStore, output: Output | None) -> _Image | None:
    """Return an image's config and layers; None for what is no image, or is not all there."""
    if not isinstance(output, FlatOutput) or (manifest := small_document(store, output.digest)) is None:
        return None
    try:
        named = named_blobs(encode(manifest))
    except Corrupt:
        return None
    config = small_document(store, named[0].digest)
    layers = tuple((str(one.digest), one.size) for one in named[1:])
    size = store.blob_size(output.digest) + named[0].size
    return None if config is None else _Image(config, layers, size)


def image_layers(store: LocalStore, output: Output | None) -> tuple[Blob, ...]:
    """Return the layers of an image in their order; none for what is no image, or is not all there."""
    found = _image(store, output)
    return () if found is None else found.layers


def layer_names(found: FoundDerivation) -> dict[str, str]:
    """Return what the layers of an image are called in its file, by their digests."""
    names: dict[str, str] = {}
    for role, reference in found.node.inputs.items():
        layer = found.graph.node(reference) if role.startswith("blob.") else None
        text = found.graph.output(reference)
        if layer is not None and text is not None:
            names[text.removeprefix("flat:")] = layer.name.partition(" layer ")[2]
    return names


def _config(before: _Image, after: _Image) -> Iterator[Difference]:
    """Yield where two configs differ, but for what follows from the layers."""
    keys = sorted((before.config.keys() | after.config.keys()) - {"rootfs", "history"})
    for key in keys:
        for one in values_moved(key, before.config.get(key, ABSENT), after.config.get(key, ABSENT)):
            if not (isinstance(one, ValueMoved) and one.place.endswith(DERIVATION_LABEL)):
                yield one


def sizes_of(change: Change, trees: tuple[Listing, Listing]) -> tuple[int, int]:
    """Return the bytes of the file at a path before and after; 0 where there is none."""
    old, new = (tree.get(change.path) for tree in trees)
    return (old.size if isinstance(old, File) else 0, new.size if isinstance(new, File) else 0)
