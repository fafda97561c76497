# SPDX-License-Identifier: Apache-2.0
"""What a launch may not say is told at the place that says it, all at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from derive.recipes.resolved import Origin
from derive.render.faults import launch_problems
from derive.render.launch import BindMount
from support.launching import project_shape, small_launch

RESOLVED = replace(
    project_shape("probe", "ring4"),
    recipe="small",
    origins={"environment.A": Origin(file="recipes/small.toml", key="shapes.pair.environment.A")},
)


def found(**changes: Any) -> list[tuple[str, str]]:
    return [(one.where, one.message) for one in launch_problems(small_launch(**changes), RESOLVED)]


def test_a_launch_that_every_form_can_say_has_no_problem() -> None:
    assert found() == []


def test_a_line_break_in_a_variable_is_told_where_the_variable_stands() -> None:
    message = "a line break in a variable, which no environment file can hold"
    place = "recipes/small.toml: shapes.pair.environment.A"
    assert found(environment={"A": "x\ny"}) == [(place, message)]
    assert found(environment={"A": "x\r"}) == [(place, message)]


@pytest.mark.parametrize("name", ["", "A-B", "1A", "A=B", "Ä", " A"])
def test_a_variable_has_a_name_that_every_form_can_write(name: str) -> None:
    assert found(environment={name: "x"}) == [
        (f"recipes/small.toml: environment.{name}", f"no name of a variable: {name!r}")
    ]


def test_a_variable_may_fill_a_line_that_docker_reads_and_no_more() -> None:
    assert found(environment={"A": "x" * 64_999}) == []
    (problem,) = found(environment={"A": "é" * 32_500})
    assert problem[1] == "longer than 65000 bytes, and so than a line that Docker reads"


@pytest.mark.parametrize("text", ["a\0b", "a\ud800"])
def test_no_process_can_be_given_a_zero_byte_or_half_a_character(text: str) -> None:
    message = f"a character that no process can be given: {text!r}"
    assert found(arguments=("--x", text)) == [("recipes/small.toml: arguments", message)]
    assert found(entrypoint=(text,)) == [("recipes/small.toml: arguments", message)]


@pytest.mark.parametrize("name", ["", "A", "a--b", "-a", "a-", "a.b", "a b"])
def test_a_service_has_a_name_for_container_and_units(name: str) -> None:
    assert [message for _, message in found(name=name)] == ["no name for a container and its units"]


@pytest.mark.parametrize("name", ["", ".", "a/b", "manifest.json", "MANIFEST.JSON", "-a"])
def test_a_node_has_a_name_for_a_folder(name: str) -> None:
    assert found(node=name) == [("site: nodes[0].name", f"no name for a folder: {name!r}")]


def test_two_mounts_have_two_targets_and_all_paths_are_absolute() -> None:
    mounts = (
        BindMount(source="/a", target="/x", read_only=True),
        BindMount(source="b", target="/x", read_only=True),
    )
    assert [message for _, message in found(mounts=mounts)] == [
        "two mounts with the target /x",
        "no absolute path: 'b'",
    ]
