# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.canonical import Json
from derive.toml_text import toml_line, toml_text

LEAVES = st.one_of(
    st.booleans(),
    st.integers(-(2**52), 2**52),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(["0.82", "2.0", "1e5", "-3.25E-2"]).map(lambda text: {"decimal": text}),
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).filter(lambda key: key != "decimal")
JSON = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4))
)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(KEYS, JSON, max_size=5))
def test_any_document_without_null_is_read_back_as_it_was(document: dict[str, Json]) -> None:
    toml_text(document, "a heading\nof two lines")  # it compares by itself


@pytest.mark.parametrize("value", [None, {"decimal": "inf"}, {"decimal": "12"}, [None], "\udcff"])
def test_what_toml_cannot_hold_is_refused(value: Json) -> None:
    with pytest.raises(ValueError, match="TOML"):
        toml_text({"key": value})


@settings(max_examples=30, deadline=None)
@given(KEYS, st.text(st.characters(exclude_categories=["Cs"])))
def test_a_line_is_one_line_and_reads_back_as_it_was(key: str, value: str) -> None:
    line = toml_line(key, value)
    assert line.isprintable()
    assert tomllib.loads(line) == {key: value}


def test_long_tables_and_lists_get_room_and_short_ones_a_line() -> None:
    text = toml_text({"a": {"short": {"x": 1}, "list": ["word" * 6] * 6, "long": {"text": "word" * 30}}})
    assert text.startswith('\n[a]\nshort = { x = 1 }\nlist = [\n    "')
    assert '\n[a.long]\ntext = "' in text
