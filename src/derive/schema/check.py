# SPDX-License-Identifier: Apache-2.0
"""A shape held against the argument schema of its image: names, types, choices, JSON keys, variables.

Core: no IO. Standard library only.

Whatever is unknown is an error, with the nearest name there is and, where somebody wrote it down, what became of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from derive.canonical import Json
from derive.errors import Problem, expected_got
from derive.recipes.check import shown
from derive.recipes.resolved import Resolved
from derive.schema.model import Option, Schema, Variable
from derive.schema.values import Fault, bound_faults, config_faults, listed, number
from derive.words import nearest

_SIZE = re.compile(r"[0-9]+[KMGT]?|[0-9]+(?:\.[0-9]+)?[kmgt]")
_INT = re.compile(r"\s*[+-]?[0-9]+(?:_[0-9]+)*\s*")
_OPTION = re.compile("-.")
_NEGATIVE = re.compile(r"-[0-9]+|-[0-9]*\.[0-9]+")
_NUMBERS = {"int": "a whole number", "float": "a number", "size": "a whole number, or one with a suffix such as 8k"}


def problems(
    resolved: Resolved, schema: Schema, gone: Mapping[str, str] | None = None, awaited: AbstractSet[str] = frozenset()
) -> list[Problem]:
    """Return everything in a shape that its image's programs would not take, or that nothing would read.

    ``gone`` says of names that were once there what became of them. ``awaited`` are values that a capability which the
    image lacks would read, by path (``environment.NAME``, ``arguments.NAME``): that shape is not deployable already.
    """
    gone = gone or {}

    def place(*path: str) -> str:
        """Return where a value stands: that of the longest path of which the origin is known."""
        for end in range(len(path), 0, -1):
            origin = resolved.origins.get(".".join(path[:end]))
            if origin is not None:
                return f"{origin.file}: {'.'.join([origin.key, *path[end:]])}"
        return f"recipes/{resolved.recipe}.toml: {'.'.join(path)}"

    found = [
        _problem(place("arguments", name, *fault.path), fault, value, gone.get(".".join((name, *fault.path))))
        for name, value in resolved.arguments.items()
        for fault in argument_faults(name, value, schema)
        if awaited.isdisjoint((f"arguments.{name}", ".".join(("arguments", name, *fault.path))))
    ]
    found += [
        _problem(place("environment", name), fault, value, gone.get(name))
        for name, value in resolved.environment.items()
        if f"environment.{name}" not in awaited
        for fault in variable_faults(name, value, schema)
    ]
    return found


def _problem(where: str, fault: Fault, value: Json, gone: str | None) -> Problem:
    for key in fault.path:
        value = value.get(key) if isinstance(value, Mapping) else None
    detail = expected_got(fault.expected, shown(value)) if fault.expected else ()
    hint = f"did you mean {fault.near}?" if fault.near and gone is None else None
    message = fault.message if gone is None else f"{fault.message} any more: {gone}"
    return Problem(where=where, message=message, detail=detail, hint=hint)


def deprecated(resolved: Resolved, schema: Schema) -> list[str]:
    """Return the options of a shape that the program will not have for long."""
    found = ((name, _named(name, schema)) for name in resolved.arguments)
    return [name for name, option in found if option is not None and option.deprecated]


def _named(name: str, schema: Schema) -> Option | None:
    """Return the option of a long name, be it its first one or not."""
    option = schema.options.get(name)
    return option or next((one for one in schema.options.values() if name in one.long), None)


def argument_faults(name: str, value: Json, schema: Schema) -> Iterator[Fault]:
    """Yield what is wrong with one argument, as recipes write it."""
    option = _named(name, schema)
    if option is None:
        yield _unknown_option(name, schema)
        return
    items: Sequence[Json] = [value]
    if isinstance(value, Sequence) and not isinstance(value, str) and option.type not in ("json", "json-or-text"):
        if option.nargs in (None, "?") and not option.repeated:
            yield Fault((), "it takes one value, not a list", _expected(option, schema))
        elif not value and option.nargs == "+":
            yield Fault((), "it takes one value or more", _expected(option, schema))
        items = value if option.nargs not in (None, "?") or option.repeated else ()
    for item in items:
        yield from _value_faults(item, option, schema)


def _unknown_option(name: str, schema: Schema) -> Fault:
    for option in schema.options.values():
        if f"--{name}" in option.negative:
            return Fault((), f"{name} is how {option.name} is switched off", near=f"{option.name} = false")
    known = [long for option in schema.options.values() for long in option.long]
    return Fault((), f"{schema.program} has no option --{name}", near=nearest(name, known))


def _value_faults(value: Json, option: Option, schema: Schema) -> Iterator[Fault]:
    wrong = Fault((), "a value of another type", _expected(option, schema))
    match option.type:
        case "boolean":
            if not isinstance(value, bool):
                yield wrong
        case "flag":
            if value is not True:
                yield Fault((), "it is given alone, or not at all", "true")
        case "int" | "float" | "size" | "size-or-auto":
            if not _is_number(value, option.type):
                yield wrong
            elif option.choices is not None and value not in option.choices:
                yield Fault((), f"{value!r} is no value of it", listed(option.choices))
            yield from bound_faults(value, option.bounds)
        case "config":
            yield from config_faults(value, str(option.config), schema)
        case "json":
            if option.config is not None:
                yield from config_faults(value, option.config, schema)
            elif isinstance(value, str) or number(value) is not None:
                yield wrong
        case "json-or-text" if not isinstance(value, str):
            if not isinstance(value, Mapping | Sequence):
                yield wrong
        case _:
            yield from _text_faults(value, option, schema)


def _is_number(value: Json, kind: str) -> bool:
    if isinstance(value, str):
        return bool(_SIZE.fullmatch(value)) if kind == "size" else kind == "size-or-auto" and _is_size_or_auto(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return is_whole or (kind == "float" and number(value) is not None)


def _is_size_or_auto(text: str) -> bool:
    return text.lower() == "auto" or text == "-1" or bool(_SIZE.fullmatch(text))


def _text_faults(value: Json, option: Option, schema: Schema) -> Iterator[Fault]:
    if option.nargs == "?" and value is True:
        return
    if not isinstance(value, str):
        yield Fault((), "a value of another type", _expected(option, schema))
        return
    if _OPTION.match(value) and not _NEGATIVE.fullmatch(value):
        yield Fault((), f"{value!r} begins as an option does, and would be taken for one", "text that begins otherwise")
        return
    closed = _closed(option, schema)
    taken = {str(one).lower() for one in closed} if option.enum else {str(one) for one in closed}
    asked = value.lower() if option.enum else value
    if closed and asked not in taken:
        what = "is nothing that the image's program has" if option.registered else "is no value of it"
        yield Fault((), f"{value!r} {what}", listed(closed), nearest(value, closed))


def _closed(option: Option, schema: Schema) -> Sequence[Json]:
    """Return all the texts that an option takes; none where it takes any."""
    if option.choices is not None:
        return option.choices
    if option.enum is not None:
        enum = schema.enums[option.enum]
        return [*enum.names, *(str(one) for one in enum.values if isinstance(one, int))]
    return option.known or () if option.registered else ()


def _expected(option: Option, schema: Schema) -> str:
    match option.type:
        case "boolean":
            return "true or false"
        case "size-or-auto":
            return f'{_NUMBERS["size"]}, or "auto"'
        case "json":
            return "a table or a list"
        case "json-or-text":
            return "a table, a list or text"
        case kind if kind in _NUMBERS:
            return _NUMBERS[kind]
        case _:
            closed = _closed(option, schema)
            return f"one of {listed(closed)}" if closed else "text"


def variable_faults(name: str, value: str, schema: Schema) -> Iterator[Fault]:
    """Yield what is wrong with one variable of the environment."""
    variable = schema.variable(name)
    if variable is None:
        yield Fault((), f"nothing in the image reads {name}", near=nearest(name, list(schema.read), 0.75))
        return
    if not _fits(value, variable):
        match variable.kind:
            case "choice" | "choices":
                meant = nearest(value, variable.choices)
                yield Fault((), f"{value!r} is no value of it", listed(variable.choices), meant)
            case kind:
                yield Fault((), "a text that cannot be read", _NUMBERS[kind])


def _fits(value: str, variable: Variable) -> bool:
    match variable.kind:
        case "int":
            return bool(_INT.fullmatch(value))
        case "float":
            try:
                float(value)
            except ValueError:
                return False
            return True
        case "choice" | "choices":
            given = value.split(",") if variable.kind == "choices" else [value]
            taken = variable.choices if variable.exact else tuple(one.lower() for one in variable.choices)
            return not taken or all((one.strip() if variable.exact else one.strip().lower()) in taken for one in given)
        case _:
            return True
