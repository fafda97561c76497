# SPDX-License-Identifier: Apache-2.0
"""Values, types and classes as they stand in JSON: integers and text, no floating-point numbers, all sorted."""

from __future__ import annotations

import ast
import math

from hints import ELLIPSIS, Hint
from kwargs import ConfigField, Configs, Made, extra
from things import MISSING, ClassOf, FunctionOf, Lambda, Member, Outside, Unknown, members
from tree import Assigned

_CONVERTING = ("before", "plain")


def plain(value: object) -> object:  # noqa: PLR0911 - one decision over a closed set
    """Return a value as JSON: ``decimal`` for a float, ``made`` or ``expression`` for what only running could tell."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            text = repr(int(value)) + ".0" if math.isfinite(value) and value == int(value) else repr(value)
            return {"decimal": text} if math.isfinite(value) else {"expression": text}
        case list() | tuple():
            return [plain(one) for one in value]
        case set() | frozenset():
            return sorted((plain(one) for one in value), key=str)
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case Member():
            return {"member": value.name}
        case Made():
            return {"made": str(value)}
        case Unknown(text=text) | Outside(name=text):
            return {"expression": text}
        case FunctionOf(node=node) | ClassOf(node=node):
            return {"expression": node.name}
        case Lambda(node=node):
            return {"expression": ast.unparse(node)}
        case _:
            return {"expression": repr(value)}


class Writer:
    """Collects the classes and enumerations that options refer to."""

    def __init__(self, configs: Configs) -> None:
        self._configs = configs
        self._classes: dict[str, object] = {}
        self._enums: dict[str, object] = {}

    def tables(self) -> dict[str, object]:
        """Return all that was referred to."""
        return {"configs": self._classes, "enums": self._enums}

    def refer(self, owner: ClassOf) -> str:
        """Write a configuration class, and what its fields name in turn; return its name."""
        if owner.name not in self._classes:
            self._classes[owner.name] = {}  # a class may name itself
            rule = next((rule for one in self._configs.values.lineage(owner) if (rule := extra(one))), "ignore")
            converted = converting(owner)
            fields = {one.name: self._field(one, converted) for one in self._configs.fields(owner)}
            self._classes[owner.name] = {"extra": rule, "fields": fields}
        return owner.name

    def enumeration(self, owner: ClassOf) -> str:
        """Write an enumeration; return its name."""
        found = self._configs.values.enumeration(owner)
        values = [one for one in found.values() if isinstance(one, int | str) and not isinstance(one, bool)]
        self._enums[owner.name] = {"names": list(found), "values": values if len(values) == len(found) else []}
        return owner.name

    def _field(self, one: ConfigField, converted: set[str]) -> dict[str, object]:
        made: dict[str, object] = {"type": [self._type(hint) for hint in one.hints]}
        if one.default is not MISSING and one.default is not None:
            made["default"] = plain(one.default)
        elif one.default is MISSING:
            made["required"] = True
        if one.bounds:
            made["bounds"] = plain(one.bounds)
        made |= {"given": False} if not one.is_given else {}
        return made | ({"converted": True} if converted & {one.name, "*"} else {})

    def _type(self, hint: Hint) -> object:
        if hint.kind == "literal":
            return {"choice": [plain(one) for one in hint.arguments]}
        if hint.kind == "class" and hint.owner is not None:
            if self._configs.values.is_enumeration(hint.owner):
                return {"enum": self.enumeration(hint.owner)}
            return {"config": self.refer(hint.owner)} if self._configs.is_config(hint.owner) else "any"
        if hint.kind in ("class", "other", "object", "type"):
            return "any"
        if not hint.arguments:
            return hint.kind
        parts = [one for one in hint.arguments if isinstance(one, tuple) and one != ELLIPSIS]
        inner = parts[-1] if hint.kind == "dict" else parts[0]
        return {"list" if hint.kind in ("set", "frozenset", "tuple") else hint.kind: [self._type(one) for one in inner]}


def converting(owner: ClassOf) -> set[str]:
    """Return the fields of a class whose values a function of the class reads first: other forms may do."""
    found: set[str] = set()
    for _, one in members(owner.node):
        for node in [] if isinstance(one, Assigned) else one.decorator_list:
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "field_validator":
                mode = next((ast.literal_eval(k.value) for k in node.keywords if k.arg == "mode"), "after")
                if mode in _CONVERTING:
                    found |= {str(ast.literal_eval(name)) for name in node.args}
    return found
