# SPDX-License-Identifier: Apache-2.0
"""Why one thing needs another: a step, a package, a patch, or the file at a path of its output.

Edge: the store, through the finder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from derive.derivations.model import TreeOutput, parse_output
from derive.errors import InputErrors, Missing
from derive.operands import ByDigest, Named, Operand, Released, Working, parse_operand
from derive.store.local import LocalStore
from derive.trees.listing import Directory, Entry, Listing, Symlink
from derive.why.find import Finder, FoundDerivation
from derive.why.graph import Graph, Node
from derive.why.origin import source
from derive.why.path import Link, Path, matcher, near, shortest, users
from derive.why.render import printable, text_of

_LINKS = 40  # as many as the kernel follows


@dataclass(frozen=True, slots=True)
class Needed:
    """The paths found, and without any the reason."""

    paths: tuple[Path, ...]
    reason: str = ""


def why_needed(finder: Finder, wanted: str, inside: Operand, *, everything: bool = False) -> Needed:
    """Return the shortest path from one thing to another that it needs; with ``everything`` one for each direct user.

    ``wanted`` is an operand, the name of a package, file, upstream or patch, or an absolute path in the output.

    Raises:
        InputErrors, Missing: where either cannot be found, or the output whose path is asked about is not there.
    """
    found = finder.current(inside)
    if wanted.startswith("/"):
        return _of_file(finder, found, wanted)
    graph = finder.with_fetches(found.graph, found.graph.fixed(found.id))
    operand = _operand(wanted)
    if isinstance(operand, Named):
        graph = finder.labelled(graph)
    matches = matcher(graph, operand)
    if everything:
        paths = users(graph, found.id, matches)
    else:
        nearest = shortest(graph, found.id, matches)
        paths = () if nearest is None else (nearest,)
    if paths:
        return Needed(paths)
    if not graph.is_whole(found.id):
        message = f"some steps below {found.node.title} are not known to this store: whether it needs that, neither"
        raise Missing(message, hint="derive it again here, or ask about what the project makes of its name now")
    meant = near(graph, found.id, wanted)
    hint = f"; it needs {', '.join(meant)}" if meant else ""
    return Needed((), printable(f"{found.node.title} does not need {wanted}{hint}"))


def _operand(wanted: str) -> Named | ByDigest:
    kind, separator, _ = wanted.partition(":")
    if separator and kind not in ("image", "drv", "tree", "sha256", "release"):
        return Named(wanted.encode("utf-8", "replace").decode())  # a package of an architecture
    operand = parse_operand(wanted)
    if isinstance(operand, Released):
        raise InputErrors.one(f"{operand} is in nothing", hint="name what is to be found in it: why X --in RELEASE")
    if isinstance(operand, Working):
        raise InputErrors.one("the working tree is in nothing", hint="name what is to be found in it")
    return operand


def _of_file(finder: Finder, found: FoundDerivation, wanted: str) -> Needed:
    path = wanted.encode("utf-8", "surrogateescape").strip(b"/")
    graph = finder.with_fetches(found.graph, found.graph.fixed(found.id))
    links: list[Link] = []
    node: Node | None = found.node
    if node is not None and node.builder == "image":
        links.append(Link(node=node, role="root"))
        node = graph.node(node.inputs["root"])
    if node is None:
        raise Missing(f"the tree of {found.node.title} is not known to this store", hint="derive it again")
    listing = _tree(finder.store, graph, node)
    if listing is None:
        raise Missing(f"the tree of {node.title} is not in the store", hint="derive it again")
    path = _resolved(listing, path)
    if path not in listing or isinstance(listing[path], Directory):
        what = "is a folder, which many things may give" if path in listing else "is not there"
        return Needed((), printable(f"/{text_of(path)} {what}, in {found.node.title}"))
    links += _origin(finder.store, graph, node, path, listing[path])
    return Needed((Path(tuple(links)),))


def _origin(store: LocalStore, graph: Graph, node: Node, path: bytes, entry: Entry) -> Iterator[Link]:
    """Yield the steps that a file came through, to the one that made it or fetched what it came in."""
    while True:
        inputs = {role: graph.node(reference) for role, reference in sorted(node.inputs.items())}
        fetched = [(role, inner) for role, inner in inputs.items() if inner is not None and inner.is_fetch]
        if fetched:
            yield Link(node=node, role=fetched[0][0])
            yield Link(node=fetched[0][1])
            return
        trees = {role: _tree(store, graph, inner) for role, inner in inputs.items() if inner is not None}
        found = source(node, {role: tree for role, tree in trees.items() if tree is not None}, path, entry)
        inner = None if found is None else inputs[found[0]]
        if found is None or inner is None:
            yield Link(node=node)
            return
        yield Link(node=node, role=found[0])
        node, path = inner, found[1]


def _tree(store: LocalStore, graph: Graph, node: Node) -> Listing | None:
    text = graph.outputs.get(node.id, {}).get("out")
    output = None if text is None else parse_output(text)
    if not isinstance(output, TreeOutput):
        return None
    try:
        return store.listing(output.digest)
    except Missing:
        return None


def _resolved(listing: Listing, path: bytes) -> bytes:
    """Follow the links among the folders above a path, as a program in the tree would."""
    done, waiting = b"", path.split(b"/")
    for _ in range(_LINKS * 16):
        if len(waiting) < 2:
            break
        part = waiting.pop(0)
        if part in (b"", b"."):
            continue
        if part == b"..":
            done = done.rpartition(b"/")[0]
            continue
        here = f"{done.decode('latin-1')}/{part.decode('latin-1')}".lstrip("/").encode("latin-1")
        entry = listing.get(here)
        if isinstance(entry, Symlink):
            if entry.target.startswith(b"/"):
                done = b""
            waiting = [*entry.target.strip(b"/").split(b"/"), *waiting]
        else:
            done = here
    return b"/".join(part for part in (done, *waiting) if part)
