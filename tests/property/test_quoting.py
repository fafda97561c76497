# SPDX-License-Identifier: Apache-2.0
"""Whatever a text holds, the program that reads it gets that text; and no order of keys moves a byte."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.recipes.values import argument_words
from derive.render import quoting
from derive.render.bundle import Bundle
from derive.render.documents import laid_out, launch_document, launch_from_document
from derive.render.environment_file import environment_file
from derive.render.templates import Templates
from derive.render.yaml import encode_yaml
from support.launching import example_site, node_files, project_files, project_shape, rendered, small_launch
from support.require import skip_or_fail

PIECES = st.sampled_from(["'", '"', "$", "$$", "${A}", "`id`", "%", "%h", "\\", "\\\\", "{{", "}}", "#", ";", "!", " "])
TEXTS = st.lists(
    PIECES | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4), max_size=8
).map("".join)
LINES = TEXTS.map(lambda text: "".join(text.splitlines()))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
SITE = example_site(project_shape("probe", "triangle"))


def words_of_bash(text: str, locale: str) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {text}"], capture_output=True, check=True, env={"LC_ALL": locale}
    )
    return done.stdout.decode().split("\0")[:-1]


@settings(max_examples=20)
@given(st.lists(TEXTS, min_size=1, max_size=20), st.sampled_from(["C", "C.UTF-8"]))
def test_a_shell_reads_the_words_that_were_quoted(words: list[str], locale: str) -> None:
    assert words_of_bash(quoting.shell(words), locale) == words


@settings(max_examples=12)
@given(JSON)
def test_json_in_an_argument_reaches_the_process_through_two_shells(value: Any) -> None:
    (_, word) = argument_words("config", {"value": value})
    inner = quoting.shell(["printf", "%s\\0", word])
    (said,) = words_of_bash(f'"$(eval {quoting.shell(inner)} | tr -d "\\0")"', "C.UTF-8")
    assert json.loads(said) == {"value": value}


@settings(max_examples=30)
@given(st.dictionaries(TEXTS, JSON, min_size=1, max_size=4))
def test_a_yaml_reader_reads_the_document_that_was_written(document: dict[str, Any]) -> None:
    yaml = yaml_reader()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    assert yaml.load(encode_yaml(document), loader) == document


def yaml_reader() -> Any:
    try:
        return import_module("yaml")
    except ImportError:
        skip_or_fail("there is no reader of YAML: pip install pyyaml")


@given(st.lists(TEXTS, max_size=5), st.dictionaries(st.from_regex(r"[A-Z_]{1,4}", fullmatch=True), LINES, max_size=5))
@settings(max_examples=20)
def test_a_launch_read_back_from_its_document_is_the_launch(words: list[str], variables: dict[str, str]) -> None:
    launch = small_launch(arguments=tuple(words), environment=variables)
    assert launch_from_document(json.loads(laid_out(launch_document(launch)))) == launch


@settings(max_examples=20)
@given(st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,4}", fullmatch=True), LINES, max_size=8))
def test_an_environment_file_has_one_line_for_each_variable_with_its_text_behind_the_first_equals_sign(
    variables: dict[str, str],
) -> None:
    lines = environment_file(variables).decode().split("\n")
    assert lines.pop() == ""
    assert dict(line.split("=", 1) for line in lines) == variables


@settings(max_examples=8)
@given(st.lists(TEXTS, max_size=6), st.dictionaries(st.from_regex(r"[A-Z]{1,3}", fullmatch=True), LINES, max_size=4))
def test_the_script_gives_docker_the_words_of_the_launch(words: list[str], variables: dict[str, str]) -> None:
    launch = small_launch(arguments=tuple(words), environment=variables)
    script = node_files(launch, SITE, Templates(project_files()))["run"].decode()
    told = words_of_bash(f'"$(docker() {{ printf \'%q \' "$@"; }}; {script.replace("exec docker", "docker")})"', "C")
    got = words_of_bash(told[0], "C.UTF-8")
    place = got.index(launch.reference)
    assert got[place + 1 :] == [*launch.entrypoint[1:], *words]
    assert {word for word in got[:place] if word.startswith("--env=")} == {
        f"--env={name}={value}" for name, value in variables.items()
    }


def shuffled(value: Any, order: random.Random) -> Any:
    """Return a value whose tables have another order of keys."""
    if isinstance(value, dict):
        names = list(value)
        order.shuffle(names)
        return {name: shuffled(value[name], order) for name in names}
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("recipe", "shape"), [("ds41f", "tp4-ring"), ("probe", "triangle")])
@settings(max_examples=3)
@given(order=st.randoms(use_true_random=False))
def test_the_order_of_tables_moves_no_byte(recipe: str, shape: str, order: random.Random) -> None:
    resolved = project_shape(recipe, shape)
    other = replace(
        resolved,
        arguments=shuffled(dict(resolved.arguments), order),
        environment=shuffled(dict(resolved.environment), order),
        container=replace(resolved.container, ulimits=shuffled(dict(resolved.container.ulimits), order)),
    )
    files = shuffled(dict(project_files()), order)
    assert bundle_files(rendered(other, files=files)) == bundle_files(rendered(resolved))


def bundle_files(found: Bundle) -> Sequence[tuple[str, bytes]]:
    return list(found.files.items())
