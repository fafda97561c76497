# SPDX-License-Identifier: Apache-2.0
"""What a root needs to be run, rebuilt or audited, and what of a store is live for it.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

from derive.canonical import Digest
from derive.derivations.model import FlatOutput, Output, TreeOutput, parse_output

Document: TypeAlias = Mapping[str, object]
"""A derivation's canonical document, parsed."""

_SANDBOXED = ("script/", "bytecode/", "kernel/")


class Level(Enum):
    """How much of each root's closure stays; each level holds the ones before it."""

    RUN = "run"
    REBUILD = "rebuild"
    AUDIT = "audit"


class Ability(Enum):
    """Whether something can be done with a root: before and after, before only, or not even before."""

    YES = "yes"
    LOST = "lost"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What each ability takes: outputs that must be present.

    ``run``: manifest, config and layers. ``rebuild``, offline: every artifact that was fetched. ``roots``: the trees
    that sandboxes are started in, which spare the most work and are kept with the artifacts. ``audit``: every output.
    ``gaps`` counts the derivations that the closure names and the store does not know; ``derivations`` are those known,
    ``forgotten`` counts those of them whose outputs nobody knows any more.
    """

    run: frozenset[Output]
    rebuild: frozenset[Output]
    roots: frozenset[Output]
    audit: frozenset[Output]
    derivations: frozenset[Digest]
    gaps: int
    forgotten: int

    def kept(self, level: Level) -> frozenset[Output]:
        """Return what stays at a level."""
        match level:
            case Level.RUN:
                return self.run
            case Level.REBUILD:
                return self.run | self.rebuild | self.roots
            case Level.AUDIT:
                return self.run | self.rebuild | self.roots | self.audit

    def can(self, level: Level, is_there: Callable[[Output], bool]) -> bool:
        """Say whether a root can be run, rebuilt without a network, or audited with what is there."""
        match level:
            case Level.RUN:
                return all(map(is_there, self.run))
            case Level.REBUILD:
                return not self.gaps and bool(self.derivations) and all(map(is_there, self.rebuild))
            case Level.AUDIT:
                whole = not self.forgotten and self.can(Level.REBUILD, is_there)
                return whole and all(map(is_there, self.audit))


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A derivation: the derivations below it, the artifacts that it names, and where its sandbox starts."""

    below: tuple[Digest, ...]
    fixed: tuple[Output, ...]
    sandbox: tuple[tuple[Digest, str], ...]
    outputs: Mapping[str, Output]


def node_of(
    document: Document, outputs: Mapping[str, Output], fetched: Mapping[Output, Iterable[Output]] = MappingProxyType({})
) -> Node:
    """Return a derivation's document as a node.

    ``outputs`` is what it gave, empty when nobody knows; ``fetched`` what came together with an artifact.
    """
    below: list[Digest] = []
    fixed: list[Output] = []
    sandbox: list[tuple[Digest, str]] = []
    builder, inputs = str(document["builder"]), document["inputs"]
    assert isinstance(inputs, Mapping)
    for role, value in inputs.items():
        if "fixed" in value:
            artifact = parse_output(value["fixed"])
            fixed += fetched.get(artifact, (artifact,))
            continue
        below.append(Digest(value["derivation"]))
        if role == "root" and builder.startswith(_SANDBOXED):
            sandbox.append((below[-1], value["output"]))
    if builder.startswith("fetch-"):
        fixed += outputs.values()
    return Node(below=tuple(below), fixed=tuple(fixed), sandbox=tuple(sandbox), outputs=outputs)


def needs_of(run: Iterable[Output], targets: Iterable[Digest], graph: Mapping[Digest, Node]) -> Needs:
    """Return what a root needs: ``run`` is what it is, ``targets`` the derivations that gave it."""
    seen: set[Digest] = set()
    rebuild: set[Output] = set()
    roots: set[Output] = set()
    audit: set[Output] = set()
    gaps = forgotten = 0
    waiting = list(targets)
    while waiting:
        key = waiting.pop()
        if key in seen:
            continue
        seen.add(key)
        node = graph.get(key)
        if node is None:
            gaps += 1
            continue
        waiting += node.below
        forgotten += not node.outputs
        rebuild.update(node.fixed)
        audit.update(node.outputs.values())
        for above, name in node.sandbox:
            if above in graph and name in graph[above].outputs:
                roots.add(graph[above].outputs[name])
    return Needs(
        run=frozenset(run),
        rebuild=frozenset(rebuild),
        roots=frozenset(roots),
        audit=frozenset(audit),
        derivations=frozenset(seen & graph.keys()),
        gaps=gaps,
        forgotten=forgotten,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What stays: trees, and blobs with those under the trees."""

    trees: frozenset[Digest]
    blobs: frozenset[Digest]

    def holds(self, output: Output) -> bool:
        """Say whether an output stays."""
        match output:
            case TreeOutput(digest):
                return digest in self.trees
            case FlatOutput(digest):
                return digest in self.blobs


def live_of(
    outputs: Iterable[Output],
    tree_blobs: Mapping[Digest, tuple[Digest, ...]],
    *,
    trees: Iterable[Digest] = (),
    blobs: Iterable[Digest] = (),
) -> Live:
    """Return what stays for outputs, and for trees and blobs that are named besides."""
    all_trees, all_blobs = set(trees), set(blobs)
    for output in outputs:
        (all_trees if isinstance(output, TreeOutput) else all_blobs).add(output.digest)
    for tree in all_trees:
        all_blobs.update(tree_blobs.get(tree, ()))
    return Live(trees=frozenset(all_trees), blobs=frozenset(all_blobs))


def ability(needs: Needs, level: Level, before: Callable[[Output], bool], after: Callable[[Output], bool]) -> Ability:
    """Compare what can be done before with what can be done after."""
    if not needs.can(level, before):
        return Ability.NO
    return Ability.YES if needs.can(level, after) else Ability.LOST
