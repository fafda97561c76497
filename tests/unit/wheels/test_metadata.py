# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.archives import Expected, unpack_wheel
from derive.errors import Corrupt, DeriveError, InputErrors
from derive.store.memory import MemoryStore
from derive.wheels.metadata import architectures, dist_info, fits, parse_metadata, parse_wheel_file
from support.archives import Zip, put, said, wheel


def unpack(data: bytes, expected: Expected) -> None:
    store = MemoryStore()
    unpack_wheel(store, put(store, data), name="w.whl", expected=expected)


@pytest.mark.parametrize(
    ("name", "amd64", "arm64"),
    [
        ("a-1-py3-none-any.whl", True, True),
        ("a-1-py2.py3-none-any.whl", True, True),
        ("a-1-cp313-cp313-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", True, False),
        ("a-1-cp313-cp313-manylinux_2_41_aarch64.whl", False, True),
        ("a-1-cp313-cp313-manylinux_2_42_aarch64.whl", False, False),
        ("a-1-cp38-abi3-manylinux_2_28_aarch64.whl", False, True),
        ("a-1-cp38-abi3-manylinux1_x86_64.whl", True, False),
        ("a-1-py3-none-manylinux2014_aarch64.whl", False, True),
        ("a-1-py3-none-linux_x86_64.whl", True, False),
        ("a-1-cp312-cp312-manylinux_2_17_x86_64.whl", False, False),
        ("a-1-cp314-abi3-manylinux_2_17_x86_64.whl", False, False),
        ("a-1-cp313-cp313t-manylinux_2_17_x86_64.whl", False, False),
        ("a-1-cp313-cp313-musllinux_1_2_x86_64.whl", False, False),
        ("a-1-cp313-cp313-win_amd64.whl", False, False),
        ("a-1-cp313-cp313-macosx_11_0_arm64.whl", False, False),
        ("a-1-2build-py3-none-any.whl", True, True),
    ],
)
def test_a_wheel_fits_by_python_abi_machine_and_libc(name: str, amd64: bool, arm64: bool) -> None:
    assert fits(name, python="3.13", platform="amd64", glibc=(2, 41)) is amd64
    assert fits(name, python="3.13", platform="arm64", glibc=(2, 41)) is arm64


def test_what_is_no_wheels_name_and_no_platform_is_refused() -> None:
    with pytest.raises(InputErrors):
        fits("a.whl", python="3.13", platform="amd64", glibc=(2, 41))
    with pytest.raises(InputErrors):
        fits("a-1-py3-none-any.whl", python="3.13", platform="riscv64", glibc=(2, 41))


def test_metadata_is_read_however_odd_the_rest_of_it_is() -> None:
    odd = b"Metadata-Version: 9.9\nname: My.Demo\nVersion: 1.0\nRequires-Dist: !!nonsense\n\nbody \xff\n"
    found = parse_metadata("x", b"METADATA", odd)
    assert (found.name, found.version) == ("My.Demo", "1.0")


@pytest.mark.parametrize("data", [b"", b"Name: a\n", b"Version: 1\n", b"\xff\xfe"])
def test_metadata_without_a_name_and_a_version_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt):
        parse_metadata("x", b"METADATA", data)


@pytest.mark.parametrize(("version", "pair"), [("1.0", (1, 0)), ("1.9", (1, 9))])
def test_wheel_formats_of_version_one_are_known(version: str, pair: tuple[int, int]) -> None:
    data = f"wheel-version: {version}\nTag: py3-none-any\nTag: cp313-cp313-linux_x86_64\n".encode()
    found = parse_wheel_file("x", b"WHEEL", data)
    assert (found.version, found.tags) == (pair, ("py3-none-any", "cp313-cp313-linux_x86_64"))


@pytest.mark.parametrize("version", ["2.0", "0.1", "", "1", "1.x", "one"])
def test_other_wheel_formats_are_refused(version: str) -> None:
    with pytest.raises(DeriveError):
        parse_wheel_file("x", b"WHEEL", f"Wheel-Version: {version}\n".encode())


def test_tags_name_architectures_in_debians_words() -> None:
    assert architectures(("cp313-cp313-manylinux_2_17_x86_64.manylinux2014_x86_64",), "amd64") == {"amd64"}
    assert architectures(("py3-none-musllinux_1_2_armv7l",), None) == {"armhf"}
    assert architectures(("py3-none-any",), "arm64") == {"any", "all", "arm64"}
    assert architectures(("py3-none-win_amd64",), "amd64") == {"win_amd64"}
    assert architectures((), "amd64") == frozenset()


@pytest.mark.parametrize("info", ["demo-1.0.dist-info", "Demo-1.0.dist-info", "DEMO-1.0.DIST-INFO", "demo-1.dist-info"])
def test_the_dist_info_folder_is_found_in_any_case(info: str) -> None:
    unpack(wheel(info=info), Expected(name="demo", version="1.0", architecture="any"))


def test_names_are_compared_normalised() -> None:
    unpack(wheel(name="My__Demo", version="1.0"), Expected(name="my.demo", version="1.0.0"))


def test_a_local_version_stands_in_the_folder_name_in_either_form() -> None:
    about = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0+cpu.1\n"
    for info in ("demo-1.0+cpu.1.dist-info", "demo-1.0_cpu.1.dist-info"):
        unpack(wheel(info=info, metadata=about), Expected(name="demo", version="1.0+cpu.1"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (wheel(Zip(name=b"other-1.dist-info/METADATA")), "exactly one .dist-info"),
        (wheel(info="demo-1.0.data"), "has: none"),
        (wheel(info="other-1.0.dist-info"), "named after another distribution"),
        (wheel(info="demo-2.0.dist-info"), "named after another distribution"),
        (wheel(info="demo.dist-info"), "named after another distribution"),
        (wheel(version="2.0"), "another version"),
        (wheel(tags=["cp313-cp313-linux_x86_64"]), "another architecture"),
        (wheel(wheel_version="2.0"), "only 1.x is known"),
        (wheel(metadata="Name: demo\n"), "without a name and a version"),
    ],
)
def test_a_wheel_that_is_something_else_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(DeriveError) as caught:
        unpack(data, Expected(name="demo", version="1.0", architecture="arm64"))
    assert why in said(caught.value)


def test_a_file_at_the_top_is_no_dist_info_folder() -> None:
    store = MemoryStore()
    listing = unpack_wheel(store, put(store, wheel(Zip(name=b"x.dist-info"))), name="w").listing
    assert dist_info("w", listing) == b"demo-1.0.dist-info"
