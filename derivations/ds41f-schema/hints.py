# SPDX-License-Identifier: Apache-2.0
"""Annotations of fields: the set of types that one allows, with aliases followed and unions taken apart."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from things import ClassOf, ModuleOf, Outside, Unknown
from tree import Assigned, Definition, Module, NotUnderstood
from values import Values

_BUILTINS = frozenset("bool bytes dict float frozenset int list object set str tuple type".split())  # noqa: SIM905
_UNIONS = ("typing.Union", "typing.Optional")
_TRANSPARENT = ("typing.Annotated", "typing_extensions.Annotated", "pydantic.SkipValidation", "typing.Final")


@dataclass(frozen=True, slots=True)
class Hint:
    """One type: a builtin's name, ``none``, ``literal`` (arguments are its values), ``class``, or ``other``."""

    kind: str
    arguments: tuple[object, ...] = ()
    owner: ClassOf | None = None

    def __str__(self) -> str:
        match self.kind:
            case "literal":
                return "choice"
            case "class":
                return self.owner.name if self.owner else "any"
            case "other":
                return "any" if self.arguments == ("typing.Any",) else f"<{self.arguments[0]}>"
            case _ if self.arguments:
                inner = ", ".join(" | ".join(map(str, one)) for one in self.arguments if isinstance(one, tuple))
                return f"{self.kind}[{inner}]"
            case _:
                return self.kind


ELLIPSIS = (Hint("..."),)


class Hints:
    """Reads annotations of one tree."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def of(self, node: ast.expr, module: Module) -> tuple[Hint, ...]:
        """Return the types that an annotation allows, each once, in order."""
        return tuple(dict.fromkeys(self._of(node, module)))

    def is_variable_of_class(self, node: ast.expr, module: Module) -> bool:
        """Say whether an annotation declares no field: a variable of the class, or of its constructor alone."""
        plain = node.value if isinstance(node, ast.Subscript) else node
        return self._name(plain, module) in ("typing.ClassVar", "dataclasses.InitVar")

    def _of(self, node: ast.expr, module: Module) -> list[Hint]:
        match node:
            case ast.Constant(value=None):
                return [Hint("none")]
            case ast.Constant(value=str() as text):
                return self._of(ast.parse(text, mode="eval").body, module)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return [*self._of(left, module), *self._of(right, module)]
            case ast.Subscript(value=value, slice=inner):
                return self._generic(value, inner, module)
            case ast.Name() | ast.Attribute():
                return self._plain(node, module)
            case _:
                raise NotUnderstood(f"{module.where(node)}: no type that is known: {ast.unparse(node)}")

    def _generic(self, value: ast.expr, inner: ast.expr, module: Module) -> list[Hint]:
        name, parts = self._name(value, module), inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if name in ("typing.Literal", "typing_extensions.Literal"):
            return [Hint("literal", tuple(self._choices(parts, module)))]
        if name in _UNIONS:
            found = [hint for part in parts for hint in self._of(part, module)]
            return [*found, Hint("none")] if name == "typing.Optional" else found
        if name in _TRANSPARENT:
            return self._of(parts[0], module)
        kind = name.removeprefix("builtins.").removeprefix("typing.").lower()
        if kind in _BUILTINS:
            shown = [ELLIPSIS if ast.unparse(part) == "..." else self.of(part, module) for part in parts]
            return [Hint(kind, tuple(shown))]
        return self._plain(value, module)

    def _plain(self, node: ast.expr, module: Module) -> list[Hint]:
        name = self._name(node, module)
        kind = name.removeprefix("builtins.").removeprefix("typing.").lower()
        if kind in _BUILTINS:
            return [Hint(kind)]
        found = self._defined(node, module)
        if isinstance(found, tuple) and isinstance(found[1], Assigned) and found[1].value is not None:
            return self._of(found[1].value, found[0])
        value = self._values.of(node, module)
        if isinstance(value, ClassOf):
            is_dict = "builtins.dict" in self._values.bases_outside(value)
            return [Hint("dict") if is_dict else Hint("class", owner=value)]
        return [Hint("other", (name,))]

    def _defined(self, node: ast.expr, module: Module) -> tuple[Module, Definition] | str | None:
        """Return what defines a name, or a name in another module."""
        if isinstance(node, ast.Name):
            return self._values.tree.find(module, node.id)
        holder = self._values.of(node.value, module) if isinstance(node, ast.Attribute) else None
        if isinstance(node, ast.Attribute) and isinstance(holder, ModuleOf):
            return self._values.tree.find(holder.module, node.attr)
        return None

    def _choices(self, parts: list[ast.expr], module: Module) -> list[object]:
        """Return the values of a ``Literal``, in which other ones may stand by name."""
        found: list[object] = []
        for part in parts:
            if isinstance(part, ast.Constant):
                found.append(part.value)
                continue
            for hint in self._of(part, module):
                if hint.kind != "literal":
                    raise NotUnderstood(f"{module.where(part)}: no literal: {ast.unparse(part)}")
                found += hint.arguments
        return list(dict.fromkeys(found))

    def _name(self, node: ast.expr, module: Module) -> str:
        """Return the dotted name of something outside the tree, or the text that stands there."""
        value = self._values.of(node, module)
        if isinstance(value, Outside | Unknown):
            return value.name if isinstance(value, Outside) else value.text
        return ast.unparse(node)
