# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Literal

import pytest
from pydantic import Field, ValidationError, field_validator

from derive.content import Content, key_path, parse_model, parse_toml, to_key
from derive.errors import Problem


class Layer(Content):
    name: str
    paths: tuple[str, ...] = ()


class Image(Content):
    name: str
    platform: Literal["linux/amd64", "linux/arm64"] = "linux/amd64"
    layers: tuple[Layer, ...] = Field(min_length=1)
    count: int = 0

    @field_validator("name")
    @classmethod
    def _lower(cls, value: str) -> str:
        if value != value.lower():
            raise ValueError("A name is lower-case")
        return value


def toml(text: str) -> dict[str, object]:
    data, problems = parse_toml(text.encode(), "x.toml")
    assert problems == []
    assert data is not None
    return data


@pytest.mark.parametrize("text", ["0.2", "1e-7", "-0.0", "6.02E23", "1_000.5", "+1.0"])
def test_a_float_is_kept_as_its_source_text(text: str) -> None:
    assert toml(f"a = {text}") == {"a": {"decimal": text}}


@pytest.mark.parametrize("text", ["inf", "+inf", "-inf", "nan", "-nan"])
def test_infinity_and_not_a_number_are_refused(text: str) -> None:
    data, problems = parse_toml(f"a = {text}".encode(), "x.toml")
    assert data is None
    assert [p.where for p in problems] == ["x.toml: a"]
    assert text in problems[0].message


@pytest.mark.parametrize("data", [b"a =", b"a = 1\na = 2", b"a = '\xff'", b"[a]\n[a]", b"\xef\xbb\xbfa = 1"])
def test_text_that_is_no_toml_is_one_problem_with_its_file(data: bytes) -> None:
    parsed, problems = parse_toml(data, "images/x.toml")
    assert parsed is None
    assert len(problems) == 1
    assert problems[0].where == "images/x.toml"
    assert problems[0].message.startswith("not valid TOML: ")


def test_a_good_document_becomes_a_frozen_value() -> None:
    image, problems = parse_model(Image, toml("name='a'\n[[layers]]\nname='l'\npaths=['usr']"), "x.toml")
    assert problems == []
    assert image == Image(name="a", layers=(Layer(name="l", paths=("usr",)),))
    with pytest.raises(ValidationError):
        image.name = "b"  # type: ignore[misc]


def test_every_problem_is_reported_at_once_with_its_key_path() -> None:
    text = """
    name = "A"
    platform = "linux/riscv64"
    count = true
    extra = 1
    [[layers]]
    name = "ok"
    [[layers]]
    path = ["usr"]
    """
    image, problems = parse_model(Image, toml(text), "images/x.toml")
    assert image is None
    assert {p.where: p.message for p in problems} == {
        "images/x.toml: name": "a name is lower-case",
        "images/x.toml: platform": "input should be 'linux/amd64' or 'linux/arm64'",
        "images/x.toml: count": "input should be a valid integer",
        "images/x.toml: extra": "unknown key",
        "images/x.toml: layers[1].name": "this key is missing",
        "images/x.toml: layers[1].path": "unknown key",
    }


def test_a_problem_shows_what_was_got_and_not_pages_of_it() -> None:
    _, problems = parse_model(Image, {"name": "N" * 1000, "layers": [{"name": "l"}]}, "x.toml")
    assert problems[0].detail[0].startswith("got       'NNN")
    assert len(problems[0].detail[0]) == 200


def test_values_are_not_coerced() -> None:
    _, problems = parse_model(Image, {"name": 1, "count": "1", "layers": [{"name": "l"}]}, "x.toml")
    assert [p.where for p in problems] == ["x.toml: name", "x.toml: count"]


def test_a_prefix_says_which_table_of_the_file_was_read() -> None:
    _, problems = parse_model(Layer, {}, "x.toml", "layers[3]")
    assert problems == [Problem(where="x.toml: layers[3].name", message="this key is missing")]


def test_a_date_is_read_as_its_text() -> None:
    layer, problems = parse_model(Layer, toml("name = 2026-01-02"), "x.toml")
    assert problems == []
    assert layer == Layer(name="2026-01-02")


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ((), ""),
        (("a",), "a"),
        (("a", 2, "b-c_d"), "a[2].b-c_d"),
        (("a", "b.c"), 'a."b.c"'),
        (("a", ""), 'a.""'),
        (("é",), '"é"'),
    ],
)
def test_a_key_path_reads_as_in_toml(location: tuple[int | str, ...], text: str) -> None:
    assert key_path(location) == text


def test_a_field_name_is_written_with_hyphens() -> None:
    assert to_key("build_platform") == "build-platform"
