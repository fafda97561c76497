# SPDX-License-Identifier: Apache-2.0
"""Choosing wheels from what uv resolved."""

from __future__ import annotations

from typing import Any

from packaging.pylock import Package, Pylock

from derive.lock.python import choose
from derive.lock.uv import Target

TARGET = Target(python="3.13", architecture="arm64")
A = {"sha256": "a" * 64}


def packages(*wheels: dict[str, Any]) -> list[Package]:
    document = {
        "lock-version": "1.0",
        "created-by": "uv",
        "packages": [{"name": "num-py", "version": "2.0", "wheels": list(wheels)}],
    }
    return list(Pylock.from_dict(document).packages)


def wheel(tag: str, **more: Any) -> dict[str, Any]:
    return {"url": f"https://h/f/num_py-2.0-{tag}.whl", "size": 7, "hashes": A, **more}


def test_the_best_wheel_is_taken_without_its_host() -> None:
    chosen, problems = choose(
        packages(wheel("cp313-cp313-manylinux_2_28_aarch64"), wheel("cp313-cp313-manylinux_2_28_x86_64")),
        TARGET,
        "2.41",
        "lock/x.toml",
    )
    assert problems == []
    assert [(item.name, item.version, item.file, item.size) for item in chosen] == [
        ("num-py", "2.0", "num_py-2.0-cp313-cp313-manylinux_2_28_aarch64.whl", 7)
    ]


def test_a_package_without_a_wheel_for_the_target_is_a_problem() -> None:
    chosen, (problem,) = choose(packages(wheel("cp313-cp313-win_amd64")), TARGET, "2.41", "lock/x.toml")
    assert chosen == ()
    assert problem.where == "lock/x.toml"
    assert problem.message == "num-py 2.0 has no wheel for Python 3.13 on arm64"


def test_a_wheel_without_a_sha256_is_a_problem() -> None:
    _, (problem,) = choose(packages(wheel("py3-none-any", hashes={"md5": "0"})), TARGET, "2.41", "lock/x.toml")
    assert "no SHA-256" in problem.message
