# SPDX-License-Identifier: Apache-2.0
"""What tables of ``fabric/`` and of site files are made of, and whether one is: every problem, with its key path.

Core: no IO. Standard library only: every rendering reads a site, and a parser of models takes longer than the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from derive.errors import Problem, expected_got
from derive.recipes.check import shown, where
from derive.recipes.forms import Form
from derive.words import near

if TYPE_CHECKING:
    from derive.canonical import Json

KeyPath: TypeAlias = "tuple[str | int, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with certain keys, some of which must be there."""

    keys: Mapping[str, Spec]
    required: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Each:
    """A table whose keys are free: each name of one form, each value as said."""

    names: Form
    values: Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A list of alike things, ``least`` at least, and ``exactly`` so many where that is said."""

    of: Spec
    least: int = 0
    exactly: int | None = None


Spec: TypeAlias = "Form | Table | Each | Rows"


def problems(spec: Spec, value: Json, file: str, path: KeyPath = ()) -> Iterator[Problem]:
    """Yield what is wrong with a value."""
    match spec:
        case Form():
            if not spec.accepts(value):
                detail = expected_got(spec.expects, shown(value))
                yield Problem(where=where(file, path), message="not what this key holds", detail=detail)
        case Rows():
            yield from _rows(spec, value, file, path)
        case Table() | Each():
            if isinstance(value, Mapping):
                yield from _table(spec, value, file, path)
            else:
                detail = expected_got("a table", shown(value))
                yield Problem(where=where(file, path), message="not what this key holds", detail=detail)


def _rows(spec: Rows, value: Json, file: str, path: KeyPath) -> Iterator[Problem]:
    if not isinstance(value, list):
        wanted = "a list" if spec.exactly is None else f"a list of {spec.exactly}"
        detail = expected_got(wanted, shown(value))
        yield Problem(where=where(file, path), message="not what this key holds", detail=detail)
        return
    if spec.exactly is not None and len(value) != spec.exactly:
        detail = expected_got(f"a list of {spec.exactly}", f"a list of {len(value)}")
        yield Problem(where=where(file, path), message="not what this key holds", detail=detail)
    elif len(value) < spec.least:
        yield Problem(where=where(file, path), message="empty", hint="name one at least, or leave the key out")
    for index, item in enumerate(value):
        yield from problems(spec.of, item, file, (*path, index))


def _table(spec: Table | Each, value: Mapping[str, Json], file: str, path: KeyPath) -> Iterator[Problem]:
    if isinstance(spec, Each):
        for key, item in value.items():
            if not spec.names.accepts(key):
                yield Problem(where=where(file, (*path, key)), message=f"not {spec.names.expects}")
            yield from problems(spec.values, item, file, (*path, key))
        return
    for key in sorted(spec.required - value.keys()):
        yield Problem(where=where(file, (*path, key)), message="this key is missing")
    for key, item in value.items():
        if key in spec.keys:
            yield from problems(spec.keys[key], item, file, (*path, key))
        else:
            yield Problem(where=where(file, (*path, key)), message="unknown key", hint=near(key, spec.keys))
