# SPDX-License-Identifier: Apache-2.0
"""Prints what vLLM's own parser, configuration classes and table of variables say: run where vLLM is installed.

Edge: imports vLLM.

The same words are used as in an argument schema, so that the two can be held against each other.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import enum
import io
import json
import math
import os
import sys
import typing
from importlib import import_module
from typing import Any

PROBES = ("x-y", "1", "1.5", "{}", "[]", "8k", "auto")
NAMES = {"int": "int", "float": "float", "str": "text", "loads": "json", "union_dict_and_str": "json-or-text"}
SIZES = {"human_readable_int": "size", "human_readable_int_or_auto": "size-or-auto"}
PARSERS = ("vllm.entrypoints.common.cli_args", "vllm.entrypoints.launchers.cli_args")


def plain(value: Any) -> Any:
    """Return a value as argument schemas write it."""
    if isinstance(value, enum.Enum):
        return {"member": value.name}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        text = f"{int(value)}.0" if math.isfinite(value) and value == int(value) else repr(value)
        return {"decimal": text} if math.isfinite(value) else {"expression": text}
    if dataclasses.is_dataclass(value):
        return {"made": f"{type(value).__name__}()"}
    if isinstance(value, set | frozenset):
        return sorted((plain(one) for one in value), key=str)
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return {"expression": repr(value)}


def kind(function: Any) -> dict[str, Any]:
    """Return how a type of argparse reads a value."""
    name = getattr(function, "__qualname__", "")
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    if function is None:
        return {"type": "text"}
    if name.startswith("optional_type."):
        return {**kind(cells[0]), "optional": True}
    if name.startswith("parse_type."):
        return kind(cells[0])
    if name.endswith("parse_dataclass"):
        return {"type": "config", "config": function.__defaults__[0].__name__}
    if name in SIZES or name in NAMES:
        return {"type": SIZES.get(name) or NAMES[name]}
    return {"type": "text", "through": "lambda" if "<lambda>" in name else name}


def option(action: argparse.Action, strings: list[str]) -> dict[str, Any]:
    """Return one action of the parser as an option of a schema; ``strings`` are all that lead to it."""
    made = {"names": sorted(strings), **kind(action.type)}
    action_kind = type(action).__name__
    if isinstance(action, argparse.BooleanOptionalAction):
        negative = getattr(action, "negative_option_strings", None)
        off = sorted(negative if negative is not None else (one for one in strings if one.startswith("--no-")))
        made |= {"type": "boolean", "negative": off, "names": sorted(set(strings) - set(off))}
    elif action_kind == "_StoreTrueAction":
        made["type"] = "flag"
    elif action_kind == "_AppendAction":
        made["repeated"] = True
    if action.default == argparse.SUPPRESS:
        made["no-default"] = True
    elif action.default is not None:
        made["default"] = plain(action.default)
    if action.choices is not None:
        made["choices"] = plain(list(action.choices))
    if action.nargs is not None and action_kind != "_StoreTrueAction" and made["type"] != "boolean":
        made["nargs"] = action.nargs
    if action.const is not None and made["type"] not in ("boolean", "flag"):
        made["const"] = action.const
    return made


def options() -> tuple[dict[str, Any], list[str]]:
    """Return every option of ``vllm serve`` by its first long name, and the arguments without names."""
    sys.argv = ["vllm", "serve"]
    found = next(module for module in map(_module, PARSERS) if module is not None)
    parser = import_module("vllm.utils.argparse_utils").FlexibleArgumentParser(add_help=False)
    found.make_arg_parser(parser)
    strings: dict[int, list[str]] = {}
    for string, action in parser._option_string_actions.items():
        strings.setdefault(id(action), []).append(string)
    made = {}
    for action in parser._actions:
        if id(action) in strings:
            long = next(one for one in strings[id(action)] if one.startswith("--"))
            made[long[2:]] = option(action, strings[id(action)])
    return made, [one.dest for one in parser._actions if not one.option_strings]


def accepted(names: list[str]) -> dict[str, list[str]]:
    """Return which of some texts the real parser takes as the value of each option."""
    found = next(module for module in map(_module, PARSERS) if module is not None)
    parser = import_module("vllm.utils.argparse_utils").FlexibleArgumentParser(add_help=False, exit_on_error=False)
    found.make_arg_parser(parser)
    made: dict[str, list[str]] = {}
    for name in names:
        for text in PROBES:
            with contextlib.suppress(SystemExit, Exception), contextlib.redirect_stderr(io.StringIO()):
                parser.parse_args([f"--{name}", text])
                made.setdefault(name, []).append(text)
    return made


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None


def config(name: str, modules: list[Any]) -> dict[str, Any] | None:
    """Return the keys of a configuration class, with what it does with others."""
    owner = next((vars(one)[name] for one in modules if name in vars(one)), None)
    if owner is None:
        return None
    said = getattr(owner, "__pydantic_config__", {}) or {}
    hints = typing.get_type_hints(owner)
    return {
        "extra": said.get("extra", "ignore"),
        "fields": {one.name: field(one, hints.get(one.name)) for one in dataclasses.fields(owner)},
    }


def field(one: dataclasses.Field[Any], hint: Any) -> dict[str, Any]:
    """Return one key: its default, whether it can be given, and the choices that its type names."""
    default, factory, given = one.default, one.default_factory, one.init
    if type(default).__name__ == "FieldInfo":
        given = default.init is not False  # type: ignore[union-attr]
        factory = default.default_factory or dataclasses.MISSING  # type: ignore[union-attr]
        default = default.default  # type: ignore[union-attr]
    made: dict[str, Any] = {"given": given, "choices": sorted(choices(hint), key=str)}
    if factory is not dataclasses.MISSING:
        default = factory()
    if default is dataclasses.MISSING or type(default).__name__ == "PydanticUndefinedType":
        made["required"] = True
    elif default is not None:
        made["default"] = plain(default)
    return made


def choices(hint: Any) -> set[Any]:
    """Return the values that a type names one by one, in its elements too."""
    if typing.get_origin(hint) is typing.Literal:
        return set(typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return set(hint.__members__)
    return {one for inner in typing.get_args(hint) for one in choices(inner)}


def variables() -> dict[str, Any]:
    """Return what each variable of vLLM's table is worth while it is absent."""
    envs = import_module("vllm.envs")
    made = {}
    for name, read in envs.environment_variables.items():
        os.environ.pop(name, None)
        try:
            made[name] = plain(read())
        except Exception as error:  # noqa: BLE001 - it is what reading gives
            made[name] = {"error": type(error).__name__}
    return made


def main(wanted: list[str]) -> None:
    """Print the document; ``wanted`` are names of configuration classes."""
    said, positional = options()
    names = sorted(name for name in sys.modules if name.startswith("vllm."))
    modules = [import_module("vllm.config"), *(sys.modules[name] for name in names)]
    made = {name: config(name, modules) for name in wanted}
    taking = [
        name for name, one in said.items() if one["type"] not in ("boolean", "flag") and one.get("nargs") in (None, "+")
    ]
    document = {
        "accepted": accepted(taking),
        "options": said,
        "positional": positional,
        "configs": made,
        "variables": variables(),
    }
    json.dump(document, sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
