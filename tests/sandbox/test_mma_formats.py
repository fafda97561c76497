# SPDX-License-Identifier: Apache-2.0
"""What the locked compilers make of each number format, read off the machine code. The words: docs/number-formats.md.

A few units are compiled where nothing else is said, a minute's work that the store keeps; ``DERIVE_TEST_KERNELS=all``
compiles all of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import pytest

from derive.kernels.declarations import parse_kernel
from derive.kernels.units import units_of
from derive.sandbox.bwrap import Bubblewrap
from support.cli import CHECKOUT, derive
from support.kernel_root import kernel_store

pytestmark = [pytest.mark.sandbox, pytest.mark.network]

EXPECTED: Mapping[str, Mapping[str, str | None]] = {
    "bf16": {"sm_90a": "HGMMA.64x64x16.F32.BF16", "sm_121a": "HMMA.16816.F32.BF16"},
    "fp16": {"sm_90a": "HGMMA.64x64x16.F32", "sm_121a": "HMMA.16816.F32"},
    "tf32": {"sm_90a": "HMMA.1688.F32.TF32", "sm_121a": "HMMA.1688.F32.TF32"},
    "fp8": {"sm_90a": "QGMMA.64x64x32.F32.E4M3.E4M3", "sm_121a": "QMMA.16832.F32.E4M3.E4M3"},
    "nvfp4": {"sm_121a": "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X"},
    "nvfp4-without-flag": {"sm_121a": None},
    "fp8-fp4": {"sm_121a": "QMMA.16832.F32.E4M3.E2M1"},
    "mxfp8": {"sm_121a": "QMMA.SF.16832.F32.E4M3.E4M3.E8"},
    "mxfp8-mxfp4": {"sm_121a": "QMMA.SF.16832.F32.E4M3.E2M1.E8"},
    "mxfp4": {"sm_121a": "OMMA.SF.16864.F32.E2M1.E2M1.E8"},
    "mxfp8-dequantised": {"sm_90a": "HGMMA.64x64x16.F32.BF16", "sm_121a": "HMMA.16816.F32.BF16"},
    "mxfp8-mxfp4-dequantised": {"sm_90a": "HGMMA.64x64x16.F32.BF16", "sm_121a": "HMMA.16816.F32.BF16"},
}
"""By program and architecture the one matrix instruction of its machine code; None for code that has none."""

QUICK = ("nvfp4", "nvfp4-without-flag", "mxfp8", "mxfp8-mxfp4", "mxfp4", "mxfp8-mxfp4-dequantised")
"""The programs that the deployment's formats turn on, compiled for its own GPU."""

EVERYTHING = os.environ.get("DERIVE_TEST_KERNELS") == "all"


def unit(program: str, gpu: str) -> str:
    return f"mma_formats/{program}/columns-64-depth-256/rows-1/{gpu}"


CHOSEN = tuple(
    unit(program, gpu)
    for program, gpus in EXPECTED.items()
    for gpu in gpus
    if EVERYTHING or (program in QUICK and gpu == "sm_121a")
)


def test_every_unit_has_its_expectation() -> None:
    data = (CHECKOUT / "kernels/mma_formats/kernel.toml").read_bytes()
    kernel, problems = parse_kernel(data, "kernel.toml")
    assert kernel is not None, problems
    expected = {unit(program, gpu) for program, gpus in EXPECTED.items() for gpu in gpus}
    assert {one.name for one in units_of("mma_formats", kernel)} == expected


@pytest.fixture(scope="module")
def found() -> Mapping[str, Mapping[str, int]]:
    """The matrix instructions of each unit chosen, with their counts."""
    store = str(kernel_store())
    built = derive("kernels", "build", *CHOSEN, "--store", store)
    assert built.code == 0, built.err
    answer = json.loads(derive("kernels", "list", *CHOSEN, "--json", "--store", store).answer)
    return {one["unit"]: one["resources"]["matrix_instructions"] for one in answer["body"]["units"]}


@pytest.mark.parametrize("name", CHOSEN, ids=lambda name: name.removeprefix("mma_formats/"))
def test_the_matrix_instruction_of_a_format(
    sandbox: Bubblewrap, found: Mapping[str, Mapping[str, int]], name: str
) -> None:
    """The one instruction that the table states and no other, so that a fallback cannot slip in beside it."""
    assert sandbox.program
    _, program, _, _, gpu = name.split("/")
    expected = EXPECTED[program][gpu]
    assert list(found[name]) == ([] if expected is None else [expected])
    assert all(count > 0 for count in found[name].values())
