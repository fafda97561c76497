# SPDX-License-Identifier: Apache-2.0
"""By which path one thing needs another: the shortest, and everything that uses the other directly.

Core: no IO.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from derive.canonical import Digest
from derive.derivations.model import Platform
from derive.operands import ByDigest, Named
from derive.why.graph import Built, Fixed, Graph, Node, Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A step on a path: its node, and the role in which it uses the next one (empty for the last)."""

    node: Node
    role: str = ""


@dataclass(frozen=True, slots=True)
class Path:
    """From what depends to what it depends on; both are among the links."""

    links: tuple[Link, ...]

    @property
    def end(self) -> Node:
        """What is depended on."""
        return self.links[-1].node


Matches = Callable[[Node], bool]


def matcher(graph: Graph, wanted: Named | ByDigest) -> Matches:
    """Return whether a node is what an operand means: its name, package, file, upstream, patch, id or output."""
    match wanted:
        case ByDigest(prefix=prefix):
            return lambda node: any(one.startswith(prefix) for one in _digests(graph, node))
        case Named(name=name, platform=platform):
            return lambda node: _is_for(node, platform) and name in set(names_of(node))


def names_of(node: Node) -> Iterator[str]:
    """Yield everything that a step may be called: its name, package, file, upstream, patches."""
    yield node.name
    arguments = node.arguments
    if node.is_fetch:
        for key in ("name", "file", "locator", "repository", "upstream"):
            value = arguments.get(key)
            if isinstance(value, str):
                yield value
                yield value.rpartition("/")[2]
    expected = arguments if node.is_fetch else arguments.get("expected")
    if isinstance(expected, Mapping) and isinstance(expected.get("name"), str):
        yield str(expected["name"])
        yield f"{expected['name']}:{expected.get('architecture')}"
    if node.builder == "patch":
        for label in node.labels:
            yield label
            yield from label.removeprefix("patches/").split("/")


def _digests(graph: Graph, node: Node) -> Iterator[str]:
    yield node.id.hex
    yield from (text.rpartition(":")[2] for text in graph.outputs.get(node.id, {}).values())
    if node.is_fetch:
        yield from (str(node.arguments[key]) for key in ("sha256", "commit", "revision") if key in node.arguments)


def _is_for(node: Node, platform: Platform | None) -> bool:
    return platform is None or node.host in (platform, "any")


def shortest(graph: Graph, start: Digest, matches: Matches) -> Path | None:
    """Return the shortest path from a derivation to something that matches, other than itself; None without one."""
    return next(iter(_paths(graph, start, matches)), None)


def users(graph: Graph, start: Digest, matches: Matches) -> tuple[Path, ...]:
    """Return, for each step that uses something that matches and does not itself, the shortest path to it."""
    found: dict[tuple[Digest, Digest], Path] = {}
    for path in _paths(graph, start, matches):
        user, end = (link.node for link in path.links[-2:])
        if not matches(user):
            found.setdefault((user.id, end.id), path)
    return tuple(found.values())


def near(graph: Graph, start: Digest, name: str) -> tuple[str, ...]:
    """Return names in a closure that may have been meant."""
    known = {one for node in _all_nodes(graph, start) for one in names_of(node)}
    return tuple(get_close_matches(name, sorted(known), n=3))


def _all_nodes(graph: Graph, start: Digest) -> Iterator[Node]:
    yield from graph.closure(start)
    yield from (graph.fetches[one.output] for one in graph.fixed(start) if one.output in graph.fetches)


def _paths(graph: Graph, start: Digest, matches: Matches) -> Iterator[Path]:
    """Yield for each use of something that matches, nearest first, the shortest path that ends with that use."""
    came: dict[str, tuple[str, str] | None] = {start.hex: None}
    nodes: dict[str, Node] = {}
    first = graph.nodes.get(start)
    waiting = deque([] if first is None else [(start.hex, first)])
    while waiting:
        key, node = waiting.popleft()
        nodes[key] = node
        # An image names each layer twice: by its descriptor, which is the better name, and by its bytes.
        for role, reference in sorted(node.inputs.items(), key=lambda item: (item[0].startswith("blob."), item[0])):
            inner, inner_key = graph.node(reference), _key(reference)
            if inner is None:
                continue
            if matches(inner):
                yield Path((*_back(key, came, nodes, role), Link(node=inner)))
            if inner_key not in came:
                came[inner_key] = (key, role)
                waiting.append((inner_key, inner))


def _back(key: str, came: Mapping[str, tuple[str, str] | None], nodes: Mapping[str, Node], role: str) -> list[Link]:
    links = [Link(node=nodes[key], role=role)]
    while (step := came[key]) is not None:
        key, role = step
        links.append(Link(node=nodes[key], role=role))
    return links[::-1]


def _key(reference: Reference) -> str:
    match reference:
        case Built(derivation=key):
            return key.hex
        case Fixed(output=output):
            return output
