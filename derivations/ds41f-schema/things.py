# SPDX-License-Identifier: Apache-2.0
"""What an expression of a source may stand for, beside Python's own constants and containers."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tree import Assigned, Module


@dataclass(frozen=True, slots=True)
class Unknown:
    """An expression that has no value here: its text."""

    text: str


@dataclass(frozen=True, slots=True)
class Outside:
    """Something outside the tree, by its dotted name."""

    name: str


@dataclass(frozen=True, slots=True)
class ClassOf:
    """A class of the tree."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """The class's own name."""
        return self.node.name


@dataclass(frozen=True, slots=True)
class FunctionOf:
    """A function of the tree, or a method together with the class that it was looked up in."""

    module: Module
    node: ast.FunctionDef
    owner: ClassOf | None = None


@dataclass(frozen=True, slots=True)
class ModuleOf:
    """A module of the tree."""

    module: Module


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an enumeration."""

    owner: str
    name: str
    value: object


@dataclass(frozen=True, slots=True)
class Lambda:
    """A function without a name."""

    module: Module
    node: ast.Lambda


MISSING = Unknown("<missing>")


@dataclass(frozen=True, slots=True)
class FieldValue:
    """What ``field()`` or ``Field()`` says of a class's field."""

    default: object = MISSING
    factory: object = MISSING
    is_given: bool = True
    bounds: Mapping[str, object] = field(default_factory=dict)


def members(node: ast.ClassDef) -> Iterator[tuple[str, Assigned | ast.FunctionDef]]:
    """Yield what the body of a class defines."""
    for one in node.body:
        match one:
            case ast.FunctionDef():
                yield one.name, one
            case ast.AnnAssign(target=ast.Name(id=name), value=value, annotation=annotation):
                yield name, Assigned(value, annotation)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, Assigned(value, None)
