# SPDX-License-Identifier: Apache-2.0
"""What a closure file holds, as a value: derivations, trees and blobs, at one of three levels of ability.

Core: no IO. The format is on docs/formats/closure.md.

The manifest is a function of the closure and the level alone: no time, machine or user stands in it, but for the
histories of an audit, which are facts of the store that they come from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from derive.canonical import CanonicalError, Digest, Json, decode, digest_document, encode
from derive.derivations.model import FlatOutput, Output, TreeOutput, parse_output
from derive.errors import Corrupt
from derive.images.documents import DocumentError, exact, fields, integer, items, mapping, text, texts
from derive.images.oci import OVERLAY_LABEL
from derive.store.reach import Level
from derive.trust.dsse import shown

TAG = "closure/1"

_BUILDER = re.compile(r"[a-z][a-z0-9-]*/[1-9][0-9]*")
_LONGEST_NAME = 1000

V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosureStep:
    """A derivation by its document; ``resolved`` is None where the store no longer knew it."""

    id: Digest
    name: str
    resolved: Digest | None
    document: Mapping[str, Json]

    @property
    def builder(self) -> str:
        """Name and version of the builder."""
        return str(self.document["builder"])

    @property
    def is_fetch(self) -> bool:
        """Say whether its output is fixed by a hash."""
        return self.builder.startswith("fetch-")

    @property
    def is_image(self) -> bool:
        """Say whether its output is an image's manifest, which names further blobs."""
        return self.builder.startswith("image/")

    @property
    def is_overlaid(self) -> bool:
        """Say whether it is an image over which work trees are laid: one that is never promoted."""
        arguments = self.document["arguments"]
        config = arguments.get("config") if isinstance(arguments, Mapping) else None
        labels = config.get("labels") if isinstance(config, Mapping) else None
        return self.is_image and isinstance(labels, Mapping) and OVERLAY_LABEL in labels

    @property
    def host(self) -> str:
        """The platform of its output."""
        return str(self.document["host"])

    def inputs(self) -> dict[str, StepInput | Output]:
        """Return each input by its role: another step's output, or a fixed output."""
        found: dict[str, StepInput | Output] = {}
        for role, value in mapping(self.document["inputs"], "inputs").items():
            if isinstance(value, Mapping) and "fixed" in value:
                fixed = text(exact(value, keys={"fixed"}, what=role), "fixed")
                found[role] = parse_output(fixed)
            else:
                built = exact(value, keys={"derivation", "output"}, what=role)
                found[role] = StepInput(Digest(text(built, "derivation")), text(built, "output"))
        return found

    def fixed(self) -> Output | None:
        """The output that a fetch must give, or None for every other step."""
        if not self.is_fetch:
            return None
        arguments = mapping(self.document["arguments"], "arguments")
        if "nar" in arguments:
            return TreeOutput(Digest(text(arguments, "nar")))
        return FlatOutput(Digest(text(arguments, "sha256")))


@dataclass(frozen=True, slots=True)
class StepInput:
    """An input that another derivation builds."""

    derivation: Digest
    output: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Sized:
    """Bytes, by the SHA-256 and the number of them."""

    digest: Digest
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosureTree:
    """A tree, and the listing that says where in the blobs its contents lie."""

    digest: Digest
    listing: Sized


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """How a realisation came to be, as :class:`derive.store.database.Realisation` has it; ``log`` is named by an id."""

    resolved: Digest
    engine: str
    host: str
    duration_ns: int
    built_s: int
    log_of: Digest | None
    log: Sized | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """A closure: everything sorted by its first field, nothing twice; ``targets`` are ids of derivations."""

    level: Level
    targets: tuple[Digest, ...]
    steps: tuple[ClosureStep, ...]
    trees: tuple[ClosureTree, ...]
    blobs: tuple[Sized, ...]
    histories: tuple[History, ...] = ()

    @classmethod
    def of(
        cls,
        level: Level,
        targets: Iterable[Digest],
        steps: Iterable[ClosureStep],
        trees: Iterable[ClosureTree],
        blobs: Iterable[Sized],
        histories: Iterable[History] = (),
    ) -> Closure:
        """Build a closure from what comes in any order; raises ValueError when something stands twice."""
        return cls(
            level=level,
            targets=_sorted("target", {one: one for one in targets}.items()),
            steps=_sorted("derivation", ((one.id, one) for one in steps)),
            trees=_sorted("tree", ((one.digest, one) for one in trees)),
            blobs=_sorted("blob", ((one.digest, one) for one in blobs)),
            histories=_sorted("history", ((one.resolved, one) for one in histories)),
        )

    def encoded(self) -> bytes:
        """Return the canonical bytes of the manifest."""
        return encode(
            {
                "derive": TAG,
                "level": self.level.value,
                "targets": [target.hex for target in self.targets],
                "derivations": [_step_document(step) for step in self.steps],
                "trees": [{"tree": tree.digest.hex, "listing": _sized_document(tree.listing)} for tree in self.trees],
                "blobs": [_sized_document(blob) for blob in self.blobs],
                "histories": [_history_document(history) for history in self.histories],
            }
        )


def read_closure(data: bytes) -> Closure:
    """Read a manifest; what refers to what is judged by :func:`derive.store.closure_check.require_coherent`.

    Raises:
        Corrupt: when the bytes are not what :meth:`Closure.encoded` gives.
    """
    try:
        closure = _closure(decode(data))
    except (CanonicalError, DocumentError, ValueError, KeyError) as error:
        raise Corrupt(f"the manifest of the closure cannot be read: {shown(error)}") from error
    if closure.encoded() != data:
        raise Corrupt("the manifest of the closure is not written as a manifest is")
    return closure


def step_of(name: str, resolved: Digest | None, document: Mapping[str, Json]) -> ClosureStep:
    """Return a step by its document, its id computed; raises ValueError when the document is no derivation."""
    keys = ("builder", "build", "host", "arguments", "inputs")
    fields(document, tag="derivation/1", keys=keys)
    mapping(document["arguments"], "arguments")
    for key in ("build", "host"):
        text(document, key)
    if not _BUILDER.fullmatch(text(document, "builder")):
        raise DocumentError(f"builder: not a name and a version: {document['builder']!r}")
    if not name or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise DocumentError(f"not the name of a derivation: {name[:80]!r}")
    step = ClosureStep(id=digest_document(document), name=name, resolved=resolved, document=document)
    try:
        step.inputs()
        step.fixed()
    except KeyError as error:
        raise DocumentError(f"{name}: a fetch without the argument {error}") from error
    return step


def _sorted(what: str, pairs: Iterable[tuple[Digest, V]]) -> tuple[V, ...]:
    found: dict[Digest, V] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the same {what} twice: {key}")
        found[key] = value
    return tuple(found[key] for key in sorted(found))


def _step_document(step: ClosureStep) -> Json:
    resolved = None if step.resolved is None else step.resolved.hex
    return {"derivation": step.id.hex, "name": step.name, "resolved": resolved, "document": step.document}


def _sized_document(sized: Sized) -> dict[str, Json]:
    return {"sha256": sized.digest.hex, "size": sized.size}


def _history_document(history: History) -> Json:
    log = None
    if history.log is not None and history.log_of is not None:
        log = {"derivation": history.log_of.hex, **_sized_document(history.log)}
    return {
        "resolved": history.resolved.hex,
        "engine": history.engine,
        "host": history.host,
        "duration_ns": history.duration_ns,
        "built_s": history.built_s,
        "log": log,
    }


def _closure(document: Json) -> Closure:
    keys = ("level", "targets", "derivations", "trees", "blobs", "histories")
    found = fields(document, tag=TAG, keys=keys)
    targets = texts(found, "targets")
    if not targets or len(set(targets)) != len(targets):
        raise DocumentError("targets: none, or the same twice")
    return Closure.of(
        Level(text(found, "level")),
        [Digest(target) for target in targets],
        [_step(item) for item in items(found, "derivations")],
        [_tree(item) for item in items(found, "trees")],
        [_sized(exact(item, keys={"sha256", "size"}, what="blobs")) for item in items(found, "blobs")],
        [_history(item) for item in items(found, "histories")],
    )


def _step(item: Json) -> ClosureStep:
    found = exact(item, keys={"derivation", "name", "resolved", "document"}, what="derivations")
    resolved = None if found["resolved"] is None else Digest(text(found, "resolved"))
    step = step_of(text(found, "name"), resolved, mapping(found["document"], "document"))
    if step.id.hex != found["derivation"]:
        raise DocumentError(f"derivations: {step.name} has another id than its document")
    return step


def _tree(item: Json) -> ClosureTree:
    found = exact(item, keys={"tree", "listing"}, what="trees")
    listing = _sized(exact(found["listing"], keys={"sha256", "size"}, what="listing"))
    return ClosureTree(digest=Digest(text(found, "tree")), listing=listing)


def _sized(found: Mapping[str, Json]) -> Sized:
    size = integer(found, "size")
    if size < 0:
        raise DocumentError("size: below 0")
    return Sized(digest=Digest(text(found, "sha256")), size=size)


def _history(item: Json) -> History:
    keys = {"resolved", "engine", "host", "duration_ns", "built_s", "log"}
    found = exact(item, keys=keys, what="histories")
    log = found["log"]
    if log is not None:
        log = exact(log, keys={"derivation", "sha256", "size"}, what="log")
    return History(
        resolved=Digest(text(found, "resolved")),
        engine=text(found, "engine"),
        host=text(found, "host"),
        duration_ns=integer(found, "duration_ns"),
        built_s=integer(found, "built_s"),
        log_of=None if log is None else Digest(text(log, "derivation")),
        log=None if log is None else _sized(log),
    )
