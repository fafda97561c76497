# SPDX-License-Identifier: Apache-2.0
"""What ``docker buildx inspect`` says of one builder, read.

Core: no IO.

The list that buildx prints as JSON is not used: for it every builder that the client knows is asked, and one that does
not answer holds up what is said of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ENGINE = "docker"
"""The driver of the BuildKit that is part of a Docker engine."""

_RUNNING = "running"
_LABELS = "org.mobyproject.buildkit.worker."


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One of a builder's machines.

    ``version`` is its BuildKit's, as it says it; ``host`` the name that its worker gives itself; ``error`` is why it
    does not answer, where that is said. ``takes_layouts`` says whether it takes contexts by digest, which an engine
    does not that keeps images in its older store.
    """

    name: str
    endpoint: str
    is_running: bool
    version: str
    platforms: tuple[str, ...]
    host: str = ""
    error: str = ""
    takes_layouts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A builder, as a client is told of it; neither for the current one."""

    builder: str | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """A builder as buildx knows it. ``is_current``: it was asked for by no name."""

    name: str
    driver: str
    nodes: tuple[Node, ...]
    is_current: bool = False

    @property
    def address(self) -> Address:
        """How a client is told to use it: an engine's own is the one of the context by its name."""
        if self.is_current:
            return Address()
        return Address(context=self.name) if self.driver == ENGINE else Address(builder=self.name)

    @property
    def is_running(self) -> bool:
        """Say whether any of its nodes answers."""
        return any(node.is_running for node in self.nodes)

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that a node which answers can run."""
        return tuple(sorted({one for node in self.nodes if node.is_running for one in node.platforms}))

    def node_for(self, platform: str) -> Node | None:
        """Return the first node that answers and runs a platform, None where there is none."""
        return next((node for node in self.nodes if node.is_running and platform in node.platforms), None)

    def facts(self, platform: str) -> Mapping[str, str]:
        """Return what stands beside a realisation of the worker that made it, by the keys of ``Ran.worker``."""
        node = self.node_for(platform)
        found = {"executor": "buildkit", "builder": self.name, "driver": self.driver}
        if node is not None:
            found |= {"node": node.host or node.name, "version": node.version}
        return {key: value for key, value in found.items() if value}


def read_builder(text: str, *, is_current: bool = False) -> Builder:
    """Read the words of ``docker buildx inspect``; what they do not say is empty."""
    head, _, rest = text.partition("\nNodes:")
    top = _fields(head)
    blocks = [f"Name:{block}" for block in f"\n{rest}".split("\nName:")[1:]]
    nodes = tuple(_node(block, top["driver"]) for block in blocks)
    if not nodes and top["error"]:  # an engine that does not answer has no nodes
        nodes = (_node(head, top["driver"]),)
    return Builder(name=top["name"], driver=top["driver"], nodes=nodes, is_current=is_current)


def _node(block: str, driver: str) -> Node:
    found, labels = _fields(block), _labels(block)
    return Node(
        name=found["name"],
        endpoint=found["endpoint"],
        is_running=found["status"] == _RUNNING,
        version=found["buildkit version"] or found["buildkit"],
        # A star follows a platform that a person gave to the node.
        platforms=tuple(one.strip().rstrip("*") for one in found["platforms"].split(",") if one.strip()),
        host=labels.get(f"{_LABELS}hostname", ""),
        error=found["error"],
        takes_layouts=driver != ENGINE or f"{_LABELS}snapshotter" in labels,
    )


class _Fields(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""


def _fields(block: str) -> Mapping[str, str]:
    found = _Fields()
    for line in block.splitlines():
        key, colon, value = line.partition(":")
        if colon and not line.startswith((" ", "\t")):
            found.setdefault(key.strip().lower(), value.strip())
    return found


def _labels(block: str) -> Mapping[str, str]:
    rows = (line.strip().partition(":") for line in block.splitlines() if line.startswith((" ", "\t")))
    return {key: value.strip() for key, colon, value in rows if colon}
