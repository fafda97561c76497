# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from derive.canonical import Json, sha256
from derive.errors import Corrupt
from derive.kernels.facts import Facts, clashes, parse_launch, parse_resources
from support.archives import said
from support.kernel_facts import LAUNCH, RESOURCES


def test_what_a_compile_writes_is_read() -> None:
    resources = parse_resources(json.dumps(RESOURCES).encode(), "a/unit")
    launch = parse_launch(json.dumps(LAUNCH).encode(), "a/unit")
    assert (resources.registers, resources.spill_bytes, resources.stack_bytes) == (168, 32, 32)
    assert resources.matrix_instructions == {"HMMA.16816.F32.BF16": 32}
    assert (launch.entry, launch.block, launch.keys["aarch64"]) == ("dense_kernel", (128, 1, 1), "b" * 64)
    assert Facts(resources=resources, launch=launch).shared_memory_bytes == 16 + 33792


def test_sizes_that_depend_on_the_rows_are_none() -> None:
    launch = parse_launch(json.dumps({**LAUNCH, "block": None, "dynamic-shared-memory": None}).encode(), "a/unit")
    resources = parse_resources(json.dumps(RESOURCES).encode(), "a/unit")
    assert (launch.block, launch.dynamic_shared_memory_bytes) == (None, None)
    assert Facts(resources=resources, launch=launch).shared_memory_bytes == 16


def test_resources_stand_in_records_with_their_units() -> None:
    document = parse_resources(json.dumps(RESOURCES).encode(), "a/unit").document()
    assert document["spill_load_bytes"] == 24
    assert document["compiler"] == {"nvcc": "13.0.88", "tilelang": "0.1.15"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"registers": -1}, "-1 is no count"),
        ({"registers": True}, "True is no count"),
        ({"matrix-instructions": []}, "attribute"),
        ({"compiler": None}, "attribute"),
    ],
)
def test_odd_facts_name_the_unit_and_its_file(change: dict[str, Json], why: str) -> None:
    with pytest.raises(Corrupt) as caught:
        parse_resources(json.dumps({**RESOURCES, **change}).encode(), "a/unit")
    assert "a/unit: resources.json: not the facts of a kernel" in said(caught.value)
    assert why in said(caught.value)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b'{"keys": 1}', b"\xff"])
def test_a_launch_that_is_none_is_an_error(data: bytes) -> None:
    with pytest.raises(Corrupt, match="not the facts of a kernel"):
        parse_launch(data, "a/unit")


def facts(key: str, binary: str) -> Facts:
    launch = {**LAUNCH, "keys": {"aarch64": f"{key}-a", "x86_64": f"{key}-x"}, "binary-key": binary}
    return Facts(
        resources=parse_resources(json.dumps(RESOURCES).encode(), "a/unit"),
        launch=parse_launch(json.dumps(launch).encode(), "a/unit"),
    )


def test_units_with_keys_of_their_own_do_not_clash_even_where_their_cubin_is_one() -> None:
    cubins = {"a": sha256(b"1"), "b": sha256(b"2"), "c": sha256(b"2")}
    assert list(clashes({"a": facts("1", "x"), "b": facts("2", "y"), "c": facts("3", "y")}, cubins)) == []


def test_two_units_with_one_key_are_told_once_with_its_machines() -> None:
    cubins = {"a": sha256(b"1"), "b": sha256(b"2")}
    (found,) = clashes({"a": facts("1", "x"), "b": facts("1", "x")}, cubins)
    assert found == ("b", "has the cache key of a, and other machine code: 1-a on aarch64, 1-x on x86_64")


def test_two_units_of_one_program_share_their_key() -> None:
    cubins = {"a": sha256(b"1"), "b": sha256(b"1")}
    assert list(clashes({"a": facts("1", "x"), "b": facts("1", "x")}, cubins)) == []


def test_one_binary_key_for_two_binaries_is_told() -> None:
    cubins = {"a": sha256(b"1"), "b": sha256(b"2")}
    (found,) = clashes({"a": facts("1", "x"), "b": facts("2", "x")}, cubins)
    assert found == ("b", "has the binary key of a, and other machine code: x")
