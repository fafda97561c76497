# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.render import quoting


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("plain-1.2/3=x,y", "plain-1.2/3=x,y"),
        ("", '""'),
        ("a b", '"a b"'),
        ("100%", '"100%%"'),
        ("$HOME", '"$$HOME"'),
        ('say "x"', '"say \\"x\\""'),
        ("a\\b", '"a\\\\b"'),
        ("a\nb\t\x07", '"a\\nb\\t\\x07"'),
        (";", '";"'),
        ("'", '"\'"'),
    ],
)
def test_a_word_of_a_unit_keeps_its_specifiers_variables_and_escapes(word: str, written: str) -> None:
    assert quoting.systemd(word) == written


def test_several_words_stand_with_a_space_between() -> None:
    assert quoting.systemd(["a", "b c"]) == 'a "b c"'
    assert quoting.shell(["a", "b c"]) == "a 'b c'"


@pytest.mark.parametrize("line", ["a\nb", "a\\", "\x00", "a\x85b"])
def test_what_is_no_line_cannot_stand_in_a_setting_or_comment(line: str) -> None:
    with pytest.raises(ValueError, match="can hold"):
        quoting.systemd_text(line)
    if not line.endswith("\\"):
        with pytest.raises(ValueError, match="can hold"):
            quoting.comment(line)


def test_a_setting_keeps_its_per_cent_signs() -> None:
    assert quoting.systemd_text('5% of "x" $y') == '5%% of "x" $y'


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        (["type=bind", "source=/a b"], "type=bind,source=/a b"),
        (["source=/a,b"], '"source=/a,b"'),
        (['source=/a"b', "x"], '"source=/a""b",x'),
    ],
)
def test_a_field_with_a_comma_or_a_quote_is_quoted(fields: list[str], written: str) -> None:
    assert quoting.field_list(fields) == written


def test_compose_gets_each_dollar_twice_but_for_keys() -> None:
    assert quoting.compose({"$a": ["$b", 1, True, {"c": "$$"}]}) == {"$a": ["$$b", 1, True, {"c": "$$$$"}]}
