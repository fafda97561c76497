# SPDX-License-Identifier: Apache-2.0
"""apt's words about what it cannot find."""

from __future__ import annotations

from derive.lock.apt import NoSolution, no_solution, unknown_packages

PACKAGES = ["bash=1", "libfoo:arm64", "nosuch"]


def test_each_unknown_package_is_told_at_its_place() -> None:
    lines = [
        "E: Unable to locate package nosuch",
        "E: Version '1' for 'bash' was not found",
        "E: Package 'libfoo:arm64' has no installation candidate",
        "E: Unable to locate package elsewhere",
    ]
    problems = unknown_packages(lines, PACKAGES, "lock/x.toml: closures.run")
    assert [(problem.where.rpartition(".")[2], problem.message) for problem in problems] == [
        ("packages[2]", "no such package in the suites"),
        ("packages[0]", "no such version in the suites"),
        ("packages[1]", "no package of this name can be installed"),
    ]


def test_anything_else_is_told_in_apts_words() -> None:
    error = no_solution(NoSolution([" a : Depends: b but it is not"]), PACKAGES, "lock/x.toml: closures.run")
    (problem,) = error.problems()
    assert problem.where == "lock/x.toml: closures.run"
    assert problem.detail == (" a : Depends: b but it is not",)
