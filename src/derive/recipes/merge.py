# SPDX-License-Identifier: Apache-2.0
"""Laying a shape's tables over what all shapes share.

Core: no IO. Standard library only.

Tables merge key by key; anything else replaces what is below it; ``{ absent = "why" }`` removes it. Nothing depends on
the order in which keys stand, and ``merge(a, merge(b, c))`` is ``merge(merge(a, b), c)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from derive.canonical import Json
from derive.recipes.forms import is_table, removal

KeyPath: TypeAlias = "tuple[str, ...]"
Tables: TypeAlias = "Mapping[str, Json]"


class _Fresh(dict[str, Json]):
    """A table that stands where below it is none: what is still further below is not merged into it."""


def merge(below: Tables, above: Tables) -> Tables:
    """Lay one table over another; removals are kept, so that the result can itself be laid over something."""
    if isinstance(above, _Fresh):
        return above
    merged: dict[str, Json] = _Fresh(below) if isinstance(below, _Fresh) else dict(below)
    for key, value in above.items():
        merged[key] = _over(merged[key], value) if key in merged else value
    return merged


def prune(tables: Tables) -> dict[str, Json]:
    """Return a table as plain dicts, without what was removed."""
    return {key: _plain(value) for key, value in tables.items() if removal(value) is None}


def removals(tables: Tables, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the path of each removal."""
    for key, value in tables.items():
        if removal(value) is not None:
            yield (*path, key)
        elif isinstance(value, dict) and is_table(value):
            yield from removals(value, (*path, key))


def find(tables: Tables, path: KeyPath) -> Json:
    """Return the value at a path, which may be a removal; None where there is nothing."""
    value: Json = tables
    for key in path:
        if not isinstance(value, dict) or not is_table(value):
            return None
        value = value.get(key)
    return value


def place(tables: dict[str, Json], path: KeyPath, value: Json) -> None:
    """Set the value at a path of a pruned table, making the tables on the way."""
    for key in path[:-1]:
        below = tables.get(key)
        if not isinstance(below, dict):
            below = tables[key] = {}
        tables = below
    tables[path[-1]] = value


def leaves(tables: Tables, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Json]]:
    """Yield each value that is no table, or an empty one, with its path."""
    for key, value in tables.items():
        if isinstance(value, dict) and value and is_table(value):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _over(below: Json, above: Json) -> Json:
    if not isinstance(above, dict) or not is_table(above):
        return above
    if isinstance(below, dict) and is_table(below):
        return merge(below, above)
    return above if isinstance(above, _Fresh) else _Fresh(above)


def _plain(value: Json) -> Json:
    if isinstance(value, dict):
        return prune(value) if is_table(value) else dict(value)
    return list(value) if isinstance(value, list) else value
