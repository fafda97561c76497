# SPDX-License-Identifier: Apache-2.0
"""What two series of patches differ in: patches that came, went or moved, and the hunks of those that changed.

Core: no IO.

A series in a derivation has no names: a patch is called by its label where one is known, else by its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from derive.canonical import Digest, Json, encode, sha256
from derive.errors import InputErrors
from derive.patches.identity import from_document
from derive.patches.model import Copy, FileOperation, Hunk, Modify, Rename, reads, writes
from derive.why.differences import (
    Difference,
    HunkMoved,
    OperationMoved,
    PatchAdded,
    PatchMoved,
    PatchRemoved,
    ValueMoved,
)
from derive.why.graph import Node
from derive.why.pairing import Numbered, pairs


def patch_labels(files: Mapping[str, bytes]) -> dict[Digest, str]:
    """Return what the patches below a project's ``patches`` folder are called, by what they do.

    Raises:
        InputErrors: when a series or a patch is wrong.
    """
    from derive.patches.identity import patch_document
    from derive.patches.load import series_of

    folders: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        upstream, separator, name = path.partition("/")
        if separator:
            folders.setdefault(upstream, {})[name] = data
    return {
        sha256(encode(patch_document(patch.operations))): f"patches/{upstream}/{patch.name}"
        for upstream, inside in sorted(folders.items())
        for patch in series_of(inside, f"patches/{upstream}").patches
    }


def with_labels(node: Node, labels: Mapping[Digest, str]) -> Node:
    """Return a patch step whose patches are called by these names, as far as they are known."""
    series = node.arguments.get("series")
    if node.labels or not isinstance(series, list):
        return node
    return replace(node, labels=tuple(labels.get(sha256(encode(document)), "") for document in series))


def series_differences(
    before: Sequence[Json], after: Sequence[Json], labels_before: Sequence[str] = (), labels_after: Sequence[str] = ()
) -> Iterator[Difference]:
    """Yield every difference of two ``series`` arguments, in the order of the second series."""
    try:
        old, new = _patches(before, labels_before), _patches(after, labels_after)
    except InputErrors:  # written by an engine with other operations
        yield ValueMoved("series", _digest(before), _digest(after))
        return
    both = pairs(old, new)
    stayed, came = ({one.number for one in side} for side in ((p.before for p in both), (p.after for p in both)))
    for one in old:
        if one.number not in stayed:
            yield PatchRemoved(one.name, one.number, one.operations)
    for two in new:
        if two.number not in came:
            yield PatchAdded(two.name, two.number, two.operations)
    for pair in both:
        if pair.moved:
            yield PatchMoved(pair.after.name, pair.before.number, pair.after.number)
        yield from patch_differences(pair.after.name, pair.before.operations, pair.after.operations)


def series_added(before: Node | None, after: Node | None) -> Iterator[Difference]:
    """Yield the patches of a step that applies them where only one of the two has such a step."""
    (old, old_labels), (new, new_labels) = _own(before), _own(after)
    yield from series_differences(old, new, old_labels, new_labels)


def _own(node: Node | None) -> tuple[Sequence[Json], tuple[str, ...]]:
    series = None if node is None else node.arguments.get("series")
    return (series, node.labels) if node is not None and isinstance(series, list) else ((), ())


def patch_differences(
    name: str, before: Sequence[FileOperation], after: Sequence[FileOperation]
) -> Iterator[Difference]:
    """Yield every difference of two states of one patch: hunks where both change a file, else operations."""
    old, new = ({_target(one): one for one in side} for side in (before, after))
    found = False
    for path in dict.fromkeys([*old, *new]):
        one, two = old.get(path), new.get(path)
        if one == two:
            continue
        found = True
        if one is not None and two is not None and type(one) is type(two):
            yield from _operation_differences(name, path, one, two)
        else:
            yield OperationMoved(name, path, one, two)
    if not found and list(before) != list(after):
        yield ValueMoved(f"{name}: order of files", _order(before), _order(after))


def _operation_differences(name: str, path: bytes, one: FileOperation, two: FileOperation) -> Iterator[Difference]:
    if not isinstance(one, Modify | Rename | Copy) or not isinstance(two, Modify | Rename | Copy):
        yield OperationMoved(name, path, one, two)
        return
    if replace(one, hunks=()) != replace(two, hunks=()):
        yield OperationMoved(name, path, replace(one, hunks=()), replace(two, hunks=()))
    for number, left, right in _hunks(one.hunks, two.hunks):
        yield HunkMoved(name, path, number, left, right)


def _hunks(old: Sequence[Hunk], new: Sequence[Hunk]) -> Iterator[tuple[int, Hunk | None, Hunk | None]]:
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for index in range(max(b - a, d - c)):
            left = old[a + index] if a + index < b else None
            right = new[c + index] if c + index < d else None
            yield (a + index if right is None else c + index) + 1, left, right


def _patches(documents: Sequence[Json], labels: Sequence[str]) -> list[Numbered]:
    named = len(labels) == len(documents)
    return [
        Numbered(
            name=(named and labels[index]) or f"patch {index + 1} of {len(documents)}",
            number=index + 1,
            key=sha256(encode(document)),
            operations=from_document(document, where="series"),
            label=labels[index] if named else "",
        )
        for index, document in enumerate(documents)
    ]


def _target(operation: FileOperation) -> bytes:
    """Return the path that an operation is about."""
    path = writes(operation)
    if path is None:
        path = reads(operation)
    assert path is not None
    return path


def _order(operations: Sequence[FileOperation]) -> str:
    return " ".join(_target(one).decode("utf-8", "backslashreplace") for one in operations)


def _digest(documents: Sequence[Json]) -> str:
    return sha256(encode(documents)).short
