# SPDX-License-Identifier: Apache-2.0
"""What all shapes say alike is written once; what differs stands in each.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derive.canonical import Json
from derive.importing.cluster import Draft
from derive.recipes.forms import is_table

_ALWAYS_OWN = ("cabling", "transport", "tuning", "kernel-backend", "promotion")
_ORDER = (
    "model",
    "service",
    "arguments",
    "environment",
    "mounts",
    "cache",
    "container",
    "guard",
    "host",
)


def recipe_document(drafts: Sequence[Draft], image: str, default: str) -> dict[str, Json]:
    """Return a recipe of these shapes: laying a shape over what is shared gives its draft again."""
    shared = common([draft.tables for draft in drafts])
    shapes: dict[str, Json] = {}
    for draft in drafts:
        own = {key: draft.tables[key] for key in _ALWAYS_OWN if key in draft.tables}
        shapes[draft.name] = {**own, **_ordered(beside(draft.tables, {**shared, **own}))}
    return {"format": 1, "image": image, "default-shape": default, **_ordered(shared), "shapes": shapes}


def common(tables: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Return what stands alike in every table, looking into tables below."""
    first, *others = tables
    found: dict[str, Json] = {}
    for key, value in first.items():
        if key in _ALWAYS_OWN or not all(key in one for one in others):
            continue
        values = [one[key] for one in others]
        if all(one == value for one in values):
            found[key] = value
        elif all(is_table(one) for one in (value, *values)):
            inner = common([one for one in (value, *values) if isinstance(one, Mapping)])
            if inner:
                found[key] = inner
    return found


def beside(table: Mapping[str, Json], shared: Mapping[str, Json]) -> dict[str, Json]:
    """Return what a table says that the shared one does not."""
    found: dict[str, Json] = {}
    for key, value in table.items():
        below = shared.get(key)
        if key not in shared:
            found[key] = value
        elif value != below and isinstance(value, Mapping) and isinstance(below, Mapping):
            found[key] = beside(value, below)
        elif value != below:
            found[key] = value
    return found


def _ordered(table: Mapping[str, Json]) -> dict[str, Json]:
    return {key: table[key] for key in sorted(table, key=lambda key: (_ORDER.index(key) if key in _ORDER else -1, key))}
