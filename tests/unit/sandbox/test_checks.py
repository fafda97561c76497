# SPDX-License-Identifier: Apache-2.0
"""What a request may not hold is found by name, all at once."""

from __future__ import annotations

import pytest

from derive.sandbox.checks import check_command, check_environment, check_inputs, check_root
from derive.sandbox.request import FIXED_ENVIRONMENT, Program, RootFile, RootFolder, RootLink, Script


def test_ordinary_variables_pass() -> None:
    assert check_environment({"CC": "gcc -O2\n", "_x9": "", "LANG": "café"}) == ()


@pytest.mark.parametrize("name", [*FIXED_ENVIRONMENT, "DERIVE_JOBS", "DERIVE_ANYTHING", "PWD"])
def test_the_sandbox_s_own_variables_cannot_be_set(name: str) -> None:
    (problem,) = check_environment({name: "x"}, where="perftest.environment")
    assert problem.where == f"perftest.environment.{name}"
    assert problem.message == f"the sandbox itself sets {name}"


@pytest.mark.parametrize("name", ["", "9A", "A-B", "A B", "A=B", "Ä", "A\0", "A\n"])
def test_names_that_no_shell_takes_are_refused(name: str) -> None:
    assert check_environment({name: "x"})[0].message == f"not a name for a variable: {name!r}"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a\0b", "a zero byte"),
        ("\ud800", "a lone surrogate, which UTF-8 cannot hold"),
        ("x" * (128 * 1024), "longer than Linux passes to a program (131071 bytes)"),
    ],
)
def test_values_that_no_program_can_be_given_are_refused(value: str, message: str) -> None:
    assert [problem.message for problem in check_environment({"A": value})] == [message]
    assert [problem.message for problem in check_command(Program(argv=("/bin/x", value)))] == [message]


def test_the_longest_variable_passes() -> None:
    assert check_environment({"A": "x" * (128 * 1024 - 3)}) == ()


def test_every_wrong_variable_is_named() -> None:
    assert len(check_environment({"PATH": "/", "9": "", "OK": "", "B": "\0"})) == 3


@pytest.mark.parametrize("name", ["", ".", "..", ".derive-script", "a/b", "a b", "-x", "é", "a\n"])
def test_input_names_are_plain_file_names(name: str) -> None:
    (problem,) = check_inputs([name])
    assert problem.message == f"not a name for an input: {name!r}"


def test_usual_input_names_pass() -> None:
    assert check_inputs(["src", "libstdc++_6.1-2", "0", "_a"]) == ()


def test_empty_folders_give_way_to_the_sandbox_s_own() -> None:
    assert check_root([RootFolder(name=name, empty=True) for name in (b"proc", b"dev", b"tmp", b"build")]) == ()


def test_what_is_in_the_way_of_the_sandbox_s_own_folders_is_named() -> None:
    found = check_root(
        [
            RootFolder(name=b"dev", empty=False),
            RootLink(name=b"tmp", target=b"var/tmp"),
            RootFile(name=b"out"),
            RootFolder(name=b"usr", empty=False),
        ]
    )
    assert [problem.where for problem in found] == ["root: /dev", "root: /tmp", "root: /out"]


def test_a_script_may_be_as_long_as_it_likes() -> None:
    assert check_command(Script(text="# long\n" * 100_000)) == ()


def test_a_script_with_a_zero_byte_is_refused() -> None:
    assert len(check_command(Script(text="echo \0"))) == 1


@pytest.mark.parametrize("argv", [(), ("python3",), ("./x",)])
def test_a_program_needs_its_absolute_path(argv: tuple[str, ...]) -> None:
    (problem,) = check_command(Program(argv=argv))
    assert problem.message == "a program is named by its absolute path in the root"
