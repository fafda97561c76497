# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.kernels.declarations import KernelDecl, parse_kernel
from derive.kernels.units import units_of
from support.kernels import KERNEL


def kernel(text: str = KERNEL) -> KernelDecl:
    found, problems = parse_kernel(text.encode(), "kernel.toml")
    assert found is not None, problems
    return found


def test_a_unit_is_a_program_in_a_shape_with_a_tile_for_an_architecture() -> None:
    assert [unit.name for unit in units_of("scale", kernel())] == [
        "scale/scale/wide/few/sm_90a",
        "scale/scale/wide/few/sm_121a",
        "scale/scale/wide/many/sm_90a",
        "scale/scale/wide/many-blackwell/sm_121a",
        "scale/scale/narrow/few/sm_90a",
        "scale/scale/narrow/few/sm_121a",
        "scale/scale/narrow/many/sm_90a",
        "scale/scale/narrow/many-blackwell/sm_121a",
    ]


def test_its_function_is_called_with_the_arguments_of_shape_and_tile() -> None:
    unit = units_of("scale", kernel())[3]
    assert unit.document() == {
        "kernel": "scale",
        "program": "scale",
        "function": "scale",
        "shape": "wide",
        "tile": "many-blackwell",
        "gpu": "sm_121a",
        "arguments": {"columns": 512, "threads": 128},
        "pass-configs": {"tl.disable_warp_specialized": True},
        "compile-flags": [],
        "rows": [65, None],
    }


def test_for_how_many_rows_it_is_chosen_is_not_for_its_compiler() -> None:
    moved = kernel(KERNEL.replace("[1, 64]", "[1, 32]").replace("[65]", "[33]"))
    pairs = list(zip(units_of("scale", kernel()), units_of("scale", moved), strict=True))
    assert all(one.compiled_from() == other.compiled_from() for one, other in pairs)
    assert all(one.document() != other.document() for one, other in pairs)


def test_a_function_is_called_as_its_program_unless_that_is_said() -> None:
    text = KERNEL.replace("programs.scale", "programs.scale-rows")
    assert {unit.function for unit in units_of("scale", kernel(text))} == {"scale_rows"}
    text = KERNEL.replace('doc = "times two"', 'doc = "times two"\nfunction = "double"')
    assert {unit.function for unit in units_of("scale", kernel(text))} == {"double"}
