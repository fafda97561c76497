# SPDX-License-Identifier: Apache-2.0
"""Which executors a run uses: those of the settings, those that are named, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.buildkit.choose import chosen_builders
from derive.certificates.builders import chosen_builders as builders_to_compare
from derive.errors import InputErrors
from derive.schedule.choose import choose

TEXT = """
[executors.laptop]
jobs = 2
[executors.one]
builder = "one"
platforms = ["linux/amd64"]
[executors.two]
builder = "two"
platforms = ["linux/arm64"]
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "derive").mkdir()
    (tmp_path / "derive" / "config.toml").write_text(TEXT)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def chosen(environ: dict[str, str], *names: str) -> tuple[list[str], bool]:
    found = choose(names, environ)
    assert found is not None
    return [entry.name for entry in found.entries], found.here


def test_without_a_name_all_are_used(environ: dict[str, str]) -> None:
    assert chosen(environ) == (["laptop", "one", "two"], True)


def test_a_named_executor_is_used_alone(environ: dict[str, str]) -> None:
    assert chosen(environ, "two") == (["two"], False)


def test_this_machine_is_named_here_or_as_the_settings_name_it(environ: dict[str, str]) -> None:
    assert chosen(environ, "two", "here") == (["laptop", "two"], True)
    assert chosen(environ, "laptop") == (["laptop"], True)


def test_where_nothing_is_configured_nothing_is_placed(tmp_path: Path) -> None:
    assert choose((), {"XDG_CONFIG_HOME": str(tmp_path)}) is None
    assert choose(("here",), {"XDG_CONFIG_HOME": str(tmp_path)}) is None


def test_an_unknown_name_is_told_with_what_there_is(environ: dict[str, str]) -> None:
    with pytest.raises(InputErrors) as caught:
        choose(("tow", "nobody"), environ)
    first, second = caught.value.problems()
    assert (first.where, first.message) == ("--on", "no executor 'nobody'")
    assert second.hint == "did you mean two?"
    assert second.detail == ("known     here, laptop, one, two",)


def test_one_executor_for_all_steps_leaves_the_settings_alone_and_both_are_refused(environ: dict[str, str]) -> None:
    assert choose((), environ, executor="buildkit") is None
    with pytest.raises(InputErrors, match="1 problem"):
        choose(("one",), environ, executor="buildkit")


def test_a_name_that_is_no_builders_is_told_with_the_option_that_named_it(environ: dict[str, str]) -> None:
    with pytest.raises(InputErrors) as caught:
        builders_to_compare("here,\x1b[2J", environ)
    (problem,) = caught.value.problems()
    assert problem.where == "--builders"
    assert problem.message.isprintable()
    assert (problem.hint or "").startswith('write [executors."\\u001B[2J"] in ')


@pytest.mark.parametrize("text", [",", "here,", "", " ,one"])
def test_a_builder_without_a_name_is_refused(environ: dict[str, str], text: str) -> None:
    with pytest.raises(InputErrors) as caught:
        builders_to_compare(text, environ)
    assert [(one.where, one.message) for one in caught.value.problems()] == [("--builders", "a name is empty")]


@pytest.mark.parametrize("name", ["--help", "a b", "\x1b[2J", "one,-x"])
def test_an_option_is_no_name_of_a_builder(name: str) -> None:
    with pytest.raises(InputErrors) as caught:
        chosen_builders(f"buildkit={name}")
    (problem,) = caught.value.problems()
    assert problem.where == "--executor"
    assert problem.message.startswith("no name of a builder: ")
    assert problem.message.isprintable()
