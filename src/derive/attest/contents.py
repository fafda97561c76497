# SPDX-License-Identifier: Apache-2.0
"""What an image is made of, read from its closure and not from its files: packages, what we built, and the layers.

Core: no IO.

A **package** is an artifact that was fetched and lies in the image: what unpacks, patches, installs and joins it only
lays it out. What a sandbox made is a part of **our own**, as is all that is written in the project. The root of a
sandbox is only built with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Digest, encode, sha256
from derive.images.split import BASE, own_output, shared_output, shared_place
from derive.why.graph import Built, Fixed, Graph, Node, Reference

_OPAQUE = frozenset({"script", "kernel", "bytecode"})
_WITHIN: Mapping[str, frozenset[str]] = {"record": frozenset({"installed"})}
"""Inputs that lead to what others of the same step lead to: byte code of a wheel is no part besides the wheel."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A patch by its file's name, if that is known, and the digest of what it does."""

    file: str
    identity: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """An artifact in the image, by its fixed output, with the patches that were applied to it, in order.

    ``fetch`` is None where nobody knows any more what fetched it.
    """

    output: str
    fetch: Node | None
    patches: tuple[Applied, ...]

    @property
    def hex(self) -> str:
        """The artifact's hash."""
        return self.output.rpartition(":")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPart:
    """A tree that we built: the step that gave it, what it gave, the artifacts that it was made from, and patches."""

    node: Node
    output: str
    sources: tuple[str, ...]
    patches: tuple[Applied, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerContents:
    """A layer by its name and blob, with the packages and the own parts from which its files come."""

    name: str
    blob: str
    packages: tuple[str, ...]
    own: tuple[Digest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Packages by output, own parts by derivation, sources of own parts that are no packages, and layers, in order."""

    packages: Mapping[str, Package]
    own: Mapping[Digest, OwnPart]
    sources: Mapping[str, Package]
    layers: tuple[LayerContents, ...]


@dataclass(frozen=True, slots=True)
class _Reached:
    """What lies in a tree: packages with the patches on each, and the parts of our own."""

    packages: Mapping[str, tuple[Applied, ...]]
    own: frozenset[Digest]


_NOTHING = _Reached({}, frozenset())


def contents_of(graph: Graph, image: Digest, blobs: Collection[Digest]) -> Contents:
    """Return what an image is made of; ``blobs`` are those of the layers that its manifest names."""
    reached = _reach(graph, image)
    layers: list[LayerContents] = []
    packages: dict[str, tuple[Applied, ...]] = {}
    own: set[Digest] = set()
    for name, blob in _stacked(graph, image):
        output = graph.output(blob) or ""
        if isinstance(blob, Built):
            if Digest.parse(output.partition(":")[2]) not in blobs:
                continue  # an empty one, which was left out
            inside = _union(_given(graph, one, reached) for one in _numbered(_node(graph, blob), "tree."))
        else:
            inside = _Reached({blob.output: ()}, frozenset())
        own |= inside.own
        packages |= _union([_Reached(packages, frozenset()), inside]).packages
        layers.append(
            LayerContents(
                name=name,
                blob=output,
                packages=tuple(sorted(inside.packages)),
                own=tuple(sorted(inside.own)),
            )
        )
    parts = {key: _own(graph, key) for key in sorted(own)}
    sources = sorted({output for part in parts.values() for output in part.sources} - packages.keys())
    return Contents(
        packages={output: _package(graph, output, packages[output]) for output in sorted(packages)},
        own=parts,
        sources={output: _package(graph, output, ()) for output in sources},
        layers=tuple(layers),
    )


def _stacked(graph: Graph, image: Digest) -> list[tuple[str, Reference]]:
    """Return an image's layers by name, those of the images that it is made upon before its own.

    A base that was fetched stands there as one, by its manifest: nobody here knows what is in which of its layers.
    """
    found: list[tuple[str, Reference]] = []
    node: Node | None = graph.nodes[image]
    while node is not None:
        prefix = "" if node.id == image else f"{node.name} "
        own = [(_node(graph, blob).name, blob) for blob in _numbered(node, "blob.")]
        found[:0] = [(prefix + name.removeprefix(f"{node.name} layer "), blob) for name, blob in own]
        base = node.inputs.get("base")
        if isinstance(base, Fixed):
            found.insert(0, ("base", base))
        node = graph.node(base) if isinstance(base, Built) else None
    return found


def _reach(graph: Graph, target: Digest) -> dict[Digest, _Reached]:
    """Return what lies in the tree that each step of a closure gives."""
    found: dict[Digest, _Reached] = {}
    for node in _inputs_first(graph, target):
        below = _union(_given(graph, one, found) for one in _laid_out(node))
        if node.builder == "patch":
            applied = patches_of(node)
            below = _Reached({output: (*before, *applied) for output, before in below.packages.items()}, below.own)
        found[node.id] = below if below.packages else _Reached({}, frozenset({node.id}))
    return found


def _given(graph: Graph, reference: Reference, found: Mapping[Digest, _Reached]) -> _Reached:
    match reference:
        case Fixed(output=output):
            return _Reached({output: ()}, frozenset())
        case Built(derivation=key, output=output):
            below = found.get(key, _NOTHING)
            node = graph.nodes.get(key)
            if node is None or node.builder != "split" or node.arguments.get("by") != "package" or output == BASE:
                return below
            inside = {one: patches for one, patches in below.packages.items() if _place(graph, node, one) == output}
            return _Reached(inside, below.own)


def _place(graph: Graph, split: Node, package: str) -> str:
    """Return the output of a split in which a package's files are."""
    fetch = graph.fetches.get(package)
    own, shared = split.arguments.get("own"), split.arguments.get("shared")
    name = str(fetch.arguments.get("name")) if fetch is not None else ""
    if isinstance(own, list | tuple) and name in own:
        return own_output(name)
    return shared_output(shared_place(name, shared)) if isinstance(shared, int) and shared > 0 else BASE


def _laid_out(node: Node) -> Iterator[Reference]:
    """Yield the inputs whose files a step lays out."""
    if node.builder not in _OPAQUE:
        roles = _WITHIN.get(node.builder, node.inputs.keys())
        yield from (node.inputs[role] for role in sorted(node.inputs) if role in roles)


def _inputs_first(graph: Graph, target: Digest) -> Iterator[Node]:
    """Yield a closure's nodes, each after those that it is built from; however long a chain, nothing recurses."""
    seen = {target}
    stack = [(graph.nodes[target], iter(sorted(graph.nodes[target].inputs.items())))]
    while stack:
        node, rest = stack[-1]
        for _, reference in rest:
            if isinstance(reference, Built) and reference.derivation not in seen:
                seen.add(reference.derivation)
                below = graph.nodes.get(reference.derivation)
                if below is not None:
                    stack.append((below, iter(sorted(below.inputs.items()))))
                    break
        else:
            stack.pop()
            yield node


def _union(parts: Iterable[_Reached]) -> _Reached:
    packages: dict[str, tuple[Applied, ...]] = {}
    own: set[Digest] = set()
    for part in parts:
        own |= part.own
        for output, patches in part.packages.items():
            packages[output] = tuple(dict.fromkeys((*packages.get(output, ()), *patches)))
    return _Reached(packages, frozenset(own))


def _own(graph: Graph, key: Digest) -> OwnPart:
    node = graph.nodes[key]
    sources: set[str] = set()
    patches: dict[Applied, None] = {}
    for below in _made_from(graph, key):
        sources |= {one.output for role, one in below.inputs.items() if isinstance(one, Fixed) and role != "root"}
        patches |= dict.fromkeys(patches_of(below))
    return OwnPart(
        node=node,
        output=graph.output(Built(key, "out")) or "",
        sources=tuple(sorted(sources)),
        patches=tuple(patches),
    )


def _made_from(graph: Graph, target: Digest) -> Iterator[Node]:
    """Yield a derivation and those below it, but for what is only built with."""
    seen = {target}
    waiting = [target]
    while waiting:
        node = graph.nodes.get(waiting.pop())
        if node is None:
            continue
        yield node
        for role, reference in sorted(node.inputs.items()):
            is_tool = role == "root" and node.builder in _OPAQUE
            if isinstance(reference, Built) and reference.derivation not in seen and not is_tool:
                seen.add(reference.derivation)
                waiting.append(reference.derivation)


def patches_of(node: Node) -> tuple[Applied, ...]:
    """Return what a step applies; nothing for any but the patch step."""
    series = node.arguments.get("series")
    if node.builder != "patch" or not isinstance(series, list | tuple):
        return ()
    names = node.labels if len(node.labels) == len(series) else ("",) * len(series)
    return tuple(Applied(name, sha256(encode(document))) for name, document in zip(names, series, strict=True))


def _package(graph: Graph, output: str, patches: tuple[Applied, ...]) -> Package:
    return Package(output=output, fetch=graph.fetches.get(output), patches=patches)


def _numbered(node: Node, prefix: str) -> list[Reference]:
    """Return a node's inputs whose roles are a prefix and a number, in their order."""
    numbers = {int(role.removeprefix(prefix)): one for role, one in node.inputs.items() if role.startswith(prefix)}
    return [numbers[number] for number in sorted(numbers)]


def _node(graph: Graph, reference: Reference) -> Node:
    node = graph.node(reference)
    assert node is not None, "the closure of an image that was derived is whole"
    return node
