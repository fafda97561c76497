# SPDX-License-Identifier: Apache-2.0
"""An imported shape held against the file that it came from: every argument and variable, one by one.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.canonical import Json
from derive.importing.account import Row
from derive.importing.cluster import Draft
from derive.importing.follows import derived, of_nodes, site_key
from derive.recipes.forms import is_table
from derive.recipes.resolved import Resolved
from derive.recipes.values import plain_text


def differences(draft: Draft, resolved: Resolved) -> Iterator[Row]:
    """Yield a row for each value of the old file that the shape has otherwise, and for each that it has besides."""
    yield from _arguments(draft, draft.said_arguments, resolved.arguments, ())
    said = {name: value for name, value in draft.said_environment.items() if site_key(name) is None}
    for name in sorted(said.keys() | resolved.environment.keys()):
        before, after = said.get(name), resolved.environment.get(name)
        if before != after:
            key = f"environment.{name}"
            yield _row(draft, key, key, before, after)


def _arguments(
    draft: Draft, said: Mapping[str, Json], given: Mapping[str, Json], path: tuple[str, ...]
) -> Iterator[Row]:
    names = [*said, *(name for name in given if name not in said)]
    for name in names:
        here = (*path, name)
        if ("arguments", *here) in of_nodes():
            continue
        before, after = said.get(name), given.get(name)
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping) and is_table(before) and is_table(after):
            yield from _arguments(draft, before, after, here)
            continue
        key = ".".join(here)
        yield _row(draft, f"serve_args: --{key}", f"arguments.{key}", _text(before), _text(after))


def _row(draft: Draft, key: str, place: str, before: str | None, after: str | None) -> Row:
    rule = derived().get(tuple(place.split(".")))
    by = f", by rule {rule}" if rule else ""
    if before is None:
        return Row(file=draft.file, key=key, state="added", place=place, note=f"{after}{by}: the file says nothing")
    note = f"the file says {before}, {draft.name} has {after if after is not None else 'nothing'}{by}"
    return Row(file=draft.file, key=key, state="differs", place=place, note=note)


def _text(value: Json) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else plain_text(value)
