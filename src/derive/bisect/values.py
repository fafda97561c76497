# SPDX-License-Identifier: Apache-2.0
"""The edits between two documents, key by key, and a document with some of them made.

Core: no IO.

A key that only one has, with all below it, is one edit; a list whose items have names is compared name by name, and
its order is an edit of its own; any other list is one value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from derive.canonical import Json
from derive.toml import key_path

Key: TypeAlias = tuple[str, ...]
"""A key path: keys, and names of a list's items, which are written in brackets."""

ORDER: Final = "(order)"


@dataclass(frozen=True, slots=True)
class ValueEdit:
    """One edit of a document; None where one of the two has no such key."""

    key: Key
    before: Json
    after: Json


def value_edits(before: Json, after: Json, key: Key = ()) -> Iterator[ValueEdit]:
    """Yield the edits that make the first document the second."""
    if before == after and type(before) is type(after):
        return
    tables = _tables(before, after)
    if tables is None:
        yield ValueEdit(key, before, after)
        return
    for name in dict.fromkeys([*tables[0], *tables[1]]):
        old, new = (table.get(name) for table in tables)
        if old is None or new is None:
            yield ValueEdit((*key, name), old, new)
        else:
            yield from value_edits(old, new, (*key, name))
    if _is_list(before) and not in_order(list(tables[0]), list(tables[1])):
        yield ValueEdit((*key, ORDER), list(tables[0]), list(tables[1]))


def composed_value(before: Json, after: Json, chosen: Collection[Key], key: Key = ()) -> Json:
    """Return the first document with some of the edits made."""
    if before == after and type(before) is type(after):
        return before
    tables = _tables(before, after)
    if tables is None:
        return after if key in chosen else before
    made: dict[str, Json] = {}
    for name in dict.fromkeys([*tables[0], *tables[1]]):
        old, new = (table.get(name) for table in tables)
        here = (*key, name)
        if old is None or new is None:
            value = new if here in chosen else old
            if value is not None:
                made[name] = value
        else:
            made[name] = composed_value(old, new, chosen, here)
    if not _is_list(before):
        return made
    order = merged(list(tables[0]), list(tables[1]), made.__contains__, by_second=(*key, ORDER) in chosen)
    return [made[name] for name in order]


def in_order(first: Sequence[str], second: Sequence[str]) -> bool:
    """Say whether what both have stands in one order in both."""
    return [one for one in first if one in second] == [one for one in second if one in first]


def merged(
    first: Sequence[str], second: Sequence[str], present: Callable[[str], bool], *, by_second: bool
) -> list[str]:
    """Return the names that are present in the order of one list, each other after what it follows in its own list."""
    lead, other = (second, first) if by_second else (first, second)
    found = [name for name in lead if present(name)]
    for place, name in enumerate(other):
        if name not in found and present(name):
            before = next((one for one in reversed(other[:place]) if one in found), None)
            found.insert(0 if before is None else found.index(before) + 1, name)
    return found


def key_words(file: str, key: Key) -> str:
    """Write where a value stands."""
    text = ""
    for part in key:
        text = text + part if part.startswith("[") else key_path((part,), text)
    return f"{file}: {text}" if text else file


def _tables(before: Json, after: Json) -> tuple[Mapping[str, Json], Mapping[str, Json]] | None:
    """Return two tables that are compared key by key, or two lists by their items' names; None for other values."""
    one, two = _table(before), _table(after)
    if one is None or two is None or _is_list(before) != _is_list(after):
        return None
    return one, two


def _table(value: Json) -> Mapping[str, Json] | None:
    if isinstance(value, Mapping):
        return None if value.keys() == {"decimal"} else value
    if not _is_list(value) or not isinstance(value, Sequence):
        return None
    names = [one.get("name") if isinstance(one, Mapping) else None for one in value]
    texts = [f"[{name}]" for name in names if isinstance(name, str)]
    if not value or len(set(texts)) != len(value):
        return None
    return dict(zip(texts, value, strict=True))


def _is_list(value: Json) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
