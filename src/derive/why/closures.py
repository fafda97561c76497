# SPDX-License-Identifier: Apache-2.0
"""What two closures are made of: the artifacts of the lock that are in each, and how they moved.

Core: no IO.

What a sandbox's root is made of is only built with: no byte of it need be in the output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from derive.canonical import Digest
from derive.why.differences import Artifact, ArtifactMoved, artifact_moved, artifact_of
from derive.why.graph import Built, Fixed, Graph, subject

_SANDBOXED = frozenset({"script", "bytecode", "kernel"})


@dataclass(frozen=True, slots=True)
class PackageMoved:
    """An artifact that moved; ``to_build`` when it is only built with."""

    moved: ArtifactMoved
    to_build: bool


Key: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """The artifacts of a closure by what they are about: of the output, and of what it is built with.

    ``size`` is the bytes of all of them as they are fetched, each once.
    """

    inside: Mapping[Key, Artifact]
    to_build: Mapping[Key, Artifact]
    size: int


def contents(graph: Graph, target: Digest) -> Contents:
    """Return the artifacts below a derivation."""
    roots = {node.inputs.get("root") for node in graph.closure(target) if node.builder in _SANDBOXED}
    tools = {fixed for below in roots if isinstance(below, Built) for fixed in graph.fixed(below.derivation)}
    everything = _artifacts(graph, graph.fixed(target))
    return Contents(
        inside=_artifacts(graph, _fixed(graph, target)),
        to_build=_artifacts(graph, tools),
        size=sum(artifact.size for artifact in everything.values()),
    )


def _artifacts(graph: Graph, fixed: Iterable[Fixed]) -> dict[Key, Artifact]:
    found: dict[Key, Artifact] = {}
    for one in sorted(fixed, key=lambda one: one.output):
        node = graph.fetches.get(one.output)
        key = (one.output,) if node is None else subject(node)
        while key in found:  # a closure may hold two versions of one thing
            key = (*key, "")
        found[key] = Artifact(one.output) if node is None else artifact_of(node)
    return found


def packages_moved(before: Contents, after: Contents) -> Iterator[PackageMoved]:
    """Yield the artifacts that came, went or moved: those that the output is made of first, then by name.

    One that went beside one of the same name that came, for another architecture, moved.
    """
    inside = list(_moved(before.inside, after.inside))
    yield from (PackageMoved(one, to_build=False) for one in inside)
    for one in _moved(before.to_build, after.to_build):
        if one not in inside:
            yield PackageMoved(one, to_build=True)


def _moved(before: Mapping[Key, Artifact], after: Mapping[Key, Artifact]) -> Iterator[ArtifactMoved]:
    found = {key: (before.get(key), after.get(key)) for key in before.keys() | after.keys()}
    went = {_name(key): key for key, (_, new) in found.items() if new is None}
    for key in sorted(key for key, (old, _) in found.items() if old is None):
        other = went.pop(_name(key), None)
        if other is not None:
            found[key] = found.pop(other)[0], found[key][1]
    for _, (old, new) in sorted(found.items()):
        moved = artifact_moved(old, new)
        if moved is not None:
            yield moved


def _name(key: Key) -> Key:
    """Return what an artifact is called, whatever architecture it is for; a wheel's tags end its key."""
    return key[:2] if key[0] in ("fetch-deb", "fetch-wheel") else key


def _fixed(graph: Graph, target: Digest) -> frozenset[Fixed]:
    """Return the fixed inputs below a derivation, but for those of sandboxes' roots."""
    found: set[Fixed] = set()
    seen = {target}
    waiting = deque([target])
    while waiting:
        node = graph.nodes.get(waiting.popleft())
        for role, reference in node.inputs.items() if node is not None else ():
            if node is not None and node.builder in _SANDBOXED and role == "root":
                continue
            match reference:
                case Fixed():
                    found.add(reference)
                case Built(derivation=key) if key not in seen:
                    seen.add(key)
                    waiting.append(key)
                case Built():
                    pass
    return frozenset(found)
