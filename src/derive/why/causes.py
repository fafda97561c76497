# SPDX-License-Identifier: Apache-2.0
"""Why one derivation became another: the leaves at which they differ, not the chain of inputs between.

Core: no IO.

Both are walked at once, input by input. Where an input's output came out the same for both, what lies below it moved
ids and no byte: such a cause is told apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from derive.canonical import Digest
from derive.why.differences import (
    Artifact,
    ArtifactMoved,
    BuilderMoved,
    Difference,
    Forgotten,
    InputMoved,
    OrderMoved,
    ValueMoved,
    artifact_moved,
    artifact_of,
    own_differences,
)
from derive.why.graph import Built, Fixed, Graph, Node, Reference, subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One root cause. ``path`` leads from what was asked about to the step that differs, by name.

    ``moved_bytes`` is False when an output on the way came out the same, so that only ids moved above it. ``steps``
    counts the steps that differ in just this: a builder's new version is one cause, however many steps use it.
    """

    path: tuple[str, ...]
    difference: Difference
    moved_bytes: bool = True
    steps: int = 1

    @property
    def step(self) -> str:
        """The name of the step that differs."""
        return self.path[-1]


@dataclass(frozen=True, slots=True)
class _Pair:
    before: Digest
    after: Digest
    path: tuple[str, ...]
    live: bool


Key: TypeAlias = tuple[tuple[str, ...], str]
"""What makes two causes one: what the step is about, unless that does not matter, and the difference."""


def cause_key(about: tuple[str, ...], difference: Difference) -> Key:
    """Return what two causes have in common that are one cause."""
    everywhere = isinstance(difference, BuilderMoved) or (
        isinstance(difference, ValueMoved) and difference.place.startswith("sandbox.")
    )
    return (() if everywhere else about, repr(difference))


def root_causes(graph: Graph, before: Digest, after: Digest) -> tuple[Cause, ...]:
    """Return every root cause of the difference of two derivations, those that moved bytes and the nearest first."""
    return tuple(keyed_causes(walk(graph, before, after), cause_key).values())


def keyed_causes(
    walked: Iterable[tuple[tuple[str, ...], Cause]], key_of: Callable[[tuple[str, ...], Difference], Key]
) -> dict[Key, Cause]:
    """Return the causes of a walk, each once, in the walk's order."""
    found: dict[Key, Cause] = {}
    for about, cause in walked:
        key = key_of(about, cause.difference)
        first = found.setdefault(key, cause)
        if first is not cause:
            found[key] = replace(first, steps=first.steps + 1)
    return found


def walk(
    graph: Graph, before: Digest, after: Digest, earlier: Graph | None = None
) -> Iterator[tuple[tuple[str, ...], Cause]]:
    """Yield what each step is about that differs in itself, and the cause.

    ``earlier`` knows what the steps of the first gave, where one id may have given two things.
    """
    seen: set[tuple[Digest, Digest]] = set()
    live, idle = deque([_Pair(before, after, (_name(graph, after),), True)]), deque[_Pair]()
    while live or idle:
        pair = (live or idle).popleft()
        if pair.before == pair.after or (pair.before, pair.after) in seen:
            continue
        seen.add((pair.before, pair.after))
        old, new = graph.nodes.get(pair.before), graph.nodes.get(pair.after)
        if old is None or new is None:
            missing = pair.before if old is None else pair.after
            yield (), Cause(path=pair.path, difference=Forgotten(missing), moved_bytes=pair.live)
            continue
        for one in _at(graph, old, new, earlier or graph):
            if isinstance(one, _Step):
                path = (*pair.path, _name(graph, one.after))
                below = _Pair(one.before, one.after, path, pair.live and one.live)
                (live if below.live else idle).append(below)
            else:
                yield subject(new), Cause(path=pair.path, difference=one, moved_bytes=pair.live)


@dataclass(frozen=True, slots=True)
class _Step:
    """An input that differs: where the walk goes on."""

    before: Digest
    after: Digest
    live: bool


def _at(graph: Graph, old: Node, new: Node, earlier: Graph) -> Iterator[Difference | _Step]:
    """Yield what two derivations differ in, and the inputs to go on with."""
    below = list(_inputs(graph, old, new, earlier))
    own = list(own_differences(old, new))
    if any(isinstance(one, ArtifactMoved) for one in below):
        # What an archive must say of itself stands in the lock beside its hash.
        own = [one for one in own if not (isinstance(one, ValueMoved) and one.place.startswith("expected"))]
    yield from own
    yield from below


def align(graph: Graph, old: Node, new: Node) -> list[tuple[str, Reference | None, Reference | None]]:
    """Pair the inputs of two derivations: by role, and where roles are numbers by what the input is about.

    Returns:
        (role, before, after); the role is that of the second where both have it.
    """
    left, right = dict(old.inputs), dict(new.inputs)
    pairs: list[tuple[str, Reference | None, Reference | None]] = []
    same_role = [
        role
        for role in right
        if role in left and (not _is_numbered(role) or _may_be_alike(graph, left[role], right[role]))
    ]
    pairs += [(role, left.pop(role), right.pop(role)) for role in same_role]
    for role, reference in list(right.items()):
        same = [other for other in left if _is_alike(graph, role, reference, other, left[other])]
        if not same and old.host != new.host:
            # A root of another architecture has its packages under other roles: `bash:amd64`, `bash:arm64`.
            package = role.partition(":")[0]
            same = [other for other in left if other != role and other.partition(":")[0] == package]
        if same:
            pairs.append((role, left.pop(same[0]), right.pop(role)))
    pairs += [(role, None, reference) for role, reference in right.items()]
    pairs += [(role, reference, None) for role, reference in left.items()]
    return sorted(pairs, key=lambda pair: pair[0])


def _inputs(graph: Graph, old: Node, new: Node, earlier: Graph) -> Iterator[Difference | _Step]:
    pairs = align(graph, old, new)
    for role, one, two in pairs:
        match one, two:
            case Built(), Built():
                if one == two:
                    continue
                about = _about(graph, one), _about(graph, two)
                if None not in about and about[0] != about[1]:
                    yield from _another(graph, role, one, two, same_host=old.host == new.host)
                    continue
                outputs = earlier.output(one), graph.output(two)
                yield _Step(one.derivation, two.derivation, outputs[0] is None or outputs[0] != outputs[1])
            case ((Fixed() | None), (Fixed() | None)):
                moved = artifact_moved(_artifact(graph, one), _artifact(graph, two))
                if one != two and moved is not None:
                    yield moved
            case _:
                yield from came_or_went(graph, role, one, two)
    yield from _reordered(graph, old, new)


def _another(graph: Graph, role: str, one: Built, two: Built, *, same_host: bool) -> Iterator[Difference]:
    """Say that another thing is named for an input; one version of a package for another platform is no cause."""
    before, after = _packed(graph, one), _packed(graph, two)
    if before is None or after is None or before.name != after.name:
        yield InputMoved(role, graph.name(one), graph.name(two))
    elif same_host or before.version != after.version:
        moved = artifact_moved(before, after)
        if moved is not None:
            yield moved


def came_or_went(graph: Graph, role: str, one: Reference | None, two: Reference | None) -> Iterator[Difference]:
    """Say that an input is only in one of the two; one that unpacks an artifact stands for its lock entry."""
    series = _series_added(graph, one, two)
    if series is not None:
        yield from series
        return
    packed = [_packed(graph, reference) for reference in (one, two)]
    if (one is None or packed[0] is not None) and (two is None or packed[1] is not None):
        moved = artifact_moved(packed[0], packed[1])
        if moved is not None:
            yield moved
    elif role.partition(".")[0] != "blob":  # beside each layer's descriptor
        names = [None if reference is None else graph.name(reference) or _shown(reference) for reference in (one, two)]
        yield InputMoved(role, names[0], names[1])


def _series_added(graph: Graph, one: Reference | None, two: Reference | None) -> Iterator[Difference] | None:
    """Return the patches of a step that applies them and is only in one of the two; None for any other step."""
    nodes = [None if reference is None else graph.node(reference) for reference in (one, two)]
    if (one is not None and two is not None) or not any(node is not None and node.builder == "patch" for node in nodes):
        return None
    from derive.why.series import series_added

    return series_added(*nodes)


def _packed(graph: Graph, reference: Reference | None) -> Artifact | None:
    """Return the artifact that an input unpacks, when it does nothing else."""
    node = None if reference is None else graph.node(reference)
    while node is not None and node.builder in ("unpack", "record", "install-wheel"):
        below = node.inputs.get("archive") or node.inputs.get("wheel") or node.inputs.get("installed")
        if isinstance(below, Fixed):
            found = _artifact(graph, below)
            expected = node.arguments.get("expected")
            known = found is not None and found.facts is not None
            return found if known or not isinstance(expected, Mapping) else Artifact(below.hex, expected)
        node = None if below is None else graph.node(below)
    return None


def _artifact(graph: Graph, reference: Reference | None) -> Artifact | None:
    if reference is None:
        return None
    node = graph.node(reference)
    return artifact_of(node) if node is not None else Artifact(_shown(reference))


def _reordered(graph: Graph, old: Node, new: Node) -> Iterator[Difference]:
    """Say that numbered inputs have another order: their roles alone show it."""
    orders = [
        [graph.name(node.inputs[role]) for role in sorted(node.inputs, key=_number) if _is_numbered(role)]
        for node in (old, new)
    ]
    common = [
        tuple(dict.fromkeys(name for name in one if name and name in other))
        for one, other in (orders, reversed(orders))
    ]
    if common[0] != common[1] and len(common[0]) == len(common[1]):
        yield OrderMoved(*common)


def _number(role: str) -> tuple[str, int]:
    name, _, number = role.rpartition(".")
    return (name, int(number)) if number.isdecimal() else (role, -1)


def _is_numbered(role: str) -> bool:
    return _number(role)[1] >= 0


def _about(graph: Graph, reference: Reference) -> tuple[str, ...] | None:
    node = graph.node(reference)
    return None if node is None else subject(node)


def _may_be_alike(graph: Graph, one: Reference, two: Reference) -> bool:
    """Say whether two inputs are about one thing, as far as is known."""
    about = _about(graph, one), _about(graph, two)
    return None in about or about[0] == about[1]


def _is_alike(graph: Graph, role: str, reference: Reference, other_role: str, other: Reference) -> bool:
    """Say whether two inputs with other numbers in their roles, or other versions, are one thing."""
    same_place = _number(role)[0] == _number(other_role)[0]
    about = _about(graph, reference)
    return same_place and about is not None and about == _about(graph, other)


def _name(graph: Graph, key: Digest) -> str:
    node = graph.nodes.get(key)
    return f"drv:{key.short}" if node is None else node.name


def _shown(reference: Reference) -> str:
    match reference:
        case Built(derivation=key):
            return f"drv:{key.short}"
        case Fixed(output=output):
            return output
