# SPDX-License-Identifier: Apache-2.0
"""What stands in ``kernels/<name>/kernel.toml``, as typed values. The keys are explained on docs/builders/kernel.md.

Core: no IO. Imports pydantic.

What a kernel computes is its code's matter. Its file says what is compiled: each program, in each shape that the
deployment has, with a tile for each count of rows, for each GPU architecture.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from derive.content import Keyed, Some, key_path, parse_model, parse_toml
from derive.errors import Problem, expected_got

KERNEL = re.compile(r"[a-z][a-z0-9_]*")
"""What a folder of kernels may be called: it becomes a module of the wheel."""

NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
"""What programs, shapes and tiles may be called."""

_ARCHITECTURE = re.compile(r"sm_[1-9][0-9]+[af]?")


def _architecture(text: str) -> str:
    if not _ARCHITECTURE.fullmatch(text):
        raise ValueError("not a GPU architecture, such as sm_90a")
    return text


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) != len(values):
        raise ValueError("a value stands twice")
    return values


def _is_identifier(text: str) -> bool:
    return text.isidentifier() and text.isascii() and not keyword.iskeyword(text)


def _identifier(text: str) -> str:
    if not _is_identifier(text):
        raise ValueError("not a name of a function")
    return text


def _rows(values: tuple[int, ...]) -> tuple[int, ...]:
    if not 1 <= len(values) <= 2:
        raise ValueError("name the first and the last count of rows, or the first alone where there is no last")
    if values[0] < 1 or (len(values) == 2 and values[1] < values[0]):
        raise ValueError("not a range of row counts: from 1 up, the last no less than the first")
    return values


def _value(value: Any) -> Any:
    if not isinstance(value, bool | int | str):
        raise ValueError("neither a truth value, a whole number nor a text")  # noqa: TRY004 - pydantic takes no other
    return value


Gpu = Annotated[str, AfterValidator(_architecture)]
Gpus = Annotated[tuple[Gpu, ...], AfterValidator(_distinct)]
Value = Annotated[bool | int | str, BeforeValidator(_value)]
"""An argument of a kernel's function, or of a pass: a truth value, a whole number or a text."""


class TileDecl(Keyed):
    """How a program is cut for some counts of rows. No ``architectures``: all of the kernel's."""

    rows: Annotated[tuple[int, ...], AfterValidator(_rows)]
    arguments: dict[str, Value] = Field(default_factory=dict)
    architectures: Gpus = ()

    @property
    def first(self) -> int:
        """The least count of rows."""
        return self.rows[0]

    @property
    def last(self) -> int | None:
        """The greatest count of rows; None where there is no bound."""
        return self.rows[1] if len(self.rows) > 1 else None


class ShapeDecl(Keyed):
    """One shape of the deployment: which layer has it, at which degrees of tensor parallelism."""

    doc: str = Field(min_length=1)
    tensor_parallel: Annotated[tuple[Annotated[int, Field(ge=1)], ...], AfterValidator(_distinct)] = ()
    arguments: dict[str, Value] = Field(default_factory=dict)


class ProgramDecl(Keyed):
    """One function of ``kernel.py``, which returns what is compiled. No ``function``: it has the program's name."""

    doc: str = Field(min_length=1)
    function: Annotated[str, AfterValidator(_identifier)] | None = None
    pass_configs: dict[str, Value] = Field(default_factory=dict)
    compile_flags: tuple[str, ...] = ()
    shapes: Annotated[dict[str, ShapeDecl], Some]
    tiles: Annotated[dict[str, TileDecl], Some]


class KernelDecl(Keyed):
    """A kernel. ``cache``: whether it is in caches that name no kernels; ``formats`` is for people alone."""

    summary: str = Field(min_length=1)
    source: str = Field(min_length=1)
    architectures: Annotated[Gpus, Some]
    cache: bool = True
    formats: dict[str, str] = Field(default_factory=dict)
    programs: Annotated[dict[str, ProgramDecl], Some]


def parse_kernel(data: bytes, file: str) -> tuple[KernelDecl | None, list[Problem]]:
    """Read one kernel.toml, or say everything that is wrong with it."""
    table, problems = parse_toml(data, file)
    if table is None:
        return None, problems
    kernel, problems = parse_model(KernelDecl, table, file)
    programs = table.get("programs")
    for name, program in programs.items() if isinstance(programs, dict) else ():
        where = f"{file}: {key_path(('programs', name))}"
        if not NAME.fullmatch(name):
            problems.append(_no_name(where, "program"))
        # What has a wrong form is known already; the rest of the file is judged all the same.
        found = parse_model(ProgramDecl, program, "")[0] if isinstance(program, dict) else None
        if found is not None:
            problems.extend(_program_problems(name, found, table.get("architectures"), where))
    return (None if problems else kernel), problems


def _program_problems(name: str, program: ProgramDecl, architectures: Any, where: str) -> Iterator[Problem]:
    if program.function is None and not _is_identifier(function_name(name)):
        yield Problem(where=f"{where}.function", message=f"no function can be called {name!r}, so name one here")
    for kind, named in (("shape", program.shapes), ("tile", program.tiles)):
        for key, one in named.items():
            place = f"{where}.{key_path((f'{kind}s', key))}"
            if not NAME.fullmatch(key):
                yield _no_name(place, kind)
            yield from _argument_problems(one.arguments, f"{place}.arguments")
    yield from _shared_arguments(program, where)
    listed = architectures if isinstance(architectures, list) else []
    gpus = [one for one in listed if isinstance(one, str) and _ARCHITECTURE.fullmatch(one)]
    for key, tile in program.tiles.items():
        unknown = [one for one in tile.architectures if one not in gpus]
        if unknown:
            detail = expected_got(" or ".join(gpus), ", ".join(unknown))
            place = f"{where}.{key_path(('tiles', key))}.architectures"
            yield Problem(where=place, message="not an architecture of this kernel", detail=detail)
    yield from _row_problems(program, gpus, where)


def function_name(program: str) -> str:
    """Return what the function of a program is called, where its file does not say."""
    return program.replace("-", "_")


def _no_name(where: str, kind: str) -> Problem:
    return Problem(where=where, message=f"not a name for a {kind}", hint="use lower-case letters, digits and -")


def _argument_problems(arguments: Mapping[str, Value], where: str) -> Iterator[Problem]:
    for name in arguments:
        if not _is_identifier(name):
            yield Problem(where=key_path((name,), where), message="not a name of an argument")


def _shared_arguments(program: ProgramDecl, where: str) -> Iterator[Problem]:
    for key, tile in program.tiles.items():
        for name in tile.arguments:
            shapes = [shape for shape, one in program.shapes.items() if name in one.arguments]
            if shapes:
                place = f"{where}.{key_path(('tiles', key, 'arguments', name))}"
                yield Problem(where=place, message=f"an argument of the shape {', '.join(shapes)} too")


def _row_problems(program: ProgramDecl, gpus: list[str], where: str) -> Iterator[Problem]:
    """Say where no tile or more than one is for a count of rows, once for all architectures where it is so."""
    found: dict[tuple[str, str], list[str]] = {}
    for gpu in gpus:
        for place, message in _row_faults(program, gpu):
            found.setdefault((place, message), []).append(gpu)
    for (place, message), affected in found.items():
        yield Problem(where=f"{where}.{place}", message=f"{message} on {', '.join(affected)}")


def _row_faults(program: ProgramDecl, gpu: str) -> Iterator[tuple[str, str]]:
    """Yield (key path below the program, what is wrong) for one architecture; one that no tile is for has no fault."""
    tiles = [
        (tile.first, key, tile.last) for key, tile in program.tiles.items() if gpu in (tile.architectures or (gpu,))
    ]
    next_row: int | None = 1
    before = ""
    for first, key, last in sorted(tiles, key=lambda one: one[:2]):
        if next_row is None or first < next_row:
            yield f"{key_path(('tiles', key))}.rows", f"{_from(first, last)} overlap with the tile {before}"
        elif first > next_row:
            yield "tiles", f"no tile is for {_from(next_row, first - 1)}"
        if next_row is not None and (last is None or last >= next_row):
            next_row, before = (None if last is None else last + 1), key


def _from(first: int, last: int | None) -> str:
    if first == last:
        return f"{first} {'row' if first == 1 else 'rows'}"
    return f"{first} rows and more" if last is None else f"{first} to {last} rows"
