# SPDX-License-Identifier: Apache-2.0
"""Values as the words that a process gets."""

from __future__ import annotations

import json

import pytest

from derive.canonical import Json
from derive.recipes.values import argument_words, json_text, plain_text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, ("--x",)),
        (False, ("--no-x",)),
        (256, ("--x", "256")),
        ("", ("--x", "")),
        ("a b", ("--x", "a b")),
        ('"{{quoted}}" $HOME', ("--x", '"{{quoted}}" $HOME')),
        ({"decimal": "0.82"}, ("--x", "0.82")),
        (["a", "b c"], ("--x", "a", "b c")),
        ([1, {"decimal": "2.50"}], ("--x", "1", "2.50")),
        ([{"b": 1}], ("--x", '[{"b":1}]')),
        ([[1, 2], [3]], ("--x", "[[1,2],[3]]")),
        ({"image": 4}, ("--x", '{"image":4}')),
    ],
)
def test_an_option_is_one_word_or_a_name_and_its_value(value: Json, words: tuple[str, ...]) -> None:
    assert argument_words("x", value) == words


def test_json_has_sorted_keys_no_spaces_and_decimals_as_typed() -> None:
    value: Json = {"b": {"decimal": "1.0"}, "a": [True, False, "é\n", {"d": 1, "c": []}], "B": {"decimal": "+1_0.50"}}
    text = json_text(value)
    assert text == '{"B":10.50,"a":[true,false,"\\u00e9\\n",{"c":[],"d":1}],"b":1.0}'
    assert json.loads(text)["a"] == [True, False, "é\n", {"d": 1, "c": []}]


def test_json_with_a_placeholder_in_doubled_braces_is_left_alone() -> None:
    config: Json = {"method": "dspark", "template": "{{model}} \"'`$(x)"}
    assert json.loads(plain_text(config)) == config


def test_a_boolean_inside_of_text_is_json() -> None:
    assert plain_text(True) == "true"
    assert plain_text(["a", 1]) == '["a",1]'
