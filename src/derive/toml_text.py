# SPDX-License-Identifier: Apache-2.0
"""Documents as TOML text for people to go on editing: short tables on one line, long ones under a heading of their own.

Core: no IO. Standard library only.

A decimal is ``{"decimal": "0.82"}``, written as it stands. A whole document is read again and compared, always.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from derive.canonical import Json
from derive.toml import parse_toml, quoted

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_DECIMAL = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WIDTH = 120


def toml_text(document: Mapping[str, Json], heading: str = "") -> str:
    """Write a document; ``heading`` is a comment before it, of one or more lines.

    Raises:
        ValueError: on null, on a decimal that TOML has no form for, and when what was written reads differently.
    """
    lines = [f"# {row}".rstrip() for row in heading.splitlines()]
    lines += _table(document, ())
    text = "\n".join(lines) + "\n"
    read, problems = parse_toml(text.encode("utf-8"), "written")
    if problems or read != _plain(document):
        raise ValueError(f"what was written reads differently: {problems or read}")
    return text


def toml_line(key: str, value: Json) -> str:
    """Write one key and its value on a line, whatever they hold, for files with a layout of their own.

    Raises:
        ValueError: on what TOML has no form for: null, some decimals, halves of surrogate pairs.
    """
    return f"{_key(key)} = {_inline(value)}"


def _table(table: Mapping[str, Json], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table: what fits on a line first, then the tables below it."""
    below: dict[str, Json] = {}
    for key, value in table.items():
        line = toml_line(key, value)
        if _wants_heading(value, line, at_root=not path):
            below[key] = value
        else:
            yield from [line] if len(line) <= _WIDTH else _long(key, value, line)
    for key, value in below.items():
        name = ".".join(_key(part) for part in (*path, key))
        if isinstance(value, Mapping):
            rows = list(_table(value, (*path, key)))
            if not rows or not rows[0].startswith("\n"):
                yield f"\n[{name}]"
            yield from rows
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for one in value:
                assert isinstance(one, Mapping)
                yield f"\n[[{name}]]"
                yield from _table(one, (*path, key))


def _long(key: str, value: Json, line: str) -> Iterator[str]:
    """Yield a list that is too long for a line, one element on each; anything else stays as it is."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        yield line
        return
    yield f"{_key(key)} = ["
    yield from (f"    {_inline(one)}," for one in value)
    yield "]"


def _is_table(value: Json) -> bool:
    return isinstance(value, Mapping) and "decimal" not in value


def _wants_heading(value: Json, line: str, *, at_root: bool) -> bool:
    """Say whether a table is long, or holds tables, or stands at the root; lists of tables always want one."""
    if not isinstance(value, Mapping) or not _is_table(value):
        return _is_tables(value)
    return at_root or len(line) > _WIDTH or any(map(_is_table, value.values()))


def _is_tables(value: Json) -> bool:
    """Say whether a value is a list of tables, none of which is short."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        return False
    return all(_is_table(one) for one in value)


def _inline(value: Json) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return _string(value)
        case {"decimal": str(text), **others} if not others:
            if not _DECIMAL.fullmatch(text) or text.lstrip("+-").isdecimal():
                raise ValueError(f"{text} is no decimal that TOML can hold")
            return text
        case Mapping():
            inner = ", ".join(toml_line(key, one) for key, one in value.items())
            return f"{{ {inner} }}" if inner else "{}"
        case None:
            raise ValueError("TOML has no null")
        case _:
            return "[" + ", ".join(_inline(one) for one in value) + "]"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    if any("\ud800" <= character < "\ue000" for character in text):
        raise ValueError("TOML has no form for half of a surrogate pair")
    return quoted(text)


def _plain(value: Json) -> Json:
    """Return a value as a parser would give it: lists and dicts, whatever they were."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return value
