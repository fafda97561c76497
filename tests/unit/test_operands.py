# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.errors import InputErrors
from derive.operands import ByDigest, Named, Operand, Released, Working, parse_operand, released

HEX = "3f1c0d9e2a7b"


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        (".", Working()),
        ("probe", Named("probe")),
        ("image:probe", Named("probe", "image")),
        ("drv:perftest", Named("perftest", "drv")),
        ("probe@linux/arm64", Named("probe", "any", "linux/arm64")),
        ("image:probe@any", Named("probe", "image", "any")),
        ("bash_5.2-1_amd64.deb unpacked", Named("bash_5.2-1_amd64.deb unpacked")),
        (HEX, ByDigest(HEX)),
        (HEX * 5 + "0000", ByDigest(HEX * 5 + "0000")),
        (f"sha256:{HEX}", ByDigest(HEX)),
        (f"drv:{HEX}", ByDigest(HEX, "drv")),
        (f"drv:sha256:{HEX}", ByDigest(HEX, "drv")),
        (f"image:sha256:{HEX}", ByDigest(HEX, "image")),
        (f"tree:{HEX}", ByDigest(HEX, "tree")),
        ("release:probe-1", Released("probe-1")),
        ("release:r3@linux/arm64", Released("r3", "linux/arm64")),
        (f"release:{HEX}", Released(HEX)),
        (f"release:sha256:{HEX}", Released(HEX)),
        ("3f1c0d9e2a7", Named("3f1c0d9e2a7")),
        ("3F1C0D9E2A7B", Named("3F1C0D9E2A7B")),
        ("\udce9", Named("?")),
    ],
)
def test_each_form_means_one_thing(text: str, operand: Operand) -> None:
    assert parse_operand(text) == operand


@pytest.mark.parametrize(
    "text",
    [
        "", "drv:", "image:", "tree:", "tree:probe", "sha256:12", "drv:sha256:12", "shape:x", "probe@linux/riscv64",
        "@linux/arm64", "tree:../../etc/passwd", "tree:************", ":", "\udce9:x", "tree:" + "a" * 65,
        "release:", "release:A", "release:../x", "release:@linux/arm64", "release:r1@linux/x",
    ],
)  # fmt: skip
def test_what_is_no_operand_is_refused_with_a_next_step(text: str) -> None:
    with pytest.raises(InputErrors) as refused:
        parse_operand(text)
    (problem,) = refused.value.problems()
    assert problem.hint
    problem.message.encode()  # can be shown


def test_a_platform_said_with_the_name_goes_before_the_one_that_is_given() -> None:
    assert parse_operand("probe", "linux/amd64") == Named("probe", "any", "linux/amd64")
    assert parse_operand("probe@linux/arm64", "linux/amd64") == Named("probe", "any", "linux/arm64")


@pytest.mark.parametrize(
    "text",
    [
        ".",
        "probe",
        "image:probe",
        "drv:x@linux/arm64",
        "release:r1",
        "release:r1@linux/arm64",
        f"sha256:{HEX}",
        f"tree:{HEX}",
        f"drv:{HEX}",
    ],
)
def test_an_operand_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_operand(text)) == text


def test_where_a_release_must_be_meant_its_bare_name_is_one() -> None:
    assert released("r1") == released("release:r1") == Released("r1")
    assert released("r1", "linux/arm64") == Released("r1", "linux/arm64")
    with pytest.raises(InputErrors, match="1 problem"):
        released("R1")
