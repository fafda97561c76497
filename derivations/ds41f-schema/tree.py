# SPDX-License-Identifier: Apache-2.0
"""A tree of Python sources that is read and never imported: modules, and what a name in one of them means.

Where a block is for type checkers alone, the other branch counts: it is what runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


class NotUnderstood(Exception):
    """Something is written in a way that this reader has no rule for. It is never guessed what it means."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A name that stands for a module, or for something in it."""

    module: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Assigned:
    """A name that is given a value; ``annotation`` is there where the assignment has one."""

    value: ast.expr | None
    annotation: ast.expr | None


Definition = Imported | Assigned | ast.ClassDef | ast.FunctionDef


@dataclass(slots=True, eq=False)
class Module:
    """One source file: its dotted name, and its top-level names."""

    name: str
    is_package: bool
    names: dict[str, Definition] = field(default_factory=dict)

    def where(self, node: ast.AST) -> str:
        """Return a place in this module, for messages."""
        return f"{self.name}:{getattr(node, 'lineno', 0)}"


class Tree:
    """Modules of one package below a folder, each read when something in it is asked for."""

    def __init__(self, root: Path, package: str) -> None:
        self.root = root
        self._package = package
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """Return a module, or None where the package has none of that name."""
        if name not in self._modules:
            is_ours = name.partition(".")[0] == self._package
            self._modules[name] = self._read(name) if is_ours else None
        return self._modules[name]

    def need(self, name: str) -> Module:
        """Return a module that must be there."""
        module = self.module(name)
        if module is None:
            raise NotUnderstood(f"no module {name} below {self.root}")
        return module

    def find(self, module: Module, name: str) -> tuple[Module, Definition] | str | None:
        """Return what a name of a module is, however often it was imported onwards.

        A text is the dotted name of something outside the folder; None means that the module has no such name.
        """
        seen: set[tuple[str, str]] = set()
        while (module.name, name) not in seen:
            seen.add((module.name, name))
            definition = module.names.get(name)
            if not isinstance(definition, Imported):
                inner = self.module(f"{module.name}.{name}") if definition is None and module.is_package else None
                return (inner, Imported(inner.name, None)) if inner else definition and (module, definition)
            target = self.module(definition.module)
            if definition.name is None:
                return (target, definition) if target else definition.module
            if target is None:
                return f"{definition.module}.{definition.name}"
            module, name = target, definition.name
        raise NotUnderstood(f"{module.name}: {name} is imported in a circle")

    def _read(self, name: str) -> Module | None:
        base = self.root.joinpath(*name.split("."))
        for path, is_package in ((base / "__init__.py", True), (base.with_suffix(".py"), False)):
            if path.is_file():
                module = Module(name, is_package)
                for key, definition in definitions(ast.parse(path.read_bytes()).body, module):
                    module.names[key] = definition
                return module
        return None


def definitions(body: list[ast.stmt], module: Module) -> Iterator[tuple[str, Definition]]:
    """Yield the names that statements define, in order."""
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef():
                yield node.name, node
            case ast.Assign(targets=targets, value=value):
                yield from ((one.id, Assigned(value, None)) for one in targets if isinstance(one, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=value, annotation=annotation):
                yield name, Assigned(value, annotation)
            case ast.Import(names=names):
                for alias in names:
                    shown = alias.asname or alias.name.split(".")[0]
                    yield shown, Imported(alias.name if alias.asname else shown, None)
            case ast.ImportFrom(names=names):
                source = absolute(node, module)
                yield from ((alias.asname or alias.name, Imported(source, alias.name)) for alias in names)
            case ast.If(test=test):
                runs = node.orelse if is_for_checkers(test) else [*node.orelse, *node.body]
                yield from definitions(runs, module)
            case ast.Try():
                yield from definitions([*(one for h in node.handlers for one in h.body), *node.body], module)
            case _ if type(node).__name__ == "TypeAlias":  # known to the parsers of Python 3.12 and newer
                yield node.name.id, Assigned(node.value, None)  # type: ignore[attr-defined]


def is_for_checkers(test: ast.expr) -> bool:
    """Say whether a block is there for type checkers alone."""
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def absolute(node: ast.ImportFrom, module: Module) -> str:
    """Return the module that a ``from`` names, written in full."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    package = parts[: len(parts) - node.level + module.is_package]
    return ".".join([*package, *([node.module] if node.module else [])])
