# SPDX-License-Identifier: Apache-2.0
"""JSON values held against the types of a schema: keys, choices, bounds.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from derive.canonical import Json
from derive.schema.model import Config, ConfigKey, Schema
from derive.words import nearest

_PLAIN = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "none": "null"}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a value: below which keys, what was expected, and what may have been meant."""

    path: tuple[str, ...]
    message: str
    expected: str = ""
    near: str | None = None


def number(value: Json) -> Decimal | None:
    """Return the number that a value is, decimals included; None for anything else."""
    match value:
        case bool():
            return None
        case int():
            return Decimal(value)
        case {"decimal": str() as text, **others} if not others:
            try:
                return Decimal(text)
            except InvalidOperation:
                return None
        case _:
            return None


def bound_faults(value: Json, bounds: Mapping[str, Json], path: tuple[str, ...] = ()) -> Iterator[Fault]:
    """Yield the bounds that a number breaks."""
    given = number(value)
    if given is None:
        return
    holds = {"ge": given.__ge__, "gt": given.__gt__, "le": given.__le__, "lt": given.__lt__}
    for key, limit in bounds.items():
        bound = number(limit)
        if bound is not None and not holds[key](bound):
            yield Fault(path, "out of bounds", f"{_BOUNDS[key]} {bound}")


def config_faults(value: Json, name: str, schema: Schema, path: tuple[str, ...] = ()) -> Iterator[Fault]:
    """Yield what is wrong with a JSON value whose keys are those of a configuration class."""
    config = schema.configs[name]
    if not isinstance(value, Mapping) or "decimal" in value:
        yield Fault(path, "not a table", "a table")
        return
    for key, inner in value.items():
        known = config.keys.get(key)
        if known is not None and known.given:
            yield from key_faults(inner, known, schema, (*path, key))
        elif known is not None:
            yield Fault((*path, key), "only the program sets this key")
        elif not config.is_open:
            yield Fault((*path, key), f"{name} has no key {key!r}", near=nearest(key, _settable(config)))


def _settable(config: Config) -> list[str]:
    return [key for key, one in config.keys.items() if one.given]


def key_faults(value: Json, key: ConfigKey, schema: Schema, path: tuple[str, ...]) -> Iterator[Fault]:
    """Yield what is wrong with the value of one key."""
    nested = [one["config"] for one in key.types if isinstance(one, Mapping) and "config" in one]
    others = [one for one in key.types if not (isinstance(one, Mapping) and "config" in one)]
    if isinstance(value, Mapping) and nested and not _fits_any(value, others, schema):
        yield from config_faults(value, str(nested[0]), schema, path)
    elif _fits_any(value, key.types, schema):
        yield from bound_faults(value, key.bounds, path)
    elif not (key.converted and _may_be_converted(value, key, schema)):
        known = choices_of(key.types, schema)
        words = isinstance(value, str) and known
        message = f"{value!r} is no value of it" if words else "a value of another type"
        yield Fault(path, message, describe(key.types, schema), nearest(value, known) if words else None)


def _may_be_converted(value: Json, key: ConfigKey, schema: Schema) -> bool:
    """Say whether a function of the class may make a value of a text: any, or the name of a member in any case."""
    known = choices_of(key.types, schema)
    return not known or (isinstance(value, str) and value.lower() in {str(one).lower() for one in known})


def _fits_any(value: Json, types: Sequence[Json], schema: Schema) -> bool:
    return any(fits(value, one, schema) for one in types)


def fits(value: Json, expected: Json, schema: Schema) -> bool:  # noqa: PLR0911 - one decision over a closed set
    """Say whether a value is of a type."""
    match expected:
        case "any":
            return True
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return number(value) is not None
        case "str" | "bool":
            return isinstance(value, {"str": str, "bool": bool}[expected])
        case "none":
            return value is None
        case "dict" | {"dict": _}:
            is_table = isinstance(value, Mapping) and number(value) is None
            inner = expected["dict"] if isinstance(expected, Mapping) else ["any"]
            assert isinstance(inner, Sequence)
            return is_table and all(_fits_any(one, inner, schema) for one in value.values())  # type: ignore[union-attr]
        case {"list": inner}:
            assert isinstance(inner, Sequence)
            return _is_list(value) and all(_fits_any(one, inner, schema) for one in value)  # type: ignore[union-attr]
        case {"choice": choices}:
            assert isinstance(choices, Sequence)
            return any(type(one) is type(value) and one == value for one in choices)
        case {"enum": str() as name}:
            enum = schema.enums[name]
            return value in enum.names or (not isinstance(value, bool) and value in enum.values)
        case {"config": str() as name}:
            return isinstance(value, Mapping) and not any(config_faults(value, name, schema))
        case _:
            return _is_list(value)


def _is_list(value: Json) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def choices_of(types: Sequence[Json], schema: Schema) -> list[Json]:
    """Return the values that types name one by one; none where any text does."""
    if "str" in types or "any" in types:
        return []
    found: list[Json] = []
    for one in types:
        if isinstance(one, Mapping):
            choices, enum = one.get("choice"), one.get("enum")
            found += choices if isinstance(choices, list) else []
            found += schema.enums[enum].names if isinstance(enum, str) else ()
    return found


def describe(types: Sequence[Json], schema: Schema) -> str:
    """Return what types expect, in words."""
    return " or ".join(dict.fromkeys(_words(one, schema) for one in types if one != "none"))


def _words(one: Json, schema: Schema) -> str:
    match one:
        case str():
            return _PLAIN.get(one, {"list": "a list", "dict": "a table"}.get(one, "anything"))
        case {"choice": list() as choices}:
            return listed(choices)
        case {"enum": str() as name}:
            return listed(schema.enums[name].names)
        case {"list": list() as inner}:
            return f"a list of {describe(inner, schema)}"
        case {"config": _} | {"dict": _}:
            return "a table"
        case _:
            return "anything"


def listed(values: Sequence[Json]) -> str:
    """Return values as a list for people, cut where it is long."""
    shown = [str(one) for one in values if one is not None]
    return ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")
