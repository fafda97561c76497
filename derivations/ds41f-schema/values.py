# SPDX-License-Identifier: Apache-2.0
"""What expressions of a tree's sources are worth, as far as that can be said without running them.

Constants, containers, classes and their attributes are values. Whatever lies outside the tree is known by its dotted
name, and anything else by its source text: whoever needs more of it says that it was not understood.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping

from things import MISSING, ClassOf, FieldValue, FunctionOf, Lambda, Member, ModuleOf, Outside, Unknown, members
from tree import Assigned, Definition, Imported, Module, NotUnderstood, Tree

BOUNDS = ("ge", "gt", "le", "lt")
_OPERATORS: dict[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[object, object], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: operator.contains(b, a),
    ast.NotIn: lambda a, b: not operator.contains(b, a),
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_BUILTINS = frozenset("bool bytes dict float frozenset int list object set str tuple type".split())  # noqa: SIM905
_TEXT_METHODS = frozenset("endswith lower removeprefix removesuffix replace startswith strip upper".split())  # noqa: SIM905
_NOT_KNOWN = (Unknown, Outside)


class Values:
    """Evaluates expressions of one tree. ``facts`` are values of expressions that depend on where the program runs."""

    def __init__(self, tree: Tree, facts: Mapping[str, object]) -> None:
        self.tree = tree
        self.facts = facts

    def of(self, node: ast.expr, module: Module, names: Mapping[str, object] | None = None) -> object:
        """Return the value of an expression; ``names`` are those of the function at hand."""
        text = ast.unparse(node)
        if text in self.facts:
            return self.facts[text]
        try:
            return self._of(node, module, names or {})
        except (TypeError, KeyError, IndexError, ZeroDivisionError):
            return Unknown(text)

    def named(self, name: str, module: Module) -> object:
        """Return what a name of a module is worth."""
        found = self.tree.find(module, name)
        if found is None:
            return Outside(f"builtins.{name}") if name in _BUILTINS else Unknown(name)
        return Outside(found) if isinstance(found, str) else self._defined(*found)

    def _defined(self, module: Module, definition: Definition) -> object:
        match definition:
            case ast.ClassDef():
                return ClassOf(module, definition)
            case ast.FunctionDef():
                return FunctionOf(module, definition)
            case Imported():
                return ModuleOf(module)
            case Assigned(value=value):
                return MISSING if value is None else self.of(value, module)

    def _of(self, node: ast.expr, module: Module, names: Mapping[str, object]) -> object:  # noqa: C901, PLR0911, PLR0912
        def of(one: ast.expr) -> object:
            return self.of(one, module, names)

        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return names[name] if name in names else self.named(name, module)
            case ast.Attribute(value=value, attr=attr):
                return self.attribute(of(value), attr)
            case ast.List(elts=elements):
                return [one for element in elements for one in self._element(element, of)]
            case ast.Tuple(elts=elements):
                return tuple(one for element in elements for one in self._element(element, of))
            case ast.Set(elts=elements):
                return {of(one) for one in elements}
            case ast.Dict(keys=keys, values=values):
                made: dict[object, object] = {}
                for key, value in zip(keys, values, strict=True):
                    made |= {of(key): of(value)} if key is not None else _mapping(of(value))
                return made
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _both(_OPERATORS[type(op)], of(left), of(right), node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _both(operator.sub, 0, of(operand), node)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.truth(operand, module, names)
            case ast.BoolOp(op=op, values=values):
                return (all if isinstance(op, ast.And) else any)(self.truth(one, module, names) for one in values)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                return _both(_COMPARISONS[type(op)], of(left), of(right), node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return of(body if self.truth(test, module, names) else orelse)
            case ast.Subscript(value=value, slice=index):
                return self._item(of(value), of(index), node)
            case ast.Lambda():
                return Lambda(module, node)
            case ast.JoinedStr(values=values):
                parts = [of(one.value) if isinstance(one, ast.FormattedValue) else of(one) for one in values]
                return "".join(map(str, parts)) if all(isinstance(p, str | int) for p in parts) else _unknown(node)
            case ast.Call():
                return self.called(node, of)
            case _:
                return _unknown(node)

    def truth(self, node: ast.expr, module: Module, names: Mapping[str, object]) -> bool:
        """Say whether a condition holds; whoever asks cannot go on without knowing."""
        value = self.of(node, module, names)
        if isinstance(value, _NOT_KNOWN):
            raise NotUnderstood(f"{module.where(node)}: cannot say whether this holds: {ast.unparse(node)}")
        return bool(value)

    def attribute(self, value: object, name: str) -> object:
        """Return an attribute: of a class, a module, or something outside."""
        match value:
            case ModuleOf(module=module):
                return self.named(name, module)
            case Outside(name=text) | Unknown(text=text):
                return type(value)(f"{text}.{name}")
            case ClassOf():
                return value.name if name == "__name__" else self.class_attribute(value, name)
            case Member(name=shown, value=inner) if name in ("name", "value"):
                return shown if name == "name" else inner
            case _:
                return Unknown(f"{value!r}.{name}")

    def class_attribute(self, owner: ClassOf, name: str) -> object:
        """Return an attribute of a class or of the classes that it is made from."""
        for one in self.lineage(owner):
            for key, definition in members(one.node):
                if key != name:
                    continue
                if isinstance(definition, ast.FunctionDef):
                    return FunctionOf(one.module, definition, owner)
                value = MISSING if definition.value is None else self.of(definition.value, one.module)
                if self.is_enumeration(one) and definition.value is not None:
                    return Member(one.name, name, value)
                return value
        return Unknown(f"{owner.name}.{name}")

    def lineage(self, owner: ClassOf) -> Iterator[ClassOf]:
        """Yield a class and those classes of the tree that it is made from, nearest first."""
        yield owner
        for base in owner.node.bases:
            found = self.of(base, owner.module)
            if isinstance(found, ClassOf):
                yield from self.lineage(found)

    def bases_outside(self, owner: ClassOf) -> set[str]:
        """Return the dotted names of the classes outside the tree that a class is made from."""
        found = set()
        for one in self.lineage(owner):
            for base in one.node.bases:
                plain = base.value if isinstance(base, ast.Subscript) else base
                value = self.of(plain, one.module)
                if isinstance(value, Outside):
                    found.add(value.name)
        return found

    def is_enumeration(self, owner: ClassOf) -> bool:
        """Say whether a class is an enumeration."""
        return any(name.startswith("enum.") for name in self.bases_outside(owner))

    def enumeration(self, owner: ClassOf) -> dict[str, object]:
        """Return the members of an enumeration with their values, in order."""
        found = {key: self.class_attribute(owner, key) for key, one in members(owner.node) if isinstance(one, Assigned)}
        return {name: one.value for name, one in found.items() if isinstance(one, Member) and not name.startswith("_")}

    def called(self, node: ast.Call, of: Callable[[ast.expr], object]) -> object:
        """Return what a call gives: fields and a few builtins are known, and no function is run."""
        function = of(node.func)
        name = function.name if isinstance(function, Outside) else ""
        if isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT_METHODS:
            text, parts = of(node.func.value), [of(one) for one in node.args]
            if isinstance(text, str) and all(isinstance(one, str) for one in parts):
                return getattr(text, node.func.attr)(*parts)
        given = {one.arg: of(one.value) for one in node.keywords if one.arg}
        if name in ("dataclasses.field", "pydantic.Field", "pydantic.fields.Field"):
            default = of(node.args[0]) if node.args else given.get("default", MISSING)
            bounds = {key: given[key] for key in BOUNDS if key in given}
            return FieldValue(default, given.get("default_factory", MISSING), given.get("init", True) is True, bounds)
        if ast.unparse(node.func) == "LazyLoader" and isinstance(node.args[-1], ast.Constant):
            found = self.tree.module(str(node.args[-1].value))
            return ModuleOf(found) if found else Unknown(ast.unparse(node))
        if name in ("builtins.list", "builtins.tuple", "builtins.int", "builtins.str") and len(node.args) == 1:
            value = of(node.args[0])
            if not isinstance(value, (*_NOT_KNOWN, ClassOf, FunctionOf, Member)):
                return {"list": list, "tuple": tuple, "int": int, "str": str}[name[9:]](value)
        return Unknown(ast.unparse(node))

    def _element(self, node: ast.expr, of: Callable[[ast.expr], object]) -> Iterator[object]:
        if not isinstance(node, ast.Starred):
            yield of(node)
            return
        value = of(node.value)
        if not isinstance(value, list | tuple):
            raise NotUnderstood(f"cannot say what stands in {ast.unparse(node)}")
        yield from value

    def _item(self, value: object, index: object, node: ast.expr) -> object:
        if isinstance(value, dict) or (isinstance(value, list | tuple | str) and isinstance(index, int)):
            return value[index]
        if isinstance(value, list | tuple) and isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            low = node.slice.lower
            start = low.value if isinstance(low, ast.Constant) else 0
            return value[start:] if node.slice.upper is None and isinstance(start, int) else _unknown(node)
        return _unknown(node)


def _unknown(node: ast.expr) -> Unknown:
    return Unknown(ast.unparse(node))


def _mapping(value: object) -> dict[object, object]:
    if not isinstance(value, dict):
        raise NotUnderstood(f"cannot say what stands in {value!r}")
    return value


def _both(apply: Callable[[object, object], object], left: object, right: object, node: ast.expr) -> object:
    is_unknown = isinstance(left, _NOT_KNOWN) or isinstance(right, _NOT_KNOWN)
    return _unknown(node) if is_unknown else apply(left, right)
