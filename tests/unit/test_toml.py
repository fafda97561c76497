# SPDX-License-Identifier: Apache-2.0
"""TOML as JSON values: what no document can hold is told where it stands, all at once."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.toml import key_path, parse_toml


def test_what_no_document_can_hold_is_told_at_its_keys() -> None:
    text = 'a = [1.5, nan]\nb = { decimal = "x" }\n[c]\n"d\\ne" = 9007199254740992\n'
    table, problems = parse_toml(text.encode(), "f.toml")
    assert table is None
    assert [(one.where, one.message) for one in problems] == [
        ("f.toml: a[1]", "nan is no number that a document can hold"),
        ("f.toml: b", "a table with no key but decimal, which is how numbers are kept"),
        ('f.toml: c."d\\ne"', "no number that a document can hold: it is beyond 2^53"),
    ]


def test_decimal_is_a_key_like_others_beside_others_and_with_values_that_are_not_text() -> None:
    table, problems = parse_toml(b'a = { decimal = "1", b = 1 }\nc = { decimal = 1.5 }\ndecimal = 2\n', "f.toml")
    assert (table, problems) == (
        {"a": {"decimal": "1", "b": 1}, "c": {"decimal": {"decimal": "1.5"}}, "decimal": 2},
        [],
    )


@pytest.mark.parametrize("text", ["a = " + "9" * 5000, "a = 0x" + "f" * 5000])
def test_an_integer_of_thousands_of_digits_is_an_ordinary_problem(text: str) -> None:
    table, (problem,) = parse_toml(text.encode(), "f.toml")
    assert table is None
    assert problem.where.startswith("f.toml")
    assert len(problem.message) < 80


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_key_path_is_one_line_and_names_its_key(key: str) -> None:
    path = key_path((key,))
    assert path.isprintable()
    assert tomllib.loads(f"{path} = 1") == {key: 1}
