# SPDX-License-Identifier: Apache-2.0
"""Which shape a site picks is changed in its file's text, and nothing else moves."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.errors import InputErrors
from derive.fabric.shapes_edit import with_shape

HEAD = """\
# the lab
format = 1
name = "lab"    # ours

# in order
[[nodes]]
name = "a"
"""
TABLE = """\
[shapes]  # picked
ds41f = "tp4-ring"   # since Monday
probe = 'ring4'
# the end of it

[[nodes]]
name = "a"
"""


def picked(text: str, recipe: str = "ds41f", shape: str = "tp3-triangle") -> str:
    return with_shape(text, recipe, shape, "site.toml")


def test_a_table_is_added_before_the_first_other_table_and_its_comment() -> None:
    assert picked(HEAD) == HEAD.replace("# in order\n", '[shapes]\nds41f = "tp3-triangle"\n\n# in order\n')


def test_a_value_is_replaced_and_its_comment_stays() -> None:
    assert picked(TABLE) == TABLE.replace("tp4-ring", "tp3-triangle")


def test_a_key_is_added_after_the_last() -> None:
    text = TABLE.replace("ds41f", "other")
    assert picked(text) == text.replace("probe = 'ring4'\n", "probe = 'ring4'\nds41f = \"tp3-triangle\"\n")


def test_what_is_picked_already_changes_nothing() -> None:
    assert picked(TABLE, shape="tp4-ring") == TABLE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "format = 1",
        "[shapes]",
        "[shapes]\n",
        'a = """\n[shapes]\nds41f = "no"\n"""\n',
        'a = """\n[shapes]\n"""\n[ shapes ]\nds41f="x"\n[b]\n',
        'x = 1\r\n[shapes]\r\nds41f = "x"  # y\r\n',
        '[a]\nshapes = 1\n[b.shapes]\nds41f = "x"\n',
        '[shapes]\n"ds41f" = "x"\n',
    ],
)
def test_any_form_of_a_file_reads_as_before_but_for_the_choice(text: str) -> None:
    before = tomllib.loads(text)
    after = tomllib.loads(picked(text))
    assert after["shapes"]["ds41f"] == "tp3-triangle"
    assert {key: value for key, value in after.items() if key != "shapes"} == {
        key: value for key, value in before.items() if key != "shapes"
    }


def test_line_endings_are_kept() -> None:
    text = HEAD.replace("\n", "\r\n")
    assert picked(text).count("\r\n") == picked(text).count("\n")


@pytest.mark.parametrize(
    "text", ['shapes = { ds41f = "x" }\n', 'shapes.ds41f = "x"\n', 'shapes = { probe = "x" }\n[a]\n']
)
def test_a_form_that_cannot_be_changed_line_by_line_is_refused_with_one_that_can(text: str) -> None:
    with pytest.raises(InputErrors) as caught:
        picked(text)
    (problem,) = caught.value.problems()
    assert problem.where == "site.toml: shapes"
    assert problem.hint is not None


LINES = st.lists(
    st.sampled_from(
        [
            "# x",
            "",
            "a = 1",
            'b = "[shapes]"',
            "[[nodes]]",
            "[c]",
            "[shapes]",
            'probe = "ring4"',
            'ds41f = "y" # z',
            "  ",
        ]
    ),
    max_size=10,
)


@given(LINES)
def test_whatever_stands_in_a_file_only_the_choice_changes_or_it_is_refused(lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    after = picked(text)
    assert tomllib.loads(after) == {**before, "shapes": {**before.get("shapes", {}), "ds41f": "tp3-triangle"}}
    assert picked(after) == after
    kept = [line for line in text.splitlines() if not line.startswith("ds41f")]
    remaining = iter(after.splitlines())
    assert all(line in remaining for line in kept), "every other line is there, in its order"
