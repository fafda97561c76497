# SPDX-License-Identifier: Apache-2.0
"""How many bytes each cause moved between two images: of the files that differ, and of the layers that hold them.

Core: no IO. Trees are asked for by a function.

Every path that came, went or differs counts with the bytes of its file, once; a file that several causes reach counts
for each of them, and is said to be shared. What moved and was reached by no cause is a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from derive.canonical import Digest
from derive.derivations.model import TreeOutput, parse_output
from derive.images.split import is_native
from derive.trees.listing import Entry, File, Listing
from derive.trees.partition import leaves
from derive.why.blame import Blame
from derive.why.causes import Cause, Key, keyed_causes, walk
from derive.why.graph import Graph, Node
from derive.why.pull import LayerRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What a cause moved. ``size`` bytes of ``paths`` paths, of which other causes reach ``shared`` bytes too.

    ``layers`` are the names of the layers that it reached, ``packed`` their compressed bytes.
    """

    size: int = 0
    paths: int = 0
    shared: int = 0
    layers: tuple[str, ...] = ()
    packed: int = 0


@dataclass(frozen=True, slots=True)
class Weighed:
    """A cause, what it moved, and the paths of the image that differ through it."""

    cause: Cause
    weight: Weight
    paths: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Causeless:
    """Bytes that moved without a cause: paths of the image, or none where a layer or the whole moved.

    ``step`` is the name of the derivation whose output moved although everything that it reads is the same.
    """

    step: str
    derivation: Digest
    paths: tuple[bytes, ...]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """All that moved between two images. ``size`` and ``paths`` count each path once, ``packed`` each layer once.

    ``causes`` are sorted by bytes; ``idle`` moved ids and no byte. ``compared`` is False where a tree was not there:
    then sizes are of layers alone.
    """

    causes: tuple[Weighed, ...]
    idle: tuple[Cause, ...]
    causeless: tuple[Causeless, ...]
    size: int
    paths: int
    packed: int
    compared: bool = True


@dataclass(slots=True)
class _Tally:
    """What was reached, before it is summed up."""

    paths: dict[Key, list[bytes]] = field(default_factory=dict)
    rows: dict[Key, set[int]] = field(default_factory=dict)
    without: dict[Digest, list[bytes]] = field(default_factory=dict)
    shares: dict[bytes, int] = field(default_factory=dict)


def changed_leaves(before: Listing, after: Listing) -> dict[bytes, int]:
    """Return each leaf that differs, with the bytes of its file after, or before where it is gone."""
    old, new = dict(leaves(before)), dict(leaves(after))
    found: dict[bytes, int] = {}
    for path in old.keys() | new.keys():
        one, two = old.get(path), new.get(path)
        if one != two:
            found[path] = _size(two if two is not None else one)
    return dict(sorted(found.items()))


def weigh(blame: Blame, before: Digest, after: Digest, rows: Sequence[LayerRow]) -> Moved:
    """Return what moved between two images, given their derivations and layers; ``rows`` pair the layers."""
    both = blame.before | blame.after
    master = keyed_causes(walk(both, before, after, blame.before), blame.key_of)
    images = both.nodes[before], both.nodes[after]
    trees = _root(blame, blame.before, images[0]), _root(blame, blame.after, images[1])
    tally = _Tally()
    sizes: dict[bytes, int] = {}
    if trees[0] is not None and trees[1] is not None:
        sizes = changed_leaves(trees[0], trees[1])
        _follow(blame, images, (trees[0], trees[1]), sizes, tally)
    moved_rows = [row for row in rows if row.before != row.after]
    _layers(blame, images, moved_rows, sizes, tally)
    causes = {**blame.known, **master}
    reached = tally.paths.keys() | tally.rows.keys()
    lines = [
        Weighed(causes[key], _weight(key, tally, sizes, moved_rows), tuple(tally.paths.get(key, ())))
        for key in causes
        if key in reached
    ]
    config = blame.own(*images) - reached
    lines += [Weighed(causes[key], Weight()) for key in config if key in causes]
    idle = [cause for key, cause in master.items() if key not in reached and key not in config]
    order = sorted(lines, key=lambda one: (-one.weight.size, -one.weight.packed, one.cause.path))
    if not order and not tally.without and _unlike(blame, before, after) and not idle:
        tally.without[after] = []
    return Moved(
        causes=tuple(order),
        idle=tuple(idle),
        causeless=tuple(_causeless(tally, both, sizes)),
        size=sum(sizes.values()),
        paths=len(sizes),
        packed=sum(_packed(row) for row in moved_rows),
        compared=trees[0] is not None and trees[1] is not None,
    )


def _unlike(blame: Blame, before: Digest, after: Digest) -> bool:
    """Say whether one id gave two images: anything else may differ in its label alone."""
    gave = blame.before.outputs.get(before), blame.after.outputs.get(after)
    return before == after and None not in gave and gave[0] != gave[1]


def _follow(
    blame: Blame, images: tuple[Node, Node], trees: tuple[Listing, Listing], sizes: Mapping[bytes, int], tally: _Tally
) -> None:
    """Follow each path that differs down to its causes."""
    roots = [graph_root(image) for image in images]
    for path in sizes:
        places = [(root, path if path in tree else None) for root, tree in zip(roots, trees, strict=True)]
        found = blame.path(places[0], places[1])
        tally.shares[path] = len(found.causes)
        for key in found.causes:
            tally.paths.setdefault(key, []).append(path)
        for step in found.without:
            tally.without.setdefault(step, []).append(path)


def graph_root(image: Node) -> Digest:
    """Return the step that unites an image's layers."""
    from derive.why.graph import Built

    root = image.inputs["root"]
    assert isinstance(root, Built)
    return root.derivation


def _layers(
    blame: Blame, images: tuple[Node, Node], rows: Sequence[LayerRow], sizes: Mapping[bytes, int], tally: _Tally
) -> None:
    """Say which layers each cause reached: those of its paths, and those that it makes otherwise by itself."""
    steps = _layer_steps(blame.before, images[0]), _layer_steps(blame.after, images[1])
    for number, row in enumerate(rows):
        old = None if row.before is None else steps[0].get(row.before[0])
        new = None if row.after is None else steps[1].get(row.after[0])
        sides = ((blame.before, old), (blame.after, new))
        inside = {path for graph, node in sides if node is not None for path in _inside(blame, graph, node, sizes)}
        keys = {key for key, paths in tally.paths.items() if not inside.isdisjoint(paths)}
        found = None
        if old is not None and new is not None:
            keys |= blame.own(old, new)
            if not inside:
                found = blame.steps(old.id, new.id)
                keys |= found.causes
        for key in keys:
            tally.rows.setdefault(key, set()).add(number)
        for step in found.without if found is not None else ():
            tally.without.setdefault(step, [])


def _inside(blame: Blame, graph: Graph, layer: Node, sizes: Mapping[bytes, int]) -> Iterator[bytes]:
    """Yield the paths that differ and are in a layer: as its step chooses from its trees."""

    def tree_of(role: str) -> Mapping[bytes, Entry]:
        text = graph.output(layer.inputs[role]) if role in layer.inputs else None
        return (None if text is None else blame.trees(text)) or {}

    elsewhere, select = tree_of("elsewhere"), layer.arguments.get("select")
    patterns = select["patterns"] if isinstance(select, Mapping) else ()
    assert isinstance(patterns, Sequence)
    texts = [str(one) for one in patterns]
    for role in layer.inputs:
        for path, entry in tree_of(role).items() if role.startswith("tree.") else ():
            if path not in sizes or path in elsewhere:
                continue
            if not isinstance(select, Mapping) or is_native(path, entry, texts) is (select["fit"] is True):
                yield path


def _layer_steps(graph: Graph, image: Node) -> dict[str, Node]:
    """Return the steps that wrote an image's layers, by the layers' digests."""
    found: dict[str, Node] = {}
    for role, reference in image.inputs.items():
        node, text = graph.node(reference), graph.output(reference)
        if role.startswith("blob.") and node is not None and text is not None:
            found[text.removeprefix("flat:")] = node
    return found


def _root(blame: Blame, graph: Graph, image: Node) -> Listing | None:
    reference = image.inputs.get("root")
    text = None if reference is None else graph.output(reference)
    if text is None or not isinstance(parse_output(text), TreeOutput):
        return None
    return blame.trees(text)


def _weight(key: Key, tally: _Tally, sizes: Mapping[bytes, int], rows: Sequence[LayerRow]) -> Weight:
    paths = tally.paths.get(key, [])
    reached = [rows[number] for number in sorted(tally.rows.get(key, ()))]
    return Weight(
        size=sum(sizes[path] for path in paths),
        paths=len(paths),
        shared=sum(sizes[path] for path in paths if tally.shares[path] > 1),
        layers=tuple(row.name or str(row.number) for row in reached),
        packed=sum(_packed(row) for row in reached),
    )


def _packed(row: LayerRow) -> int:
    """Return the compressed bytes of a layer that moved: of the new one, or of one that is gone."""
    blob = row.after if row.after is not None else row.before
    return 0 if blob is None else blob[1]


def _causeless(tally: _Tally, both: Graph, sizes: Mapping[bytes, int]) -> Iterator[Causeless]:
    found = [
        Causeless(
            step=both.nodes[step].title if step in both.nodes else "a step that is not known here",
            derivation=step,
            paths=tuple(paths),
            size=sum(sizes[path] for path in paths),
        )
        for step, paths in tally.without.items()
    ]
    yield from sorted(found, key=lambda one: (-one.size, one.step, one.derivation))


def _size(entry: Entry | None) -> int:
    return entry.size if isinstance(entry, File) else 0
