# SPDX-License-Identifier: Apache-2.0
"""A derivation and its stages of life: references to inputs first, then digests of inputs.

Core: no IO.

``Derivation`` (inputs are other derivations) -> ``ResolvedDerivation`` (inputs are output digests). The id of the first
is what people, logs and image labels name; the id of the second is what realisations are kept under, so that an equal
resolved derivation is never built twice. The documents are on docs/formats/derivation.md.

Not in either id, by name and with the reason:

- name, labels: what a person calls a step, or the patches in it, says nothing of its bytes;
- jobs, timeout, priority, log settings, executor: how a build runs, not what it builds (``--check`` varies the jobs);
- mirror, places: where an artifact is served says nothing of its bytes; its hash does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from derive.canonical import Digest, Json, digest_document, encode

Platform: TypeAlias = Literal["any", "linux/amd64", "linux/arm64"]
PLATFORMS: tuple[Platform, ...] = get_args(Platform)

Identity: TypeAlias = Literal["nar", "facts"]
"""What a tree's digest is taken of: all its bytes, or its entries with the hashes of their contents."""

DEBIAN_ARCHITECTURE: Mapping[str, str] = {"linux/amd64": "amd64", "linux/arm64": "arm64"}
TRIPLET: Mapping[str, str] = {"linux/amd64": "x86_64-linux-gnu", "linux/arm64": "aarch64-linux-gnu"}


IN_A_ROOT = frozenset(("bytecode", "kernel", "script"))
"""Builders that run programs; their input ``root`` is what these run in, and no part of what they make."""


@dataclass(frozen=True, slots=True)
class TreeOutput:
    """An output that is a tree, by the SHA-256 of its NAR or of its facts (docs/formats/tree-digest.md)."""

    digest: Digest
    identity: Identity = "nar"

    def __str__(self) -> str:
        return f"{self.identity}:{self.digest}"


@dataclass(frozen=True, slots=True)
class FlatOutput:
    """An output that is one file, by the SHA-256 of its bytes."""

    digest: Digest

    def __str__(self) -> str:
        return f"flat:{self.digest}"


Output: TypeAlias = TreeOutput | FlatOutput


def parse_output(text: str) -> Output:
    """Read ``nar:``, ``facts:`` or ``flat:`` and ``sha256:<hex>``; raises ValueError."""
    mode, _, digest = text.partition(":")
    match mode:
        case "nar" | "facts":
            return TreeOutput(Digest.parse(digest), mode)
        case "flat":
            return FlatOutput(Digest.parse(digest))
        case _:
            raise ValueError(f"not an output: {text!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """One step, its inputs named. ``inputs`` keys are roles that the builder knows (``root``, ``source``...).

    ``labels``, ``places`` (URLs that an upstream's wish gives) and ``timeout_s`` are outside the id (see the module
    docstring).
    """

    name: str
    builder: str
    version: int
    build: Platform
    host: Platform
    arguments: Mapping[str, Json]
    inputs: Mapping[str, Input] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    timeout_s: int | None = None
    id: Digest = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", digest_document(self.document()))

    def document(self) -> dict[str, Json]:
        """Return the canonical document whose SHA-256 is the id."""
        return {
            "derive": "derivation/1",
            "builder": f"{self.builder}/{self.version}",
            "build": self.build,
            "host": self.host,
            "arguments": self.arguments,
            "inputs": {role: reference.document() for role, reference in self.inputs.items()},
        }

    def encoded(self) -> bytes:
        """Return the canonical bytes of the document."""
        return encode(self.document())

    @property
    def fixed(self) -> Output | None:
        """The output that a fetch must give, or None for everything that is not a fetch."""
        if not self.builder.startswith("fetch-"):
            return None
        if self.builder in ("fetch-engine", "fetch-git", "fetch-work-tree"):
            return TreeOutput(Digest(str(self.arguments["nar"])))
        return FlatOutput(Digest(str(self.arguments["sha256"])))

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Derivation) and self.id == other.id


@dataclass(frozen=True, slots=True)
class BuiltInput:
    """An input that another derivation builds: one of its outputs."""

    derivation: Derivation
    output: str = "out"

    def document(self) -> Json:
        """Return how the input stands in the document: by the id of what builds it."""
        return {"derivation": self.derivation.id.hex, "output": self.output}


@dataclass(frozen=True, slots=True)
class FixedInput:
    """An input that is fetched: dependents see its hash alone, so a moved mirror or locator rebuilds nothing."""

    derivation: Derivation

    @property
    def output(self) -> str:
        """The one output of every fetch."""
        return "out"

    def document(self) -> Json:
        """Return how the input stands in the document: by its expected hash."""
        return {"fixed": str(self.derivation.fixed)}


Input: TypeAlias = BuiltInput | FixedInput


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedDerivation:
    """A step whose inputs are digests: everything that decides its output, and nothing else."""

    builder: str
    version: int
    build: Platform
    host: Platform
    arguments: Mapping[str, Json]
    inputs: Mapping[str, Output]
    id: Digest = field(init=False)

    def __post_init__(self) -> None:
        document: dict[str, Json] = {
            "derive": "resolved/1",
            "builder": f"{self.builder}/{self.version}",
            "build": self.build,
            "host": self.host,
            "arguments": self.arguments,
            "inputs": {role: str(output) for role, output in self.inputs.items()},
        }
        object.__setattr__(self, "id", digest_document(document))

    def tree(self, role: str) -> Digest:
        """Return the digest of a tree input; raises KeyError or TypeError on a builder's own mistake."""
        output = self.inputs[role]
        if not isinstance(output, TreeOutput):
            raise TypeError(f"{role} is no tree")
        return output.digest

    def file(self, role: str) -> Digest:
        """Return the digest of a one-file input; raises KeyError or TypeError on a builder's own mistake."""
        output = self.inputs[role]
        if not isinstance(output, FlatOutput):
            raise TypeError(f"{role} is no single file")
        return output.digest


def resolve(derivation: Derivation, inputs: Mapping[str, Output]) -> ResolvedDerivation:
    """Replace every input by the digest of its output."""
    return ResolvedDerivation(
        builder=derivation.builder,
        version=derivation.version,
        build=derivation.build,
        host=derivation.host,
        arguments=derivation.arguments,
        inputs={role: inputs[role] for role in derivation.inputs},
    )


def closure(target: Derivation) -> list[Derivation]:
    """Return the derivation and everything it needs, inputs before what uses them; the order follows from the ids."""
    order: list[Derivation] = []
    seen: set[Digest] = set()
    stack: list[tuple[Derivation, Iterator[Input]]] = [(target, _in_order(target))]
    seen.add(target.id)
    while stack:
        derivation, rest = stack[-1]
        for reference in rest:
            inner = reference.derivation
            if inner.id not in seen:
                seen.add(inner.id)
                stack.append((inner, _in_order(inner)))
                break
        else:
            order.append(derivation)
            stack.pop()
    return order


def _in_order(derivation: Derivation) -> Iterator[Input]:
    """Yield inputs by role, as they stand in the document, however they were given."""
    return (derivation.inputs[role] for role in sorted(derivation.inputs))
