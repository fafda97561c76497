# SPDX-License-Identifier: Apache-2.0
"""What two derivations differ in themselves, inputs aside: the smallest parts that a person edits.

Core: no IO.

A text differs in lines, a series in patches and hunks, a fetch in what its lock entry says; anything else in the value
at one key path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from derive.canonical import CanonicalError, Digest, Json, unescape
from derive.why.graph import Node

if TYPE_CHECKING:
    from derive.patches.model import FileOperation, Hunk

_TEXT_LINES = 2


@dataclass(frozen=True, slots=True)
class Absent:
    """No value: the key is not there."""


ABSENT = Absent()

Value: TypeAlias = "Json | Absent"


@dataclass(frozen=True, slots=True)
class BuilderMoved:
    """Another builder, or another version of it, written ``name/version``."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ValueMoved:
    """Another value at a key path of the derivation, such as ``environment.CFLAGS``; scalars, but for what is gone."""

    place: str
    before: Value
    after: Value


@dataclass(frozen=True, slots=True)
class TextMoved:
    """Other lines in a text, such as a script; None where there is no such text."""

    place: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class PatchAdded:
    """A patch that only the second series has; ``number`` from 1."""

    patch: str
    number: int
    operations: tuple[FileOperation, ...]


@dataclass(frozen=True, slots=True)
class PatchRemoved:
    """A patch that only the first series has; ``number`` from 1."""

    patch: str
    number: int
    operations: tuple[FileOperation, ...]


@dataclass(frozen=True, slots=True)
class PatchMoved:
    """A patch that both series have, at another place among the others; numbers from 1."""

    patch: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class HunkMoved:
    """A hunk of a patch that differs; None where one of the two patches has no such hunk. ``number`` from 1."""

    patch: str
    path: bytes
    number: int
    before: Hunk | None
    after: Hunk | None


@dataclass(frozen=True, slots=True)
class OperationMoved:
    """What a patch does to a file differs otherwise than in hunks; None where it does nothing to that file."""

    patch: str
    path: bytes
    before: FileOperation | None
    after: FileOperation | None


@dataclass(frozen=True, slots=True)
class Artifact:
    """A fetched file as a lock names it; ``facts`` are all arguments of its fetch, None where no fetch is known."""

    output: str
    facts: Mapping[str, Json] | None = None

    @property
    def name(self) -> str:
        """Its name, or its hash where that is all that is known."""
        return self.output if self.facts is None else str(self.facts.get("name", self.output))

    @property
    def version(self) -> str:
        """Its version, the abbreviated commit or revision, or nothing."""
        facts = self.facts or {}
        for key in ("version", "tag", "commit", "revision"):
            if isinstance(facts.get(key), str):
                return str(facts[key])[:12] if key in ("commit", "revision") else str(facts[key])
        return ""

    @property
    def size(self) -> int:
        """Its size in bytes, 0 when not known."""
        size = (self.facts or {}).get("size")
        return size if isinstance(size, int) else 0


@dataclass(frozen=True, slots=True)
class ArtifactMoved:
    """Another artifact of the lock; None where one of the two has none. ``fields`` are the arguments that differ."""

    before: Artifact | None
    after: Artifact | None
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InputMoved:
    """Another thing is named for an input; None where the input is only in one of the two."""

    role: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class OrderMoved:
    """The same inputs in another order, by name."""

    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A derivation that this store has no row of, so that what lies below it cannot be compared."""

    derivation: Digest


Difference: TypeAlias = (
    BuilderMoved
    | ValueMoved
    | TextMoved
    | PatchAdded
    | PatchRemoved
    | PatchMoved
    | HunkMoved
    | OperationMoved
    | ArtifactMoved
    | InputMoved
    | OrderMoved
    | Forgotten
)


def own_differences(before: Node, after: Node) -> tuple[Difference, ...]:
    """Return what two derivations differ in beside their inputs."""
    return tuple(_own(before, after))


def _own(before: Node, after: Node) -> Iterator[Difference]:
    old, new = (f"{node.builder}/{node.version}" for node in (before, after))
    if old != new:
        yield BuilderMoved(old, new)
    if before.builder != after.builder:
        return
    for key in ("build", "host"):
        if getattr(before, key) != getattr(after, key):
            yield ValueMoved(key, getattr(before, key), getattr(after, key))
    if before.is_fetch:
        moved = artifact_moved(artifact_of(before), artifact_of(after))
        if moved is not None:
            yield moved
        return
    for key in sorted(before.arguments.keys() | after.arguments.keys()):
        yield from _argument(key, before, after)


def _argument(key: str, before: Node, after: Node) -> Iterator[Difference]:
    old, new = before.arguments.get(key, ABSENT), after.arguments.get(key, ABSENT)
    if old == new:
        return
    match before.builder, key:
        case "patch", "series":
            from derive.why.series import series_differences

            yield from series_differences(_list(old), _list(new), before.labels, after.labels)
        case "script", "script":
            yield _text(key, old, new)
        case "kernel", "source":
            yield _text("kernel.py", old, new)
        case "script" | "kernel", "files":
            files = _map(old), _map(new)
            for name in sorted(files[0].keys() | files[1].keys()):
                texts = [one.get(name, ABSENT) for one in files]
                if texts[0] != texts[1]:
                    yield _text(name, *texts)
        case "compose", "parts":
            yield from _parts(_list(old), _list(new))
        case ("image", "layers" | "optional") | ("kernel", "units"):
            pass  # the inputs show it
        case _:
            yield from values_moved(key, old, new)


def _parts(old: Sequence[Json], new: Sequence[Json]) -> Iterator[Difference]:
    """Compare where parts are put; that one came or went is seen among the inputs."""
    places = [{str(_map(part).get("name")): _map(part).get("at") for part in parts} for parts in (old, new)]
    common = [[name for name in one if name in other] for one, other in (places, reversed(places))]
    for name in sorted(common[0]):
        yield from values_moved(f"parts.{name}.at", places[0][name], places[1][name])
    if common[0] != common[1]:
        yield OrderMoved(tuple(common[0]), tuple(common[1]))


def values_moved(place: str, old: Value, new: Value) -> Iterator[Difference]:
    """Yield the differences of two values, each at its key path; long texts are compared line by line."""
    if old == new and type(old) is type(new):
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from values_moved(f"{place}.{key}", old.get(key, ABSENT), new.get(key, ABSENT))
    elif _is_list(old) and _is_list(new) and len(_list(old)) == len(_list(new)):
        for index, (one, other) in enumerate(zip(_list(old), _list(new), strict=True)):
            yield from values_moved(f"{place}[{index}]", one, other)
    elif any(isinstance(value, str) and value.count("\n") >= _TEXT_LINES for value in (old, new)):
        yield TextMoved(place, *(value.encode() if isinstance(value, str) else None for value in (old, new)))
    else:
        yield ValueMoved(place, old, new)


def artifact_of(node: Node) -> Artifact:
    """Return the artifact that a fetch brings."""
    given = node.arguments.get("sha256", node.arguments.get("nar", node.id.hex))
    return Artifact(str(given), node.arguments)


def artifact_moved(before: Artifact | None, after: Artifact | None) -> ArtifactMoved | None:
    """Return how two artifacts differ, or None when they do not."""
    if before is None or after is None:
        return None if before is after else ArtifactMoved(before, after)
    if before.facts is None or after.facts is None:
        return None if before.output == after.output else ArtifactMoved(before, after)
    old, new = before.facts, after.facts
    fields = tuple(sorted(key for key in old.keys() | new.keys() if old.get(key, ABSENT) != new.get(key, ABSENT)))
    return ArtifactMoved(before, after, fields) if fields else None


def _text(place: str, old: Value, new: Value) -> TextMoved:
    return TextMoved(place, *(unescaped(value) if isinstance(value, str) else None for value in (old, new)))


def unescaped(text: str) -> bytes:
    """Return the bytes of a text that stands escaped in a document; of any other text, its own."""
    try:
        return unescape(text)
    except CanonicalError:
        return text.encode("utf-8", "surrogatepass")


def _is_list(value: Value) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _list(value: Value) -> Sequence[Json]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _map(value: Value) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}
