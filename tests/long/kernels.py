# SPDX-License-Identifier: Apache-2.0
"""The project's own kernels, compiled for real without a GPU; the store is kept, for its root takes gigabytes.

Takes minutes, so that `make test` does not collect it: `make long`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.cli import Ran, derive
from support.kernel_root import kernel_root, kernel_store

pytestmark = [pytest.mark.sandbox, pytest.mark.network]

GPUS = ("sm_90a", "sm_121a")


@pytest.fixture(scope="module")
def checked() -> Ran:
    """The quick check: one unit of each kernel and architecture twice, and the quick tests. Minutes the first time."""
    kernel_root()
    return kernels("check", "--quick", "--json")


def kernels(*arguments: str) -> Ran:
    return derive("kernels", *arguments, "--store", str(kernel_store()), timeout_s=1800)


def first_units(kernel: str) -> dict[str, dict[str, Any]]:
    """Return the first unit of a kernel for each architecture, as a list has them."""
    found: dict[str, dict[str, Any]] = {}
    for unit in json.loads(kernels("list", kernel, "--json").answer)["body"]["units"]:
        found.setdefault(unit["gpu"], unit)
    return found


def test_one_unit_of_each_kernel_comes_out_the_same_twice_and_the_quick_tests_pass(checked: Ran) -> None:
    assert checked.code == 0, checked.err
    found = json.loads(checked.out)["body"]
    assert found["findings"] == []
    assert found["units"] == len({unit.split("/")[0] for unit in _names()}) * len(GPUS)


def _names() -> list[str]:
    return [row.split()[0] for row in kernels("list").answer.splitlines()[1:]]


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("kernel", ["act_quant", "packed_head"])
def test_what_was_built_says_what_its_machine_code_needs(kernel: str) -> None:
    units = first_units(kernel)
    assert set(units) == set(GPUS)
    for unit in units.values():
        assert unit["state"] == "built"
        resources = unit["resources"]
        assert 0 < resources["registers"] <= 255
        assert resources["instructions"] > 0
        assert resources["compiler"]["tilelang"] == "0.1.15"
        assert resources["spill_store_bytes"] == resources["spill_load_bytes"] == 0


@pytest.mark.usefixtures("checked")
def test_two_architectures_differ_in_their_instructions() -> None:
    first, second = (first_units("act_quant")[gpu]["unit"] for gpu in GPUS)
    ran = kernels("diff", first, second, "--json")
    assert ran.code == 1, ran.err
    found = json.loads(ran.out)["body"]
    assert found["source_same"] is True
    assert found["before"]["sass_sha256"] != found["after"]["sass_sha256"]
    assert found["instructions"]
    assert kernels("diff", first, ".").code == 0
