# SPDX-License-Identifier: Apache-2.0
"""What a value in a recipe may look like."""

from __future__ import annotations

import pytest

from derive.canonical import Json
from derive.recipes import forms
from derive.recipes.forms import Form, number_text, size_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("112GiB", 112 * 2**30),
        ("119.7GiB", 128526896332),
        ("10.5GiB", 11274289152),
        ("2.2GiB", 2362232012),
        ("64KiB", 65536),
        ("16MiB", 2**24),
        ("1TiB", 2**40),
        ("512B", 512),
        ("0.3B", 0),
    ],
)
def test_a_size_is_bytes_with_part_of_one_cut_off(text: str, size: int) -> None:
    assert size_bytes(text) == size
    assert forms.SIZE.accepts(text)


@pytest.mark.parametrize("text", ["8192TiB", "9" * 5000 + "GiB", "1." + "9" * 5000 + "GiB", "9007199254740992B"])
def test_a_size_that_no_document_holds_is_refused_and_told_to_be_one(text: str) -> None:
    assert not forms.SIZE.accepts(text)
    assert forms.SIZE.near(text) == "below 8192TiB, and with 16 digits after the point at most"
    with pytest.raises(ValueError, match="not a size"):
        size_bytes(text)


def test_the_largest_size_is_one_byte_below_what_a_document_holds() -> None:
    assert size_bytes("9007199254740991B") == 2**53 - 1
    assert (forms.SIZE.near("9007199254740991B"), forms.SIZE.near("x")) == (None, None)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("{hoem}/x", "did you mean {home}?"),
        ("{zzz}/x", "known: {home}, {folder}, {models}"),
        ("/a/{home}/x", "{home} stands at the beginning, or not at all"),
        ("{home}/a{", "known: {home}, {folder}, {models}"),
        ("a b", None),
        (1, None),
    ],
)
def test_a_source_with_a_placeholder_out_of_place_is_refused_with_what_was_meant(value: Json, hint: str | None) -> None:
    assert not forms.SOURCE.accepts(value)
    assert forms.SOURCE.near(value) == hint


@pytest.mark.parametrize("text", ["112", "112g", "112GB", "1 GiB", ".5GiB", "1.GiB", "-1GiB", "1e3B", "GiB", ""])
def test_any_other_way_to_write_a_size_is_refused(text: str) -> None:
    assert not forms.SIZE.accepts(text)
    with pytest.raises(ValueError, match="not a size"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("value", "text"), [("0.25", "0.25"), (2, "2"), ({"decimal": "0.25"}, "0.25"), ("2", "2"), (0, "0")]
)
def test_a_number_keeps_its_digits(value: Json, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    "value", [True, -1, "", "x", "1.", "9" * 5000, {"decimal": "1e5"}, {"decimal": "-1.0"}, [], None]
)
def test_what_is_no_number_has_no_digits(value: Json) -> None:
    assert number_text(value) is None


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (forms.NAME, ["tp4-ring", "a", "4k"], ["", "-a", "a-", "A", "a_b", "a--b", 1]),
        (forms.OPTION, ["max-num-seqs", "o3", "a_b", "config.key"], ["--a", "", "A", "1", "a b", "a-"]),
        (forms.VARIABLE, ["NCCL_ALGO", "_x", "a1"], ["", "1A", "A-B", "A=B", "A B"]),
        (
            forms.ABSOLUTE,
            ["/model", "/a.b/c-d_e"],
            ["", "/", "model", "/a/", "/a b", "/a:b", "/a\n", "/a,b", "/a/../b", "/./a"],
        ),
        (
            forms.SOURCE,
            ["{home}/x", "{folder}", "{models}/a", "/dev/x:01", "/a"],
            ["", "home/x", "{other}/x", "~/x", "{home}x", "{home}/../x", "/..", "/a/{home}", "{home}/{folder}", "/a{b"],
        ),
        (forms.TEXT, ["x", "a b"], ["", "a\nb", 1, True, None]),
        (forms.TEXTS, [[], ["a", ""]], ["a", [1], [["a"]], ["a\0"]]),
        (forms.NAMES, [[], ["a", "b"]], [["a", "a"], ["A"], "a", [1]]),
        (forms.VALUE, ["", "a b", "-2 -2"], ["a\nb", "a\0", 1, True, {"decimal": "1.0"}]),
        (forms.PROSE, ["x", "a\nb"], ["", " \n", 1]),
        (forms.SECONDS, [1, "0.25", {"decimal": "0.5"}], [0, "0", "0.0", "x", -1, True, {"decimal": "0.00"}]),
        (forms.PORT, [1, 65535], [0, 65536, True, "80"]),
        (forms.COUNT, [1, 2**31 - 1], [0, 2**31, True, {"decimal": "1.0"}]),
        (forms.SWITCH, [True, False], [0, 1, "true", None]),
        (forms.URL_PATH, ["/", "/v1/models"], ["", "v1", "/a?b", "/a b"]),
        (
            forms.LIMIT,
            ["-1:-1", "67108864:67108864", "1:-1", "0:9223372036854775807"],
            ["1", "1:", "-2:1", "unlimited:1", "2:1", "-1:1", "1:9223372036854775808", "9" * 5000 + ":-1", 1],
        ),
        (forms.ULIMIT, ["memlock", "nofile"], ["nofil", "as", "", 1]),
        (forms.GPUS, ["all", "1", "99"], ["0", "100", "9" * 5000, "none", "device=0", 1]),
        (forms.WORDS, [[], ["a", "b c"]], [[""], ["a\n"], "a", [1], None]),
        (forms.ENTRYPOINT, [[], ["a", ""]], [["", "a"], [""], "a", [1]]),
        (forms.INTERVAL, [1, 60, "0.01", {"decimal": "0.25"}], [0, 61, "0.009", "60.1", "9" * 5000, -1, True, []]),
        (forms.SOME_SIZE, ["1B", "4KiB"], ["0B", "0GiB", "8192TiB", "x", 1]),
        (forms.MEMORY, ["6MiB", "112GiB"], ["0B", "5MiB", "8192TiB", 1]),
        (forms.one_of("a", "b"), ["a", "b"], ["c", "", 1, None]),
        (
            forms.ARGUMENT,
            ["x", "", 0, True, ["a"], [{"a": 1}], {"a": {"b": []}}, {"decimal": "0.82"}],
            ["a\nb", "a\0", [], {}, None, {"a": "\0"}, {"a\0": 1}],
        ),
    ],
)
def test_each_form_accepts_what_it_says_and_nothing_else(form: Form, good: list[Json], bad: list[Json]) -> None:
    assert [value for value in good if not form.accepts(value)] == []
    assert [value for value in bad if form.accepts(value)] == []


def test_a_choice_is_named_by_its_words() -> None:
    assert forms.one_of("a", "b", "c").expects == "a, b or c"
