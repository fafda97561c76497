# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from derive.canonical import Json, sha256
from derive.errors import BuildFailed
from derive.kernels.index import Compiled, folders, index_document, read_compiled

LAUNCH: Mapping[str, Json] = {
    "version": "0.1.15",
    "keys": {"x86_64": "aa", "aarch64": "bb"},
    "binary-key": "cc",
    "entry": "main_kernel",
    "grid": ["rows", 1, 1],
}
RESOURCES: Mapping[str, Json] = {"registers": 10, "matrix-instructions": {"HMMA.16816.F32.BF16": 2}}
CUBIN = sha256(b"cubin")


def unit(tile: str) -> dict[str, Json]:
    names = {"kernel": "scale", "program": "scale", "function": "f", "shape": "wide", "tile": tile, "gpu": "sm_90a"}
    return {**names, "arguments": {"n": 1}, "pass-configs": {}, "compile-flags": ["-x"], "rows": [1, None]}


def compiled(tile: str = "few", **launch: Json) -> Compiled:
    return read_compiled(unit(tile), encoded({**LAUNCH, **launch}), encoded(RESOURCES), CUBIN)


def encoded(document: Json) -> bytes:
    return json.dumps(document).encode()


def test_the_index_lists_units_by_name_with_keys_and_resources() -> None:
    document = json.loads(index_document([compiled("many"), compiled("few")]))
    assert (document["derive"], document["tilelang"]) == ("kernel-index/1", "0.1.15")
    assert [one["unit"] for one in document["units"]] == [f"scale/scale/wide/{tile}/sm_90a" for tile in ("few", "many")]
    assert document["units"][0] == {
        "unit": "scale/scale/wide/few/sm_90a",
        **unit("few"),
        "keys": LAUNCH["keys"],
        "binary-key": "cc",
        "entry": "main_kernel",
        "cubin-sha256": CUBIN.hex,
        "resources": RESOURCES,
    }


def test_the_order_in_which_units_were_given_decides_no_byte() -> None:
    one, two = compiled("few"), compiled("many")
    assert index_document([one, two]) == index_document([two, one])


def test_units_of_two_versions_of_tilelang_make_no_cache() -> None:
    with pytest.raises(BuildFailed, match="one version") as caught:
        index_document([compiled("few"), compiled("many", version="0.2.0")])
    assert caught.value.detail == ("got       0.1.15, 0.2.0",)


def test_the_folders_are_those_that_tilelang_makes_when_it_is_imported() -> None:
    assert folders("0.1.15", "aarch64") == ("0.1.15/linux-aarch64/.staging", "0.1.15/linux-aarch64/kernels")


@pytest.mark.parametrize(
    ("launch", "resources", "said"),
    [
        (b"[", encoded(RESOURCES), "launch.json"),
        (b"[]", encoded(RESOURCES), "no object"),
        (encoded({**LAUNCH, "keys": {}}), encoded(RESOURCES), "keys"),
        (encoded({**LAUNCH, "entry": 1}), encoded(RESOURCES), "entry"),
        (encoded(LAUNCH), b'{"registers": 1.5}', "resources.json"),
        (encoded(LAUNCH), b"\xff", "resources.json"),
    ],
)
def test_what_no_compiler_of_this_version_writes_is_refused(launch: bytes, resources: bytes, said: str) -> None:
    with pytest.raises(BuildFailed) as caught:
        read_compiled(unit("few"), launch, resources, CUBIN)
    assert said in f"{caught.value.where} {caught.value.message}"
    assert "scale/scale/wide/few/sm_90a" in str(caught.value.where)
