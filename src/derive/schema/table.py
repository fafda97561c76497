# SPDX-License-Identifier: Apache-2.0
"""A schema as tables for people: options and variables, all or those that have some words.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from derive.canonical import Json
from derive.schema.model import Option, Schema, Variable
from derive.schema.values import listed
from derive.words import columns

E = TypeVar("E", Option, Variable)
_WIDTH = 60


def tables(schema: Schema, words: Sequence[str]) -> str:
    """Return options, then variables, as lines in columns; empty when none has all the words."""
    options = [_option(one) for one in matching(schema.options.values(), words)]
    variables = [_variable(one) for one in matching(schema.variables.values(), words)]
    return "\n\n".join("\n".join(columns(rows)) for rows in (options, variables) if rows)


def matching(entries: Iterable[E], words: Sequence[str]) -> list[E]:
    """Return the entries whose lines have all of some words, in whichever case; sorted by name."""
    found = []
    for one in sorted(entries, key=lambda entry: entry.name):
        line = " ".join(_line(one)).lower()
        if all(word.lower() in line for word in words):
            found.append(one)
    return found


def shown(value: Json) -> str:
    """Return a default as people write it."""
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case {"decimal": text, **others} | {"made": text, **others} | {"member": text, **others} if not others:
            return str(text)
        case {"expression": text, **others} if not others:
            return f"<{text}>"
        case str():
            return value or "''"
        case Mapping() | Sequence():
            return "{}" if isinstance(value, Mapping) else "[" + ", ".join(map(shown, value)) + "]"
        case _:
            return str(value)


def _line(one: Option | Variable) -> list[str]:
    return _option(one) if isinstance(one, Option) else _variable(one)


def _option(one: Option) -> list[str]:
    kind = one.type + (" list" if one.nargs == "+" or one.repeated else "")
    words = one.choices or one.known or ()
    about = one.config or one.enum or listed(words)
    return [
        f"--{one.name}",
        kind + (", deprecated" if one.deprecated else ""),
        shown(one.default)[:_WIDTH],
        about[:_WIDTH],
    ]


def _variable(one: Variable) -> list[str]:
    about = listed(one.choices) or ", ".join(sorted(one.readers))
    return [one.name, one.kind, shown(one.default)[:_WIDTH], about[:_WIDTH]]
