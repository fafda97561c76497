# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.canonical import Json
from derive.importing.argv import merged_arguments, parse_arguments
from derive.recipes.values import argument_words

NAMES = st.from_regex(r"[a-z]{2,6}(-[a-z]{2,6}){0,2}", fullmatch=True).filter(lambda name: not name.startswith("no-"))
PLAIN = st.one_of(
    st.integers(0, 10**14),
    st.from_regex(r"(0|[1-9][0-9]{0,3})\.[0-9]{1,4}", fullmatch=True).map(lambda text: {"decimal": text}),
    st.from_regex(r"[a-zA-Z_/.:]{1,12}", fullmatch=True),
    st.just(""),
)
TABLES = st.dictionaries(NAMES, st.one_of(PLAIN, st.lists(st.integers(0, 99), max_size=3)), min_size=1, max_size=3)
VALUES = st.one_of(st.booleans(), PLAIN, TABLES, st.lists(PLAIN, min_size=2, max_size=3))


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_options_as_recipes_give_them_are_read_back(options: dict[str, Json]) -> None:
    words = [word for name, value in options.items() for word in argument_words(name, value)]
    assert parse_arguments(["served", *words]).options == options
    assert parse_arguments(["served", *words]).positional == ("served",)


def test_text_that_would_come_back_otherwise_stays_text() -> None:
    words = ["--a", "007", "--b", "1e5", "--c", "[1,2]", "--d", "{no json", "--e", "-0", "--f=x=y", "--g", "-3"]
    assert parse_arguments(words).options == {
        "a": "007", "b": "1e5", "c": "[1,2]", "d": "{no json", "e": "-0", "f": "x=y", "g": -3,
    }  # fmt: skip


def test_the_later_of_two_counts_and_short_names_are_written_out() -> None:
    assert parse_arguments(["-tp", "3", "--x", "1", "--no-x", "--max_len", "5"]).options == {
        "tensor-parallel-size": 3,
        "x": False,
        "max-len": 5,
    }


def test_a_shapes_options_stand_above_the_shared_ones_option_by_option() -> None:
    shared = ["/models", "--a", "1", "--b", "--c", "x", "y"]
    assert merged_arguments(shared, ["--a", "2", "--no-b"]) == ["/models", "--a", "2", "--c", "x", "y", "--no-b"]
    assert merged_arguments(shared, ["/other", "--c", "z"]) == ["/other", "--a", "1", "--b", "--c", "z"]
