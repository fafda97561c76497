# SPDX-License-Identifier: Apache-2.0
"""What nodes are told, as keys and values of which each knows where it comes from.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Section: TypeAlias = Literal["shape", "site", "service", "arguments", "environment", "mounts", "container", "files"]

SECTIONS: tuple[Section, ...] = (
    "shape",
    "site",
    "service",
    "arguments",
    "environment",
    "mounts",
    "container",
    "files",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a value, or a part of it, comes from: a key of a file and what it says, or a rule and what that read."""

    file: str
    key: str
    said: str
    rule: str | None = None
    read: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The file and the key in it."""
        return f"{self.file}: {self.key}" if self.key else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value as text, and all that it was made of; nothing where only a rendered folder is at hand."""

    text: str
    sources: tuple[Source, ...] = ()


Values: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one node is told, by section; ``node`` is its name."""

    rank: int
    node: str
    sections: Mapping[Section, Values]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two things that are compared: what holds for all nodes, and what each is told."""

    title: str
    facts: Mapping[Section, Values]
    told: tuple[Told, ...]


Sides: TypeAlias = Mapping[str, Side]
"""Sides by the name of the shape; of one shape alone the name is empty, so that two names can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One key that is not the same; None where a side has none. ``nodes`` are the ranks, empty: it holds for all."""

    shape: str
    section: Section
    key: str
    before: Value | None
    after: Value | None
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """A shape, or a node of one, that only one of the sides has."""

    shape: str
    what: str
    side: Literal["before", "after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeComparison:
    """Everything that differs between two sides."""

    before: str
    after: str
    moved: tuple[Moved, ...] = ()
    alone: tuple[Alone, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.moved and not self.alone
