# SPDX-License-Identifier: Apache-2.0
"""Follows the functions that build vLLM's parser, statement by statement, and notes each option that they add.

Only what such functions are written with is understood; anything else is an error with its place, so that a vLLM whose
parser is built otherwise is never misread.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from kwargs import Configs, Kind
from things import ClassOf, FunctionOf, Lambda, Outside, Unknown
from tree import Module, NotUnderstood, absolute

_PLAIN = {"int": "int", "str": "text", "float": "float"}
_KINDS = {"json.loads": "json", "human_readable_int": "size", "human_readable_int_or_auto": "size-or-auto"}
_ADD_NOTHING = ("current_platform.pre_register_and_update",)
"""Calls that are given the parser and, on the platforms that are read for, leave it as it is."""
_METHODS = frozenset("append copy extend get items keys pop remove setdefault update values".split())  # noqa: SIM905


@dataclass(frozen=True, slots=True)
class Option:
    """One option, or argument without a name, as it was added."""

    flags: tuple[str, ...]
    given: dict[str, object]


@dataclass(slots=True)
class Parser:
    """Stands for the parser, or for a group of it."""

    options: list[Option]


class _Return(Exception):
    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


@dataclass(slots=True)
class Frame:
    """A function that is being followed."""

    module: Module
    names: dict[str, object] = field(default_factory=dict)
    owner: ClassOf | None = None
    method_of: ClassOf | None = None


class Follower:
    """Follows functions of one tree."""

    def __init__(self, configs: Configs) -> None:
        self._configs = configs
        self._values = configs.values

    def follow(self, function: FunctionOf, arguments: list[object], named: dict[str, object] | None = None) -> object:
        """Run a function on some values, and return what it returns."""
        frame = Frame(function.module, dict(named or {}), function.owner, self._holder(function))
        decorators = {ast.unparse(one) for one in function.node.decorator_list}
        names = [one.arg for one in function.node.args.args]
        defaults = function.node.args.defaults
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            frame.names.setdefault(name, self._values.of(default, function.module))
        if function.owner is not None and "staticmethod" not in decorators:
            arguments = [function.owner, *arguments]
        frame.names |= dict(zip(names, arguments, strict=False))
        try:
            self._body(function.node.body, frame)
        except _Return as end:
            return end.value
        return None

    def _holder(self, function: FunctionOf) -> ClassOf | None:
        """Return the class in whose body a method stands: ``super()`` begins behind it."""
        if function.owner is None:
            return None
        return next(one for one in self._values.lineage(function.owner) if function.node in one.node.body)

    def _body(self, body: list[ast.stmt], frame: Frame) -> None:
        for node in body:
            self._statement(node, frame)

    def _statement(self, node: ast.stmt, frame: Frame) -> None:
        match node:
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self._of(value, frame), frame)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self._of(value, frame), frame)
            case ast.AugAssign(target=ast.Subscript(slice=ast.Constant(value="help"))):
                pass
            case ast.Delete(targets=[ast.Subscript(value=value, slice=key)]):
                self._mapping(value, frame).pop(self._of(key, frame), None)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=value):
                self._of(value, frame)
            case ast.If(test=test):
                holds = self._values.truth(test, frame.module, frame.names)
                self._body(node.body if holds else node.orelse, frame)
            case ast.For(target=target, iter=iterated):
                for one in list(self._of(iterated, frame)):  # type: ignore[call-overload]
                    self._assign(target, one, frame)
                    self._body(node.body, frame)
            case ast.ImportFrom(names=names):
                for alias in names:
                    frame.names[alias.asname or alias.name] = self._import(absolute(node, frame.module), alias.name)
            case ast.Return(value=value):
                raise _Return(None if value is None else self._of(value, frame))
            case _:
                raise NotUnderstood(f"{frame.module.where(node)}: {ast.unparse(node).splitlines()[0]}")

    def _import(self, module: str, name: str) -> object:
        found = self._values.tree.module(module)
        if found is None:
            return Outside(f"{module}.{name}")
        return self._values.named(name, found)

    def _assign(self, target: ast.expr, value: object, frame: Frame) -> None:
        match target:
            case ast.Name(id=name):
                frame.names[name] = value
            case ast.Tuple(elts=elements):
                for element, one in zip(elements, value, strict=True):  # type: ignore[call-overload]
                    self._assign(element, one, frame)
            case ast.Subscript(value=value_of, slice=key):
                self._mapping(value_of, frame)[self._of(key, frame)] = value
            case ast.Attribute():
                pass
            case _:
                raise NotUnderstood(f"{frame.module.where(target)}: {ast.unparse(target)}")

    def _mapping(self, node: ast.expr, frame: Frame) -> dict[object, object]:
        value = self._of(node, frame)
        if not isinstance(value, dict):
            raise NotUnderstood(f"{frame.module.where(node)}: no mapping: {ast.unparse(node)}")
        return value

    def _of(self, node: ast.expr, frame: Frame) -> object:
        if isinstance(node, ast.Call):
            return self._call(node, frame)
        if isinstance(node, ast.Dict):
            made: dict[object, object] = {}
            for key, value in zip(node.keys, node.values, strict=True):
                made |= self._mapping(value, frame) if key is None else {self._of(key, frame): self._of(value, frame)}
            return made
        if isinstance(node, ast.Subscript):
            value = self._of(node.value, frame)
            if isinstance(value, dict):
                key = self._of(node.slice, frame)
                if key not in value:
                    raise NotUnderstood(f"{frame.module.where(node)}: no key {key!r} in {ast.unparse(node.value)}")
                return value[key]
        return self._values.of(node, frame.module, frame.names)

    def _call(self, node: ast.Call, frame: Frame) -> object:
        positional = [self._of(one, frame) for one in node.args if not isinstance(one, ast.Starred)]
        positional += [x for one in node.args if isinstance(one, ast.Starred) for x in _sequence(one, self, frame)]
        named: dict[str, object] = {}
        for keyword in node.keywords:
            value = self._of(keyword.value, frame)
            named |= value if keyword.arg is None and isinstance(value, dict) else {str(keyword.arg): value}
        if isinstance(node.func, ast.Attribute):
            receiver = self._of(node.func.value, frame)
            method = node.func.attr
            if isinstance(receiver, Parser):
                return self._added(receiver, method, positional, named, node, frame)
            if isinstance(receiver, dict | list) and method in _METHODS:
                return getattr(receiver, method)(*positional, **named)
            if ast.unparse(node.func.value) == "super()":
                return self._super(method, positional, named, frame)
        function = self._values.of(node.func, frame.module, frame.names)
        shown = ast.unparse(node.func)
        if shown == "get_kwargs" and isinstance(positional[0], ClassOf):
            return self._configs.kwargs(positional[0])
        if shown in ("optional_type", "parse_type"):
            kind = self.kind(positional[0])
            return Kind(kind.name, shown == "optional_type" or kind.optional, kind.config, kind.through)
        if shown == "get_args":
            hints = self._configs.hints.of(node.args[0], frame.module)
            return tuple(hints[0].arguments)
        if isinstance(function, FunctionOf) and any(_is_ours(one) for one in [*positional, *named.values()]):
            return self.follow(function, positional, named)
        if any(isinstance(one, Parser) for one in positional) and shown not in _ADD_NOTHING:
            raise NotUnderstood(f"{frame.module.where(node)}: {shown} may add options")
        return self._values.of(node, frame.module, frame.names)

    def _super(self, method: str, positional: list[object], named: dict[str, object], frame: Frame) -> object:
        owner, holder = frame.owner, frame.method_of
        assert owner is not None
        lineage = list(self._values.lineage(owner))
        for one in lineage[lineage.index(holder) + 1 :] if holder in lineage else []:
            found = next((n for n in one.node.body if isinstance(n, ast.FunctionDef) and n.name == method), None)
            if found is not None:
                return self.follow(FunctionOf(one.module, found, owner), positional, named)
        raise NotUnderstood(f"{frame.module.name}: nothing behind super().{method}")

    def _added(
        self,
        parser: Parser,
        method: str,
        positional: list[object],
        named: dict[str, object],
        node: ast.Call,
        frame: Frame,
    ) -> object:
        if method == "add_argument_group":
            return parser
        if method == "add_argument":
            if not all(isinstance(one, str) for one in positional):
                raise NotUnderstood(f"{frame.module.where(node)}: an option without a name that is known")
            flags = tuple(map(str, positional))
            if "type" in named:
                named["type"] = self.kind(named["type"])
            parser.options.append(Option(flags, named))
            return Unknown("action")
        raise NotUnderstood(f"{frame.module.where(node)}: parser.{method}")

    def kind(self, value: object) -> Kind:
        """Return how a value's text is read, from what was given as ``type``."""
        match value:
            case Kind():
                return value
            case Outside(name=name) if name.removeprefix("builtins.") in _PLAIN:
                return Kind(_PLAIN[name.removeprefix("builtins.")])
            case Outside(name="json.loads"):
                return Kind("json")
            case FunctionOf(node=node) if node.name in _KINDS:
                return Kind(_KINDS[node.name])
            case FunctionOf(node=node):
                return Kind("text", through=node.name)
            case Lambda():
                return Kind("text", through="lambda")
            case _:
                raise NotUnderstood(f"no rule for values of the type {value!r}")


def _sequence(node: ast.Starred, follower: Follower, frame: Frame) -> list[object]:
    value = follower._of(node.value, frame)  # noqa: SLF001 - of this module
    if not isinstance(value, list | tuple):
        raise NotUnderstood(f"{frame.module.where(node)}: {ast.unparse(node)}")
    return list(value)


def _is_ours(value: object) -> bool:
    """Say whether a value is one that a function must be followed for: a parser, or what one is told of fields."""
    return isinstance(value, Parser) or (isinstance(value, dict) and any(isinstance(v, dict) for v in value.values()))
