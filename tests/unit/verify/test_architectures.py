# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.verify.architectures import parse_code, parse_device
from derive.verify.drivers import compiling_driver, cuda_of, newest_ptx, oldest_driver, parse_driver


@pytest.mark.parametrize(
    ("code", "runs"),
    [
        ("sm_120", True),
        ("sm_121", True),
        ("sm_120f", True),
        ("sm_121f", True),
        ("sm_121a", True),
        ("sm_120a", False),
        ("sm_100", False),
        ("sm_90a", False),
        ("sm_110f", False),
        ("compute_75/9.0", True),
        ("compute_120/9.0", True),
        ("compute_120f/9.0", True),
        ("compute_121a/9.0", True),
        ("compute_120a/9.0", False),
        ("compute_100f/9.0", False),
        ("compute_90a/8.7", False),
        ("compute_120/9.3", False),
    ],
)
def test_what_a_gb10_with_a_driver_of_cuda_13_0_can_use(code: str, runs: bool) -> None:
    newest = newest_ptx(parse_driver("580.178.04"))
    assert newest == (9, 0)
    assert parse_code(code).runs_on(121, newest) is runs


def test_machine_code_does_not_run_on_an_older_gpu_of_its_generation() -> None:
    assert not parse_code("sm_121").runs_on(120)
    assert not parse_code("sm_89").runs_on(86)


@pytest.mark.parametrize("text", ["sm_120", "sm_121a", "sm_100f", "compute_120/9.3", "compute_103a/9.2"])
def test_an_architecture_reads_back_as_it_was_written(text: str) -> None:
    assert str(parse_code(text)) == text


@pytest.mark.parametrize("text", ["sm_121a", "compute_120/9.0", "sm", "sm_120/9.0", "compute_120", ""])
def test_what_is_no_gpu_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="GPU"):
        parse_device(text)


def test_the_oldest_driver_is_that_of_the_newest_major_release() -> None:
    assert oldest_driver([12, 13]) == "580.65.06"
    assert oldest_driver([]) is None


def test_ptx_needs_the_driver_of_the_release_that_wrote_it() -> None:
    assert cuda_of((9, 1)) == (13, 1)
    assert compiling_driver((9, 1)) == "590.44.01"
    assert compiling_driver((8, 7)) == "570.26"
    assert compiling_driver((9, 9)).startswith("newer than")
