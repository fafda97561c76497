# SPDX-License-Identifier: Apache-2.0
"""A value of a recipe as the words of a command line, and as text.

Core: no IO. Standard library only. Nothing is quoted here: a word is what the process gets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from derive.canonical import Json
from derive.recipes.forms import decimal_text


def argument_words(name: str, value: Json) -> tuple[str, ...]:
    """Return the words of one option: ``--name``, ``--no-name``, or ``--name`` and its value.

    A table is one word of JSON, as is a list that holds a table or a list; a list of plain values is a word for each.
    """
    if value is True:
        return (f"--{name}",)
    if value is False:
        return (f"--no-{name}",)
    if isinstance(value, Sequence) and not isinstance(value, str) and all(map(_is_plain, value)):
        return (f"--{name}", *(plain_text(item) for item in value))
    return (f"--{name}", plain_text(value))


def plain_text(value: Json) -> str:
    """Return a value as one word: text as it is, a decimal as it was typed, tables and lists as JSON."""
    return value if isinstance(value, str) else decimal_text(value) or json_text(value)


def json_text(value: Json) -> str:
    """Return compact JSON, keys sorted, a decimal as it was typed (which is JSON too)."""
    if isinstance(value, Mapping):
        number = decimal_text(value)
        if number is not None:
            return _json_number(number)
        pairs = (f"{json_text(key)}:{json_text(value[key])}" for key in sorted(value))
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(json_text, value)) + "]"
    return json.dumps(value, ensure_ascii=True)


def _is_plain(value: Json) -> bool:
    return not isinstance(value, Mapping | list | tuple) or decimal_text(value) is not None


def _json_number(text: str) -> str:
    """Return TOML's digits as JSON has them, which knows neither ``+1.0`` nor ``1_000.0``."""
    return text.removeprefix("+").replace("_", "")
