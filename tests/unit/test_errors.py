# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive import errors
from derive.errors import (
    BuildFailed,
    CheckFailed,
    Corrupt,
    DeriveError,
    HostRefuses,
    InputErrors,
    Interrupted,
    Missing,
    Problem,
    Unavailable,
    UpstreamGone,
    expected_got,
)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (DeriveError, 3),
        (CheckFailed, 1),
        (BuildFailed, 3),
        (Unavailable, 3),
        (UpstreamGone, 3),
        (HostRefuses, 3),
        (Corrupt, 3),
        (Missing, 3),
        (Interrupted, 130),
    ],
)
def test_each_error_has_its_exit_code(kind: type[DeriveError], code: int) -> None:
    assert kind("a thing happened").exit_code == code


def test_input_errors_exit_with_2() -> None:
    assert InputErrors.one("unknown key").exit_code == 2


def test_every_error_stands_in_the_tree_at_the_top_of_the_module() -> None:
    defined = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    drawn = {name for name in defined if f" {name} " in str(errors.__doc__)}
    assert drawn == defined


def test_an_error_is_one_problem_with_all_that_it_was_given() -> None:
    error = Corrupt("bytes differ", where="blob", detail=(line for line in expected_got("a", "b")), hint="fetch again")
    assert str(error) == "bytes differ"
    expected = Problem(where="blob", message="bytes differ", detail=("expected  a", "got       b"), hint="fetch again")
    assert error.problems() == (expected,)


def test_expected_and_got_are_aligned() -> None:
    expected, got = expected_got(1, "two")
    assert expected.index("1") == got.index("two")


def test_input_errors_hold_each_problem_once_sorted_by_place() -> None:
    first = Problem(where="a.toml: name", message="unknown key")
    second = Problem(where="a.toml: name", message="unknown key", detail=("got  1",))
    third = Problem(where="b.toml", message="a")
    error = InputErrors([third, second, first, third])
    assert error.problems() == (first, second, third)
    assert str(error) == "3 problems in the input"


def test_input_errors_with_mixed_hints_can_be_sorted() -> None:
    problems = [Problem(where="a", message="m", hint=hint) for hint in (None, "x", None)]
    assert set(InputErrors(problems).problems()) == set(problems)


def test_one_problem_is_counted_in_the_singular() -> None:
    assert str(InputErrors.one("unknown key", where="a.toml")) == "1 problem in the input"


def test_input_errors_need_a_problem() -> None:
    with pytest.raises(ValueError, match="at least one"):
        InputErrors([])


def test_a_failed_build_names_its_log() -> None:
    assert BuildFailed("script failed", log="/store/logs/a.log").log == "/store/logs/a.log"
    assert BuildFailed("script failed").log is None
