# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.kernels.load import load_kernels
from support.kernels import KERNEL

SOUND = {"scale/kernel.toml": KERNEL.encode(), "scale/kernel.py": b"", "shared/init.py": b"", "README.md": b""}


def problems(**files: bytes) -> list[tuple[str, str]]:
    changed = {path.replace("__", "/", 1).replace("DOT", "."): data for path, data in files.items()}
    return [(problem.where, problem.message) for problem in load_kernels({**SOUND, **changed}).problems]


def test_a_folder_with_a_kernel_toml_is_a_kernel() -> None:
    loaded = load_kernels(SOUND)
    assert list(loaded.kernels) == ["scale"]
    assert loaded.names == {"scale"}
    assert loaded.problems == []


def test_a_kernel_toml_further_down_is_none() -> None:
    assert load_kernels({**SOUND, "scale/tests/kernel.toml": b"["}).problems == []


def test_a_kernel_without_code_or_with_code_that_is_no_text_is_refused() -> None:
    files = {path: data for path, data in SOUND.items() if path != "scale/kernel.py"}
    assert [(p.where, p.message) for p in load_kernels(files).problems] == [("kernels/scale", "no file kernel.py")]
    assert problems(scale__kernelDOTpy=b"x = '\xff'") == [("kernels/scale/kernel.py", "not UTF-8, at byte 5")]


def test_code_without_a_kernel_toml_is_a_kernel_half_made() -> None:
    assert problems(other__kernelDOTpy=b"") == [("kernels/other", "no file kernel.toml")]


def test_a_name_that_is_no_module_is_refused() -> None:
    files = {"a-b/kernel.toml": KERNEL.encode(), "a-b/kernel.py": b""}
    assert [(p.where, p.message) for p in load_kernels(files).problems] == [("kernels/a-b", "not a name for a kernel")]


def test_a_package_among_content_is_refused() -> None:
    files = {**SOUND, "shared/__init__.py": b""}
    assert [p.where for p in load_kernels(files).problems] == ["kernels/shared/__init__.py"]


def test_a_wrong_kernel_keeps_its_name() -> None:
    loaded = load_kernels({**SOUND, "scale/kernel.toml": b"summary = 1"})
    assert not loaded.kernels
    assert loaded.names == {"scale"}
    assert all(problem.where.startswith("kernels/scale/kernel.toml") for problem in loaded.problems)


def test_a_name_that_the_wheel_has_or_cannot_have_is_refused() -> None:
    shared = {"shared/cache.py": b"", "cache/kernel.toml": KERNEL.encode(), "cache/kernel.py": b""}
    assert [(p.where, p.message) for p in load_kernels({**SOUND, **shared}).problems] == [
        ("kernels/cache", "the name of a module that kernels share")
    ]
    keyword = {"class/kernel.toml": KERNEL.encode(), "class/kernel.py": b""}
    assert [(p.where, p.message) for p in load_kernels({**SOUND, **keyword}).problems] == [
        ("kernels/class", "a word of Python")
    ]
