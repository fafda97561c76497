# SPDX-License-Identifier: Apache-2.0
"""Which wheels run on which target."""

from __future__ import annotations

import pytest

from derive.lock.tags import best, fits, parse_target, platforms, ranks

NAMES = {
    "x-1-cp313-cp313-manylinux_2_28_x86_64.whl": (True, False),
    "x-1-cp313-cp313-manylinux_2_27_aarch64.manylinux_2_28_aarch64.whl": (False, True),
    "x-1-cp39-abi3-manylinux2014_x86_64.whl": (True, False),
    "x-1-cp314-abi3-manylinux2014_x86_64.whl": (False, False),
    "x-1-cp312-cp312-manylinux2014_x86_64.whl": (False, False),
    "x-1-cp313-cp313t-manylinux2014_x86_64.whl": (False, False),
    "x-1-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl": (True, False),
    "x-1-py2.py3-none-any.whl": (True, True),
    "x-1-py2-none-any.whl": (False, False),
    "x-1-py312-none-any.whl": (True, True),
    "x-1-py314-none-any.whl": (False, False),
    "x-1-2-py3-none-any.whl": (True, True),
    "x-1-cp313-none-any.whl": (True, True),
    "x-1-cp313-cp313-musllinux_1_2_x86_64.whl": (False, False),
    "x-1-cp313-cp313-macosx_11_0_arm64.whl": (False, False),
    "x-1-cp313-cp313-win_amd64.whl": (False, False),
    "x-1-cp313-cp313-linux_x86_64.whl": (True, False),
}


@pytest.mark.parametrize(("file", "expected"), NAMES.items())
def test_the_quick_check_agrees_with_the_full_one(file: str, expected: tuple[bool, bool]) -> None:
    for architecture, wanted in zip(("amd64", "arm64"), expected, strict=True):
        assert fits(file, "3.13", architecture) is wanted
        assert (best([file], ranks("3.13", architecture, "2.41")) is not None) is wanted


@pytest.mark.parametrize("file", ["x.tar.gz", "x-1.whl", "x-1-py3-none-any.zip", ""])
def test_what_is_no_wheel_fits_nothing(file: str) -> None:
    assert not fits(file, "3.13", "amd64")
    assert best([file], ranks("3.13", "amd64", "2.41")) is None


def test_a_newer_glibc_than_the_root_has_is_not_accepted() -> None:
    file = "x-1-cp313-cp313-manylinux_2_39_x86_64.whl"
    assert best([file], ranks("3.13", "amd64", "2.38")) is None
    assert best([file], ranks("3.13", "amd64", "2.39")) == file


def test_the_best_is_the_most_specific_then_the_highest_build() -> None:
    accepted = ranks("3.13", "amd64", "2.41")
    plain = "x-1-py3-none-any.whl"
    stable = "x-1-cp39-abi3-manylinux2014_x86_64.whl"
    old = "x-1-cp313-cp313-manylinux2014_x86_64.whl"
    new = "x-1-cp313-cp313-manylinux_2_28_x86_64.whl"
    assert best([plain, stable, old, new], accepted) == new
    assert best([plain, stable, old], accepted) == old
    assert best([stable, plain], accepted) == stable
    assert best([plain, "x-1-2-py3-none-any.whl", "x-1-10-py3-none-any.whl"], accepted) == "x-1-10-py3-none-any.whl"


def test_platforms_go_from_the_roots_glibc_down() -> None:
    assert platforms("arm64", "2.18") == [
        "manylinux_2_18_aarch64",
        "manylinux_2_17_aarch64",
        "manylinux2014_aarch64",
        "linux_aarch64",
    ]
    assert platforms("amd64", "2.5") == ["manylinux_2_5_x86_64", "manylinux1_x86_64", "linux_x86_64"]


def test_targets_are_read() -> None:
    assert parse_target("cp313-amd64") == ("3.13", "amd64")
    assert parse_target("cp27-amd64") is None
    assert parse_target("cp313-sparc") is None
