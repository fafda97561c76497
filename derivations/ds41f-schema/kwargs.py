# SPDX-License-Identifier: Apache-2.0
"""From a configuration class to what the parser is told of each field, by the rules of vLLM's ``get_kwargs``.

Each field gives a mapping with keys of argparse: ``type``, ``choices``, ``nargs``, ``const``, ``action``, ``default``.
A type is a :class:`Kind`; ``bounds`` are the least and greatest value that the class takes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hints import ELLIPSIS, Hint, Hints
from things import MISSING, ClassOf, FieldValue, FunctionOf, Lambda, Outside, members
from tree import Assigned, Module, NotUnderstood
from values import Values

BOOLEAN = "boolean"
_KINDS = {"str": "text", "int": "int", "float": "float", "bool": "bool"}
_EMPTY = {"builtins.dict": dict, "builtins.list": list, "builtins.set": set, "collections.Counter": dict}
_READABLE = "human_readable_int_args"


@dataclass(frozen=True, slots=True)
class Kind:
    """How the text of a value is read. ``through`` is a function of vLLM's own that reads it first."""

    name: str
    optional: bool = False
    config: str | None = None
    through: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigField:
    """One field of a configuration class."""

    name: str
    hints: tuple[Hint, ...]
    default: object
    is_given: bool
    bounds: dict[str, object]


class Configs:
    """Configuration classes of one tree."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.hints = Hints(values)
        self.referred: dict[str, ClassOf] = {}

    def fields(self, owner: ClassOf) -> list[ConfigField]:
        """Return the fields of a data class, those of its bases first."""
        found: dict[str, ConfigField] = {}
        for one in reversed(list(self.values.lineage(owner))):
            for name, definition in members(one.node):
                annotation = definition.annotation if isinstance(definition, Assigned) else None
                if annotation is not None and not self.hints.is_variable_of_class(annotation, one.module):
                    found[name] = self._field(name, definition, one)
        return list(found.values())

    def _field(self, name: str, definition: Assigned, owner: ClassOf) -> ConfigField:
        assert definition.annotation is not None
        hints = self.hints.of(definition.annotation, owner.module)
        value = MISSING if definition.value is None else self.values.of(definition.value, owner.module)
        given, bounds = True, {}
        if isinstance(value, FieldValue):
            given, bounds = value.is_given, dict(value.bounds)
            value = self.made(value)
        return ConfigField(name, hints, value, given, bounds)

    def made(self, value: FieldValue) -> object:
        """Return the default of a field, made by its factory where it has one."""
        match value.factory:
            case Lambda(module=module, node=node):
                return self.values.of(node.body, module)
            case Outside(name=name) if name in _EMPTY:
                return _EMPTY[name]()
            case ClassOf() if "builtins.dict" in self.values.bases_outside(value.factory):
                return {}
            case _ if value.factory is not MISSING:
                return Made(value.factory)
            case _:
                return value.default

    def is_config(self, owner: ClassOf) -> bool:
        """Say whether a class is a data class, of whichever kind."""
        return any(extra(one) is not None for one in self.values.lineage(owner))

    def kwargs(self, owner: ClassOf) -> dict[str, dict[str, object]]:
        """Return what the parser is told of each field."""
        sizes = self._sizes()
        return {one.name: self._kwargs(one, sizes) for one in self.fields(owner)}

    def _kwargs(self, one: ConfigField, sizes: frozenset[str]) -> dict[str, object]:
        kwargs: dict[str, object] = {"default": one.default, "help": ""}
        if one.bounds:
            kwargs["bounds"] = one.bounds
        kinds = {hint.kind for hint in one.hints}
        config = next((h.owner for h in one.hints if h.owner is not None and self.is_config(h.owner)), None)
        others = any(hint.kind in ("class", "other", "literal") for hint in one.hints)
        if config is not None:
            kwargs["type"] = self.refer(config)
        elif kinds == {"bool", "str", "none"}:
            kwargs |= {"type": Kind("text"), "nargs": "?", "const": True}
        elif "bool" in kinds:
            kwargs["action"] = BOOLEAN
        elif "literal" in kinds:
            kwargs |= _choices(one.hints)
        elif collection := next((name for name in ("tuple", "list", "set") if name in kinds), None):
            kwargs |= _elements(one.hints, collection)
        elif "int" in kinds:
            name = "size-or-auto" if one.name == "max_model_len" else "size" if one.name in sizes else "int"
            kwargs["type"] = Kind(name)
        elif "float" in kinds:
            kwargs["type"] = Kind("float")
        elif "dict" in kinds:
            kwargs["type"] = Kind("json-or-text" if "str" in kinds or others else "json")
        elif "str" in kinds or others:
            kwargs["type"] = Kind("text")
        else:
            raise NotUnderstood(f"field {one.name}: no argument is made of {' | '.join(map(str, one.hints))}")
        kind = kwargs.get("type")
        if "none" in kinds and "bool" not in kinds and isinstance(kind, Kind):
            kwargs["type"] = replace(kind, optional=True)
            if isinstance(kwargs.get("choices"), list):
                kwargs["choices"].append(None)  # type: ignore[attr-defined]
        members_of = [h.owner for h in one.hints if h.owner is not None and self.values.is_enumeration(h.owner)]
        if members_of and "str" not in kinds:
            kwargs["enumeration"] = members_of[0]
        return kwargs

    def refer(self, owner: ClassOf) -> Kind:
        """Note that some option takes the JSON of a configuration class."""
        self.referred[owner.name] = owner
        return Kind("config", config=owner.name)

    def _sizes(self) -> frozenset[str]:
        """Return the fields whose numbers may be written with a suffix: vLLM names them in a set."""
        module = self.values.tree.need("vllm.engine.arg_utils")
        for function in ("_compute_kwargs", "get_kwargs"):
            found = module.names.get(function)
            for node in ast.walk(found) if isinstance(found, ast.FunctionDef) else ():
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == _READABLE:
                    names = self.values.of(node.value, module)
                    if isinstance(names, set | frozenset):
                        return frozenset(map(str, names))
        raise NotUnderstood(f"{module.name}: no set {_READABLE} of fields with readable numbers")


@dataclass(frozen=True, slots=True)
class Made:
    """A default that a class or function makes."""

    by: object

    def __str__(self) -> str:
        match self.by:
            case ClassOf(node=node):
                return f"{node.name}()"
            case FunctionOf(node=node, owner=owner):
                return f"{owner.name}.{node.name}()" if owner else f"{node.name}()"
            case _:
                return f"{getattr(self.by, 'name', None) or getattr(self.by, 'text', '?')}()"


def extra(owner: ClassOf) -> str | None:
    """Return what a data class does with keys that it does not have; None where it is no data class."""
    for node in owner.node.decorator_list:
        name = ast.unparse(node.func if isinstance(node, ast.Call) else node)
        if name.split(".")[-1] in ("config", "dataclass"):
            said = next(_said(node), None) if isinstance(node, ast.Call) else None
            return said or ("forbid" if name == "config" else "ignore")
    return None


def _said(node: ast.Call) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.keyword) and one.arg == "extra" and isinstance(one.value, ast.Constant):
            yield str(one.value.value)


def _choices(hints: tuple[Hint, ...]) -> dict[str, object]:
    choices = next(hint.arguments for hint in hints if hint.kind == "literal")
    kind = Kind(_KINDS[type(choices[0]).__name__])
    is_open = any(hint.kind == "str" for hint in hints)
    return {"type": kind, "metavar" if is_open else "choices": sorted(choices, key=lambda one: (str(type(one)), one))}


def _elements(hints: tuple[Hint, ...], collection: str) -> dict[str, object]:
    arguments = next(hint.arguments for hint in hints if hint.kind == collection)
    kinds = [one for one in arguments if isinstance(one, tuple) and one != ELLIPSIS]
    element = kinds[0] if kinds else (Hint("str"),)
    nargs: object = "+" if collection != "tuple" or ELLIPSIS in arguments else len(kinds)
    literal = next((hint for hint in element if hint.kind == "literal"), None)
    if literal is not None:
        return _choices((literal,)) | {"nargs": nargs}
    name = next((_KINDS[hint.kind] for hint in element if hint.kind in _KINDS), None) if len(element) == 1 else "text"
    return {"type": Kind(name or "text"), "nargs": nargs}


def of_class(values: Values, module: Module, name: str) -> ClassOf:
    """Return a class that must be there."""
    found = values.named(name, module)
    if not isinstance(found, ClassOf):
        raise NotUnderstood(f"{module.name}: no class {name}")
    return found
