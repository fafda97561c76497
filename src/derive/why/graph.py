# SPDX-License-Identifier: Apache-2.0
"""Derivations as nodes by id: those of a store and those of a project are one graph, since an id says all.

Core: no IO.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from derive.canonical import Digest, Json
from derive.derivations.model import Derivation, FixedInput

_WHEEL = re.compile(r"\b(?:cp3\d+|any)\b|x86_64|aarch64")
_PART = re.compile(r"\.(?:orig|debian|diff|dsc)\b")
_VERSIONED = re.compile(r"(\S+) \S+ (installed|byte code|recorded)")


@dataclass(frozen=True, slots=True)
class Built:
    """An input that a derivation builds: one of its outputs."""

    derivation: Digest
    output: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """An input that is fetched, by ``flat:`` or ``nar:`` and its expected hash."""

    output: str

    @property
    def hex(self) -> str:
        """The hash alone."""
        return self.output.rpartition(":")[2]


Reference: TypeAlias = Built | Fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One derivation. ``labels`` are known of a project's derivations only, and in no id."""

    id: Digest
    name: str
    builder: str
    version: int
    build: str
    host: str
    arguments: Mapping[str, Json]
    inputs: Mapping[str, Reference]
    labels: tuple[str, ...] = ()

    @property
    def is_fetch(self) -> bool:
        """Whether its output is fixed by its arguments."""
        return self.builder.startswith("fetch-")

    @property
    def title(self) -> str:
        """The name, with the platform where it has one."""
        return titled(self.name, self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes by id; fetches by the output that they must give; what each node's realisation gave, where that is known.

    A node may name an input that is not among the nodes: a store forgets.
    """

    nodes: Mapping[Digest, Node]
    fetches: Mapping[str, Node] = field(default_factory=lambda: MappingProxyType({}))
    outputs: Mapping[Digest, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))

    def __or__(self, other: Graph) -> Graph:
        """Return both; where both know a node, the other's stands, which may have labels."""
        return Graph(
            nodes={**self.nodes, **other.nodes},
            fetches={**self.fetches, **other.fetches},
            outputs={**self.outputs, **other.outputs},
        )

    def name(self, reference: Reference) -> str | None:
        """Return the name of what gives an input, or None when that is not known."""
        node = self.node(reference)
        return None if node is None else node.name

    def node(self, reference: Reference) -> Node | None:
        """Return what gives an input, or None when that is not known."""
        match reference:
            case Built(derivation=key):
                return self.nodes.get(key)
            case Fixed(output=output):
                return self.fetches.get(output)

    def output(self, reference: Reference) -> str | None:
        """Return what an input's bytes are, or None when that is not known."""
        match reference:
            case Built(derivation=key, output=output):
                return self.outputs.get(key, {}).get(output)
            case Fixed(output=output):
                return output

    def closure(self, target: Digest) -> tuple[Node, ...]:
        """Return what is known of a derivation and everything below it but the fetches, nearest first."""
        found: dict[Digest, Node] = {}
        waiting = deque([target])
        while waiting:
            key = waiting.popleft()
            node = self.nodes.get(key)
            if node is None or key in found:
                continue
            found[key] = node
            waiting.extend(one.derivation for one in node.inputs.values() if isinstance(one, Built))
        return tuple(found.values())

    def is_whole(self, target: Digest) -> bool:
        """Say whether a derivation and everything below it but the fetches is known."""
        below = {
            one.derivation for node in self.closure(target) for one in node.inputs.values() if isinstance(one, Built)
        }
        return target in self.nodes and below <= self.nodes.keys()

    def fixed(self, target: Digest) -> frozenset[Fixed]:
        """Return every fixed input below a derivation."""
        nodes = self.closure(target)
        return frozenset(one for node in nodes for one in node.inputs.values() if isinstance(one, Fixed))


def titled(name: str, host: str) -> str:
    """Write a step's name, with the platform where it has one."""
    return name if host == "any" else f"{name} ({host})"


def node_of(key: Digest, name: str, document: Mapping[str, Json], labels: tuple[str, ...] = ()) -> Node:
    """Read a derivation's document; raises KeyError, TypeError or ValueError when it is none."""
    builder, _, version = str(document["builder"]).rpartition("/")
    arguments, inputs = document["arguments"], document["inputs"]
    if not isinstance(arguments, Mapping) or not isinstance(inputs, Mapping):
        raise TypeError("a derivation's arguments and inputs are objects")
    return Node(
        id=key,
        name=name,
        builder=builder,
        version=int(version),
        build=str(document["build"]),
        host=str(document["host"]),
        arguments=arguments,
        inputs={role: _reference(value) for role, value in inputs.items()},
        labels=labels,
    )


def _reference(value: Json) -> Reference:
    if not isinstance(value, Mapping):
        raise TypeError("a reference is an object")
    if "fixed" in value:
        return Fixed(str(value["fixed"]))
    return Built(Digest(str(value["derivation"])), str(value["output"]))


def graph_of(derivations: Iterable[Derivation]) -> Graph:
    """Return a project's derivations as a graph."""
    nodes: dict[Digest, Node] = {}
    fetches: dict[str, Node] = {}
    for one in derivations:
        node = Node(
            id=one.id,
            name=one.name,
            builder=one.builder,
            version=one.version,
            build=one.build,
            host=one.host,
            arguments=one.arguments,
            inputs={
                role: Fixed(str(given.derivation.fixed))
                if isinstance(given, FixedInput)
                else Built(given.derivation.id, given.output)
                for role, given in one.inputs.items()
            },
            labels=one.labels,
        )
        nodes[one.id] = node
        if one.fixed is not None:
            fetches[str(one.fixed)] = node
    return Graph(nodes=nodes, fetches=fetches)


def subject(node: Node) -> tuple[str, ...]:
    """Return what a step is about, whatever its version: two of one subject are one thing at two times."""
    arguments = node.arguments
    if node.is_fetch:
        return (
            node.builder,
            *(str(arguments[key]) for key in ("name", "architecture") if key in arguments),
            _tag(node),
        )
    expected = arguments.get("expected")
    if node.builder == "unpack" and isinstance(expected, Mapping):
        return (node.builder, *(str(expected.get(key)) for key in ("name", "architecture")))
    versioned = _VERSIONED.fullmatch(node.name)
    return (node.builder, *versioned.groups()) if versioned else (node.name,)


def _tag(node: Node) -> str:
    """Return what tells two files of one release apart: what a wheel is for, the part of a source that a file is."""
    file = str(node.arguments.get("file", node.arguments.get("locator", "")))
    return "-".join(_WHEEL.findall(file) if file.endswith(".whl") else _PART.findall(file))


@dataclass(frozen=True, slots=True)
class Variant:
    """For what a closure is made: the platforms and architectures that it names, and the versions of Python."""

    platforms: frozenset[str]
    pythons: frozenset[str]


def variant(nodes: Iterable[Node]) -> Variant:
    """Return for what a closure is made."""
    platforms: set[str] = set()
    pythons: set[str] = set()
    for node in nodes:
        platforms.add(node.host)
        expected = node.arguments.get("expected")
        if isinstance(expected, Mapping) and expected.get("architecture") not in (None, "all"):
            platforms.add(str(expected["architecture"]))
        if node.name.endswith(".whl unpacked"):
            platforms |= {machine for machine in ("x86_64", "aarch64") if machine in node.name}
        pythons.add(str(node.arguments.get("python")))
    return Variant(frozenset(platforms), frozenset(pythons))
