# SPDX-License-Identifier: Apache-2.0
"""A program's argument list as options with typed values, and options as the list that they stand for.

Core: no IO.

Numbers become numbers and JSON becomes tables only where the same text comes back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import Json
from derive.importing.read import parse_option

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,14})")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+")
_NUMBER = re.compile(r"-[0-9.]+")
_SHORT = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-n": "nnodes",
    "-r": "node-rank",
    "-O": "compilation-config",
    "-q": "quantization",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What an argument list says: words before the first option, and options by name without dashes.

    An option that is given alone is true, ``--no-NAME`` is false, one with several words is a list; of one that is
    given twice the later counts.
    """

    positional: tuple[str, ...]
    options: Mapping[str, Json]


def parse_arguments(words: Sequence[str]) -> Arguments:
    """Read an argument list."""
    first = next((at for at, word in enumerate(words) if _is_option(word)), len(words))
    options: dict[str, Json] = {}
    for name, values in _groups(words[first:]):
        options.pop(name, None)
        if not values:
            options |= {name.removeprefix("no-"): False} if name.startswith("no-") else {name: True}
        else:
            options[name] = typed(values[0]) if len(values) == 1 else [_plain(value) for value in values]
    return Arguments(positional=tuple(words[:first]), options=options)


def merged_arguments(shared: Sequence[str], own: Sequence[str]) -> list[str]:
    """Lay a shape's argument list over the shared one: its options and words replace those of the same name."""
    first, second = (dict(_groups(_options(words))) for words in (shared, own))
    positional = _positional(own) or _positional(shared)
    opposite = {_opposite(name) for name in second}
    kept = {name: values for name, values in first.items() if name not in opposite}
    return [*positional, *(word for name, values in {**kept, **second}.items() for word in (f"--{name}", *values))]


def typed(text: str) -> Json:
    """Return what a value says: a number, a table, a list of tables or lists, or the text itself."""
    if text[:1] not in ("{", "["):
        return _plain(text)
    try:
        found = parse_option(text)
    except (ValueError, RecursionError):
        return text
    # A list of plain values would be given as several words.
    if isinstance(found, list) and not any(isinstance(one, list | dict) and "decimal" not in one for one in found):
        return text
    return found


def _plain(text: str) -> Json:
    if _INTEGER.fullmatch(text) and text != "-0":
        return int(text)
    return {"decimal": text} if _DECIMAL.fullmatch(text) else text


def holds_null(value: Json) -> bool:
    """Say whether a JSON value has a null in it, for which TOML has no form."""
    match value:
        case None:
            return True
        case Mapping():
            return any(map(holds_null, value.values()))
        case str() | bool() | int():
            return False
        case _:
            return any(map(holds_null, value))


def _groups(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each option's name and the words up to the next; underscores in a name are hyphens."""
    at = 0
    while at < len(words):
        name, separator, value = words[at].partition("=")
        values = [value] if separator else []
        at += 1
        while not separator and at < len(words) and not _is_option(words[at]):
            values.append(words[at])
            at += 1
        yield _SHORT.get(name) or name.lstrip("-").replace("_", "-"), values


def _options(words: Sequence[str]) -> Sequence[str]:
    first = next((at for at, word in enumerate(words) if _is_option(word)), len(words))
    return words[first:]


def _positional(words: Sequence[str]) -> Sequence[str]:
    return words[: len(words) - len(_options(words))]


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word)


def _opposite(name: str) -> str:
    return name.removeprefix("no-") if name.startswith("no-") else f"no-{name}"
