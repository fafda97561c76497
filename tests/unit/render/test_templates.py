# SPDX-License-Identifier: Apache-2.0
"""Templates may do little, so that no value gets into a file unquoted."""

from __future__ import annotations

import pytest

from derive.errors import InputErrors
from derive.render.templates import TEMPLATES, Templates, path_of, template_problems
from support.launching import project_files


def render(text: str, **values: object) -> str:
    return Templates({"render/run.j2": text.encode()}).render("run", values).decode()  # type: ignore[arg-type]


def refused(text: str, name: str = "run") -> list[str]:
    files = {**project_files(), path_of(name): text.encode()}
    return [f"{one.where}: {one.message}" for one in template_problems(files)]


def test_the_templates_of_this_project_say_only_what_they_may() -> None:
    assert template_problems(project_files()) == ()


def test_a_value_goes_through_its_filter() -> None:
    assert render("x {{ a | shell }}\n", a="b c") == "x 'b c'\n"


@pytest.mark.parametrize(
    "text",
    [
        "{{ a }}",
        "x {{ a }} {{ b | shell }}",
        "{% for x in a %}{{ x }}{% endfor %}",
        "{{ 'text' }}",
        "{{ a ~ b }}",
    ],
)
def test_a_value_without_a_filter_is_refused(text: str) -> None:
    assert "render/run.j2: line 1: a value without a filter that quotes it" in refused(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{{ a.b | shell }}", "getattr"),
        ("{{ a['b'] | shell }}", "getitem"),
        ("{{ a() | shell }}", "call"),
        ("{% include 'x' %}", "include"),
        ("{% import 'x' as y %}", "import"),
        ("{% macro m() %}{% endmacro %}", "macro"),
        ("{% set x = 1 %}", "assign"),
        ("{% filter shell %}x{% endfilter %}", "filterblock"),
        ("{% if a == 'b' %}x{% endif %}", "compare"),
    ],
)
def test_what_could_ask_for_more_is_refused_at_its_line(text: str, what: str) -> None:
    assert f"render/run.j2: line 2: a template may not say this: {what}" in refused(f"\n{text}\n")


def test_a_filter_of_another_language_is_refused() -> None:
    assert refused("x\n{{ a | systemd }}") == ["render/run.j2: line 2: systemd does not quote for this file"]
    assert refused("{{ a | shell }}", "slice") == ["render/slice.j2: line 1: shell does not quote for this file"]


def test_a_filter_that_does_not_exist_is_refused() -> None:
    assert refused("{{ a | upper }}") == ["render/run.j2: line 1: upper does not quote for this file"]


def test_a_template_that_cannot_be_read_names_its_line() -> None:
    assert refused("\n\n{% if %}") == [
        "render/run.j2: line 3: not a template: Expected an expression, got 'end of statement block'"
    ]
    assert refused("") == []
    files = {**project_files(), "render/run.j2": b"a\xff"}
    assert [one.message for one in template_problems(files)] == ["not UTF-8, at byte 1"]


def test_every_template_that_is_missing_is_named_at_once() -> None:
    problems = template_problems({})
    assert [one.where for one in problems] == [path_of(name) for name in TEMPLATES]


def test_a_value_that_nobody_gives_is_an_error_that_names_those_that_are_given() -> None:
    with pytest.raises(InputErrors) as error:
        render("{{ z | shell }}", a="1", b="2")
    (problem,) = error.value.problems()
    assert (problem.where, problem.message, problem.hint) == (
        "render/run.j2",
        "no such value: 'z' is undefined",
        "values: a, b",
    )


def test_a_value_that_its_place_cannot_hold_is_an_error() -> None:
    with pytest.raises(InputErrors, match="problem"):
        render("# {{ a | comment }}", a="b\nrm")


@pytest.mark.parametrize(
    "text", ["{% if y %}{% endif %}", "{% for x in y %}{% endfor %}", "{{ y | shell }}", "{% if not y %}{% endif %}"]
)
def test_a_name_that_no_value_has_is_an_error_wherever_it_stands(text: str) -> None:
    with pytest.raises(InputErrors) as caught:
        render(text, a="a")
    assert [one.message for one in caught.value.problems()] == ["no such value: 'y' is undefined"]
