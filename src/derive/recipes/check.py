# SPDX-License-Identifier: Apache-2.0
"""Is a recipe's file made of the keys that recipes have, each of its form? Every problem, each with its key path.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from derive.canonical import Json
from derive.errors import Problem, expected_got
from derive.recipes.declarations import REQUIRED_ABOVE, SHAPE, TOP, Each, Spec
from derive.recipes.forms import Form, decimal_text, removal
from derive.recipes.merge import KeyPath, Tables, find, removals
from derive.toml import key_path
from derive.words import near


def where(file: str, path: tuple[str | int, ...]) -> str:
    """Write a place as messages have it: ``recipes/ds41f.toml: service.port``."""
    return f"{file}: {key_path(path)}" if path else file


def shown(value: Json) -> str:
    """Write a value for a message, without passwords in URLs, and not all of a long one."""
    from derive.net.places import hide_credentials

    if isinstance(value, Mapping):
        return decimal_text(value) or "a table"
    if isinstance(value, list):
        return "a list" if len(value) != 1 else f"a list of one: {shown(value[0])}"
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return hide_credentials(text)[:120]


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem, and the path of the key that it is about."""

    path: KeyPath
    problem: Problem


def faults(table: Tables, file: str) -> list[Fault]:
    """Return what is wrong with the form of a recipe's file; what its shapes come to is not looked at."""
    check = _Check(file)
    for key in REQUIRED_ABOVE:
        if key not in table:
            check.note((key,), "this key is missing")
    check.table(TOP, table, ())
    shapes = table.get("shapes")
    if isinstance(shapes, dict):
        check.shapes(table, shapes)
    return check.found


def without(table: Tables, paths: AbstractSet[KeyPath], path: KeyPath = ()) -> dict[str, Json]:
    """Return a copy of a table without the keys at some paths."""
    return {
        key: without(value, paths, (*path, key)) if isinstance(value, dict) else value
        for key, value in table.items()
        if (*path, key) not in paths
    }


class _Check:
    """What has been found wrong with one file so far."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Fault] = []

    def note(self, path: KeyPath, message: str, detail: tuple[str, ...] = (), hint: str | None = None) -> None:
        """Note one problem."""
        problem = Problem(where=where(self.file, path), message=message, detail=detail, hint=hint)
        self.found.append(Fault(path, problem))

    def shapes(self, table: Tables, shapes: Tables) -> None:
        """Look at what the shapes are together."""
        if not shapes:
            self.note(("shapes",), "no shape: a recipe has one at least")
        default = table.get("default-shape")
        if isinstance(default, str) and shapes and default not in shapes:
            detail = expected_got(" or ".join(sorted(shapes)), default)
            self.note(("default-shape",), "no such shape in this recipe", detail)
        for name, own in shapes.items():
            for path in removals(own) if isinstance(own, dict) else ():
                if find(table, path) is None and path[0] in SHAPE:
                    self.note(("shapes", name, *path), "nothing that the shapes share is there to be removed")

    def table(self, spec: Mapping[str, Spec] | Each, table: Tables, path: KeyPath) -> None:
        """Look at the keys of a table and at their values."""
        for key, value in table.items():
            here = (*path, key)
            inner = spec.values if isinstance(spec, Each) else spec.get(key)
            if inner is None:
                self.note(here, "unknown key", hint=near(key, spec) if isinstance(spec, Mapping) else None)
            elif isinstance(spec, Each) and not spec.names.accepts(key):
                self.note(here, f"not {spec.names.expects}", hint=spec.names.near(key))
            else:
                self._value(inner, value, here)

    def _value(self, spec: Spec, value: Json, path: KeyPath) -> None:
        in_shape = path[0] == "shapes" and len(path) > 2
        if removal(value) is not None:
            if not in_shape:
                self.note(path, "only a shape can remove something, which all shapes share")
        elif isinstance(spec, Form):
            if not spec.accepts(value):
                self.note(path, "not what this key holds", expected_got(spec.expects, shown(value)), spec.near(value))
            elif isinstance(value, dict) and not in_shape:
                for inner in removals(value, path):
                    self.note(inner, "only a shape can remove something, which all shapes share")
        elif isinstance(value, dict) and decimal_text(value) is None:
            self.table(spec, value, path)
        else:
            self.note(path, "not a table", expected_got("a table", shown(value)))
