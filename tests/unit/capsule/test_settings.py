# SPDX-License-Identifier: Apache-2.0
"""Places are put into a user's settings and taken out of them, and nothing else in the file moves."""

from __future__ import annotations

import pytest

from derive.capsule.settings import places_in, with_places, without_empty
from derive.errors import InputErrors

AROUND = '# mine\n[mirrors]\ngit = "https://g/x"  # a host\n\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[archives]\nplaces = ["/a", "/b.tar"]\n'),
        (AROUND, AROUND + '\n[archives]\nplaces = ["/a", "/b.tar"]\n'),
        (AROUND.rstrip("\n"), AROUND.rstrip("\n") + '\n\n[archives]\nplaces = ["/a", "/b.tar"]\n'),
        (
            '[archives]  # of us\n# old\nplaces = [\n  \'/x\', # one\n  """y]\n""",\n]\n[other]\nplaces = 3\n',
            '[archives]  # of us\n# old\nplaces = ["/a", "/b.tar"]\n[other]\nplaces = 3\n',
        ),
        ("[other]\nplaces = 3\n[archives]\n[x]\n", '[other]\nplaces = 3\n[archives]\nplaces = ["/a", "/b.tar"]\n[x]\n'),
        ('[archives]\nplaces = "/one"', '[archives]\nplaces = ["/a", "/b.tar"]\n'),
    ],
)
def test_places_take_the_stead_of_those_before_and_all_else_stays(before: str, after: str) -> None:
    assert with_places(before, ["/a", "/b.tar"], "config.toml") == after
    assert places_in(after, "config.toml") == ["/a", "/b.tar"]


@pytest.mark.parametrize("text", ['archives = { places = ["/x"] }\n', 'archives.places = ["/x"]\n'])
def test_a_form_in_which_no_edit_is_safe_is_left_to_the_user(text: str) -> None:
    assert places_in(text, "config.toml") == ["/x"]
    with pytest.raises(InputErrors) as caught:
        with_places(text, ["/a"], "config.toml")
    assert caught.value.problems()[0].hint == 'write it yourself: places = ["/a"]'


@pytest.mark.parametrize("text", ["[archives", "[archives]\nplaces = 3\n"])
def test_settings_that_are_wrong_are_input_errors(text: str) -> None:
    with pytest.raises(InputErrors):
        places_in(text, "config.toml")


@pytest.mark.parametrize("text", ["", AROUND, "[other]\nplaces = 3\n"])
def test_a_table_that_was_added_goes_again_with_its_last_place(text: str) -> None:
    added = with_places(text, ["/a"], "config.toml")
    assert without_empty(with_places(added, [], "config.toml")) == text


@pytest.mark.parametrize("text", ["[archives]\n[x]\n", "# mine\n[archives]\n"])
def test_a_table_that_a_person_wrote_stays(text: str) -> None:
    emptied = with_places(with_places(text, ["/a"], "config.toml"), [], "config.toml")
    assert without_empty(emptied) == emptied
