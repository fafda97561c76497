# SPDX-License-Identifier: Apache-2.0
"""Which keys of a recipe moved from one release to the next, where both texts are at hand.

Core: no IO. A release states its recipe's digest alone; the text is named by the record, and found by that hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.bisect.values import ORDER, ValueEdit, value_edits
from derive.canonical import Json
from derive.records.model import Record
from derive.report.model import Change
from derive.report.values import clean, table, worded
from derive.toml import key_path, parse_toml

Texts = Mapping[str, bytes]
"""Texts of recipes by their SHA-256 in hex; whoever gives them has hashed them."""


def text_digests(record: Record) -> dict[str, str]:
    """Return the SHA-256 in hex of each recipe's text that a release's record names, by path."""
    named = table(record.body.get("texts"))
    return {path: digest for path, digest in named.items() if isinstance(digest, str) and _is_inside(path)}


def keys_moved(name: str, first: Record, second: Record, texts: Texts) -> Iterator[Change]:
    """Yield each key of a recipe that moved between two releases; nothing where a text is not at hand."""
    path = f"recipes/{name}.toml"
    sides = [_table(path, texts.get(text_digests(one).get(path, ""))) for one in (first, second)]
    if sides[0] is None or sides[1] is None:
        return
    for edit in value_edits(sides[0], sides[1]):
        yield Change(part="recipe", what=_key(edit), before=_side(edit.before), after=_side(edit.after))


def _is_inside(path: str) -> bool:
    """Say whether a path that a record states is that of a recipe: it may say anything."""
    return path.startswith("recipes/") and path.endswith(".toml") and path.count("/") == 1


def _table(path: str, data: bytes | None) -> dict[str, Json] | None:
    return None if data is None else parse_toml(data, path)[0]


def _key(edit: ValueEdit) -> str:
    text = ""
    for part in edit.key:
        text = f"{text}, order" if part == ORDER else text + part if part.startswith("[") else key_path((part,), text)
    return clean(text)


def _side(value: Json) -> str | None:
    if isinstance(value, Mapping) and len(value) == 1 and "decimal" not in value:
        (key, held) = next(iter(value.items()))
        return clean(f"{key} = {worded(held)}")
    return None if value is None else worded(value)
