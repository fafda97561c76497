# SPDX-License-Identifier: Apache-2.0
"""What caused one path of two images to differ: both are followed down together to where they part.

Core: no IO. Trees are asked for by a function.

A path that a step passes on is looked for in the input that it came from. Where it was made by the step itself, the
causes are those of all that the step reads, but for steps of which more is known: a patch changes the files that its
hunks name, byte code follows from its own source. A step whose inputs came out the same, and whose output did not, is
without a cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from derive.canonical import Digest
from derive.trees.listing import Entry, Listing
from derive.why.causes import Cause, Key, align, came_or_went, keyed_causes, walk
from derive.why.differences import (
    Difference,
    HunkMoved,
    OperationMoved,
    PatchAdded,
    PatchMoved,
    PatchRemoved,
    own_differences,
)
from derive.why.graph import Built, Graph, Node, Reference, subject
from derive.why.origin import Names, source

KeyOf = Callable[[tuple[str, ...], Difference], Key]
Trees = Callable[[str], Listing | None]
Place = tuple[Digest, bytes | None]
"""A step, and a path of its output; None where its output has no such path, or none is looked at."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What one path leads to: causes, and steps whose output moved without one."""

    causes: frozenset[Key] = frozenset()
    without: frozenset[Digest] = frozenset()

    def __or__(self, other: Reached) -> Reached:
        return Reached(self.causes | other.causes, self.without | other.without)

    def __bool__(self) -> bool:
        return bool(self.causes or self.without)


_NOTHING = Reached()


@dataclass(slots=True)
class Blame:
    """Two graphs, of which each knows what its own steps gave; ``trees`` returns a tree, None where it is not there.

    ``known`` are the causes by their keys, as far as they were met.
    """

    before: Graph
    after: Graph
    trees: Trees
    key_of: KeyOf
    known: dict[Key, Cause] = field(default_factory=dict)
    _both: Graph = field(init=False)
    _names: Names = field(default_factory=Names, init=False)
    _causes: dict[tuple[Digest, Digest], frozenset[Key]] = field(default_factory=dict, init=False)
    _aligned: dict[tuple[Digest, Digest], list[tuple[str, Reference | None, Reference | None]]] = field(
        default_factory=dict, init=False
    )
    _roles: dict[tuple[bool, Digest, bool], dict[str, Listing]] = field(default_factory=dict, init=False)
    _given: dict[bool, frozenset[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Unite both graphs: an id says the same of a step in either."""
        self._both = self.before | self.after

    def path(self, before: Place, after: Place) -> Reached:
        """Return what made a path of one step's output differ from a path of another's."""
        (old_id, old_path), (new_id, new_path) = before, after
        old, new = self._both.nodes.get(old_id), self._both.nodes.get(new_id)
        if old is None or new is None:
            return self.steps(old_id, new_id)
        if self._gave(old_id, new_id):
            return _NOTHING
        came = None if old_path is None else self._source(self.before, old, old_path)
        went = None if new_path is None else self._source(self.after, new, new_path)
        found = self._below(old, new, came, went)
        made_here = (came is None and old_path is not None) or (went is None and new_path is not None)
        if made_here or not found:
            found |= self._made(old, new, old_path, new_path)
        return found

    def steps(self, before: Digest, after: Digest) -> Reached:
        """Return what made the output of one step differ from another's, whichever path is meant."""
        keys = self.live(before, after)
        if keys or self._gave(before, after):
            return Reached(causes=keys)
        found = _NOTHING
        for _, one, two in self._pairs(before, after):
            if isinstance(one, Built) and isinstance(two, Built) and self.before.output(one) != self.after.output(two):
                found |= self.steps(one.derivation, two.derivation)
        return found or Reached(without=frozenset({after}))

    def live(self, before: Digest, after: Digest) -> frozenset[Key]:
        """Return the causes below two steps that moved bytes, as far as is known."""
        pair = (before, after)
        if pair not in self._causes:
            found = keyed_causes(walk(self._both, before, after, self.before), self.key_of)
            moved = {key: cause for key, cause in found.items() if cause.moved_bytes}
            for key, cause in moved.items():
                self.known.setdefault(key, cause)
            self._causes[pair] = frozenset(moved)
        return self._causes[pair]

    def own(self, before: Node, after: Node) -> frozenset[Key]:
        """Return the causes that two steps are by themselves."""
        return self._keyed(after, own_differences(before, after))

    def _keyed(self, node: Node, differences: tuple[Difference, ...]) -> frozenset[Key]:
        keys = set()
        for one in differences:
            key = self.key_of(subject(node), one)
            self.known.setdefault(key, Cause(path=(node.name,), difference=one))
            keys.add(key)
        return frozenset(keys)

    def _gave(self, before: Digest, after: Digest) -> bool:
        """Say whether both gave the same, as far as is known."""
        old, new = self.before.outputs.get(before), self.after.outputs.get(after)
        return before == after if old is None or new is None else old == new

    def _below(
        self, old: Node, new: Node, came: tuple[Reference, bytes] | None, went: tuple[Reference, bytes] | None
    ) -> Reached:
        """Follow a path into the inputs that it came from on either side; together where these are one thing."""
        found, done = _NOTHING, False
        for role, one, two in self._pairs(old.id, new.id):
            from_one, from_two = came is not None and came[0] == one, went is not None and went[0] == two
            if not (from_one or from_two):
                continue
            if one is None or two is None:
                found |= Reached(causes=self._keyed(new, tuple(came_or_went(self._both, role, one, two))))
            elif isinstance(one, Built) and isinstance(two, Built) and not done:
                places = [
                    (reference.derivation, at[1] if at is not None and here else None)
                    for reference, at, here in ((one, came, from_one), (two, went, from_two))
                ]
                found |= self._joined(places[0], places[1], from_one, from_two)
            done = done or (from_one and from_two)
        return found

    def _joined(self, old: Place, new: Place, from_old: bool, from_new: bool) -> Reached:
        """Follow a path into two inputs; one that lies in one of them alone may lie in the other, made otherwise."""
        if from_old and not from_new:
            new = (new[0], old[1] if self._has(self.after, new[0], old[1]) else None)
        elif from_new and not from_old:
            old = (old[0], new[1] if self._has(self.before, old[0], new[1]) else None)
        return self.path(old, new)

    def _has(self, graph: Graph, step: Digest, path: bytes | None) -> bool:
        tree = self._tree(graph, step)
        return tree is not None and path is not None and path in tree

    def _made(self, old: Node, new: Node, before: bytes | None, after: bytes | None) -> Reached:
        """Return what made two steps make a path otherwise."""
        path = after if after is not None else before
        if path is not None and new.builder == old.builder == "patch":
            found = self._patched(old, new, path)
            if found:
                return found
        if path is not None and new.builder == old.builder == "bytecode":
            found = self._compiled(old, new, path)
            if found:
                return found
        return self.steps(old.id, new.id)

    def _patched(self, old: Node, new: Node, path: bytes) -> Reached:
        touching = tuple(one for one in own_differences(old, new) if path in set(_touched(one)))
        return Reached(causes=self._keyed(new, touching)) | self._inside(old, new, "source", path)

    def _compiled(self, old: Node, new: Node, path: bytes) -> Reached:
        folder, _, name = path.rpartition(b"/")
        above = folder.removesuffix(b"__pycache__")
        return self._inside(old, new, "source", above + name.partition(b".")[0] + b".py")

    def _inside(self, old: Node, new: Node, role: str, path: bytes) -> Reached:
        """Follow a path into an input, where it differs there."""
        one, two = old.inputs.get(role), new.inputs.get(role)
        if not isinstance(one, Built) or not isinstance(two, Built):
            return _NOTHING
        entries = [
            None if tree is None else tree.get(path)
            for tree in (self._tree(self.before, one.derivation), self._tree(self.after, two.derivation))
        ]
        if entries[0] == entries[1]:
            return _NOTHING
        places = [
            (reference.derivation, None if entry is None else path)
            for reference, entry in zip((one, two), entries, strict=True)
        ]
        return self.path(places[0], places[1])

    def _pairs(self, before: Digest, after: Digest) -> list[tuple[str, Reference | None, Reference | None]]:
        pair = (before, after)
        if pair not in self._aligned:
            old, new = self._both.nodes.get(before), self._both.nodes.get(after)
            self._aligned[pair] = [] if old is None or new is None else align(self._both, old, new)
        return self._aligned[pair]

    def _source(self, graph: Graph, node: Node, path: bytes) -> tuple[Reference, bytes] | None:
        tree = self._tree(graph, node.id)
        entry: Entry | None = None if tree is None else tree.get(path)
        if entry is None:
            return None
        for everything in (False, True):
            found = source(node, self._inputs(graph, node, everything=everything), path, entry, self._names)
            if found is not None:
                return node.inputs[found[0]], found[1]
        return None

    def _inputs(self, graph: Graph, node: Node, *, everything: bool) -> Mapping[str, Listing]:
        """Return the trees of a step's inputs; without ``everything`` those alone that the other side has not.

        What differs came with one that differs, nearly always, and of hundreds of wheels few do.
        """
        key = (graph is self.before, node.id, everything)
        if key not in self._roles:
            texts = {role: graph.output(node.inputs[role]) for role in sorted(node.inputs)}
            there = self._outputs(graph is not self.before)
            trees = {
                role: self.trees(text)
                for role, text in texts.items()
                if text is not None and (everything or text not in there)
            }
            self._roles[key] = {role: tree for role, tree in trees.items() if tree is not None}
        return self._roles[key]

    def _outputs(self, of_before: bool) -> frozenset[str]:
        """Return all that the steps of a side gave."""
        if of_before not in self._given:
            graph = self.before if of_before else self.after
            self._given[of_before] = frozenset(text for named in graph.outputs.values() for text in named.values())
        return self._given[of_before]

    def _tree(self, graph: Graph, step: Digest) -> Listing | None:
        text = graph.outputs.get(step, {}).get("out")
        return None if text is None else self.trees(text)


def _touched(difference: Difference) -> Iterator[bytes]:
    """Yield the files that a difference of two series is about."""
    from derive.patches.model import reads, writes

    match difference:
        case HunkMoved(path=path) | OperationMoved(path=path):
            yield path
        case PatchAdded(operations=operations) | PatchRemoved(operations=operations):
            yield from (path for one in operations for path in (reads(one), writes(one)) if path is not None)
        case PatchMoved():
            return
        case _:
            return
