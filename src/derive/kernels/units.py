# SPDX-License-Identifier: Apache-2.0
"""A unit is what is compiled at once: one program, in one shape, with one tile, for one GPU architecture.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derive.canonical import Json
from derive.kernels.declarations import KernelDecl, function_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One compile. ``rows`` are the least and the greatest count of rows it is for; None where there is no bound.

    ``arguments`` are what ``function`` of the kernel's code is called with, the shape's and the tile's.
    """

    kernel: str
    program: str
    function: str
    shape: str
    tile: str
    gpu: str
    arguments: Mapping[str, Json]
    pass_configs: Mapping[str, Json]
    compile_flags: tuple[str, ...]
    rows: tuple[int, int | None]

    @property
    def name(self) -> str:
        """What the unit is called: ``kernel/program/shape/tile/gpu``."""
        return f"{self.kernel}/{self.program}/{self.shape}/{self.tile}/{self.gpu}"

    def document(self) -> dict[str, Json]:
        """Return the unit as it stands in an index."""
        return {**self.compiled_from(), "rows": list(self.rows)}

    def compiled_from(self) -> dict[str, Json]:
        """Return the unit as its compiler reads it: for how many rows it is chosen is not for the compiler to know."""
        return {
            "kernel": self.kernel,
            "program": self.program,
            "function": self.function,
            "shape": self.shape,
            "tile": self.tile,
            "gpu": self.gpu,
            "arguments": dict(self.arguments),
            "pass-configs": dict(self.pass_configs),
            "compile-flags": list(self.compile_flags),
        }


def units_of(name: str, kernel: KernelDecl) -> tuple[Unit, ...]:
    """Return everything that is compiled of a kernel, in the order of its file; architectures last."""
    return tuple(
        Unit(
            kernel=name,
            program=program_name,
            function=program.function or function_name(program_name),
            shape=shape_name,
            tile=tile_name,
            gpu=gpu,
            arguments={**shape.arguments, **tile.arguments},
            pass_configs=program.pass_configs,
            compile_flags=program.compile_flags,
            rows=(tile.first, tile.last),
        )
        for program_name, program in kernel.programs.items()
        for shape_name, shape in program.shapes.items()
        for tile_name, tile in program.tiles.items()
        for gpu in kernel.architectures
        if gpu in (tile.architectures or kernel.architectures)
    )
