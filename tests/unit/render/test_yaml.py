# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from derive.render.yaml import encode_yaml


def text(value: Any) -> str:
    return encode_yaml(value).decode()


def test_tables_and_lists_are_blocks_and_every_text_is_quoted() -> None:
    document = {"a": "1", "b": {"c": [1, "x", True, None], "d": {}}, "e": []}
    lines = ['a: "1"', "b:", "  c:", "    - 1", '    - "x"', "    - true", "    - null", "  d: {}", "e: []"]
    assert text(document).splitlines() == lines


def test_a_table_in_a_list_begins_behind_its_dash() -> None:
    assert text({"a": [{"b": 1, "c": [[2]]}]}) == "a:\n  - b: 1\n    c:\n      - - 2\n"


@pytest.mark.parametrize("key", ["no", "On", "y", "Null", "1st", "a b", "", "a:", "-"])
def test_a_key_that_a_reader_would_take_for_something_else_is_quoted(key: str) -> None:
    assert text({key: 1}) == f'"{key}": 1\n'


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ('"', '\\"'),
        ("\\", "\\\\"),
        ("\n", "\\n"),
        ("\x00", "\\u0000"),
        ("\x85", "\\u0085"),
        ("\u2028", "\\u2028"),
        ("\ufeff", "\\uFEFF"),
        ("é", "é"),
        ("語", "語"),
        ("\U0001f600", "\\U0001F600"),
        ("$x #", "$x #"),
    ],
)
def test_what_no_reader_would_keep_is_escaped(given: str, written: str) -> None:
    assert text({"a": given}) == f'a: "{written}"\n'


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError, match=r"0\.5"):
        encode_yaml({"a": 0.5})  # type: ignore[dict-item]
