# SPDX-License-Identifier: Apache-2.0
"""What in a request cannot be, found before anything is built.

Core: no IO. Each check returns its problems, so that a planner can ask long before there is a request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import assert_never

from derive.canonical import escape
from derive.errors import Problem
from derive.sandbox.request import (
    FIXED_ENVIRONMENT,
    PLATFORM_VARIABLES,
    RESERVED,
    Command,
    Program,
    RootEntry,
    RootFolder,
    Script,
)

_OURS = frozenset({*FIXED_ENVIRONMENT, "PWD"})
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INPUT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
_LONGEST_STRING = 128 * 1024 - 1  # Linux refuses an argument or variable of 32 pages, its zero byte included


def check_root(entries: Iterable[RootEntry], where: str = "root") -> tuple[Problem, ...]:
    """Return what in a root's top level stands in the way of the sandbox's own folders."""
    return tuple(
        Problem(
            where=f"{where}: /{escape(entry.name)}",
            message="the sandbox puts its own folder here, and the root has something in its place",
            hint="leave it out of the root, or leave it an empty folder",
        )
        for entry in entries
        if entry.name in RESERVED and not (isinstance(entry, RootFolder) and entry.empty)
    )


def check_inputs(names: Iterable[str], where: str = "inputs") -> tuple[Problem, ...]:
    """Return the input names that cannot be a file name below ``/in``."""
    return tuple(
        Problem(
            where=f"{where}.{name}",
            message=f"not a name for an input: {name!r}",
            hint="use letters, digits and . _ + -, beginning with a letter or a digit",
        )
        for name in sorted(names)
        if not _INPUT_NAME.fullmatch(name)
    )


def check_environment(environment: Mapping[str, str], where: str = "environment") -> tuple[Problem, ...]:
    """Return the variables that a derivation may not set, or not to that value."""
    found: list[Problem] = []
    for name, value in sorted(environment.items()):
        place = f"{where}.{name}"
        if not _VARIABLE.fullmatch(name):
            found.append(Problem(where=place, message=f"not a name for a variable: {name!r}"))
        elif name in _OURS or (name.startswith("DERIVE_") and name not in PLATFORM_VARIABLES):
            found.append(Problem(where=place, message=f"the sandbox itself sets {name}", hint="choose another name"))
        message = _unpassable(f"{name}={value}")
        if message:
            found.append(Problem(where=place, message=message))
    return tuple(found)


def check_command(command: Command, where: str = "command") -> tuple[Problem, ...]:
    """Return what keeps a script or a program from being started."""
    match command:
        case Script(text=text):
            message = _unencodable(text)
            return (Problem(where=where, message=message),) if message else ()
        case Program(argv=argv):
            found = [
                Problem(where=f"{where}[{index}]", message=message)
                for index, argument in enumerate(argv)
                if (message := _unpassable(argument))
            ]
            if not argv or not argv[0].startswith("/"):
                found.append(Problem(where=where, message="a program is named by its absolute path in the root"))
            return tuple(found)
        case _:
            assert_never(command)


def _unencodable(text: str) -> str | None:
    if "\0" in text:
        return "a zero byte"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "a lone surrogate, which UTF-8 cannot hold"
    return None


def _unpassable(text: str) -> str | None:
    message = _unencodable(text)
    if message is None and len(text.encode()) > _LONGEST_STRING:
        return f"longer than Linux passes to a program ({_LONGEST_STRING} bytes)"
    return message
