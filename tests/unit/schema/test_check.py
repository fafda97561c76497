# SPDX-License-Identifier: Apache-2.0
"""A shape held against the schema of its image: each wrong name, type, choice, key and variable is said."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import Json
from derive.recipes.resolved import Container, HostPolicy, Origin, Promotion, Ready, Resolved
from derive.schema.check import deprecated, problems
from derive.schema.merge import merge
from derive.schema.model import Schema, load_schema, render_schema
from support.argument_trees import SCRIPTS, read_options, run_script, write_tree


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("program")
    options = read_options(write_tree(folder / "tree"))
    said = folder / "declared"
    said.mkdir()
    run_script("declared.py", SCRIPTS / "declared.toml", said)
    files = {f"schema/variables/{path.name}": path.read_bytes() for path in said.iterdir()}
    files["schema/options.json"] = render_schema(options)
    return merge(files, image="small", platform="any", derivation="sha256:0", parts={}, content="0")


@pytest.fixture(scope="module")
def schema(document: Any) -> Schema:
    return load_schema(render_schema(document))


def shape(arguments: Mapping[str, Json] | None = None, environment: Mapping[str, str] | None = None) -> Resolved:
    return Resolved(
        recipe="small",
        shape="one",
        doc="",
        image="small",
        platform="any",
        model=None,
        cabling="triangle",
        nodes=3,
        transport="nccl-ring",
        kernel_backend=None,
        schema="vllm",
        service="small",
        entrypoint=(),
        positional=(),
        port=8000,
        master_port=None,
        ready=Ready(path="/", timeout_seconds=1),
        arguments=arguments or {},
        environment=environment or {},
        mounts=(),
        cache=None,
        container=Container(),
        guard=(),
        host=HostPolicy(),
        memory={},
        needs=(),
        promotion=Promotion(),
        notes=(),
        origins={"arguments.inner": Origin(file="fabric/tuning/x.toml", key="arguments.inner")},
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maybe", "c"),
        ("open", "anything"),
        ("open", "-1.5"),
        ("open", "-"),
        ("size", 4096),
        ("size", "8k"),
        ("share", {"decimal": "0.82"}),
        ("fraction", 1),
        ("names", ["x", "y"]),
        ("names", "x"),
        ("pair", [1, 2]),
        ("table", {"x": {"y": [1]}}),
        ("table-or-text", "cpu"),
        ("enable-flag", False),
        ("flag-or-text", True),
        ("inner", {"depth": 4, "backend": "flash"}),
        ("backend", "sparse"),
        ("quiet", True),
        ("words", ["a"]),
        ("speculative-config", {"depth": 1}),
    ],
)
def test_what_the_program_takes_is_no_problem(schema: Schema, name: str, value: Json) -> None:
    assert problems(shape({name: value}), schema) == []


@pytest.mark.parametrize(
    ("name", "value", "message", "hint"),
    [
        ("shar", 1, "vllm has no option --shar", "did you mean share?"),
        ("renamed_mode", "a", "vllm has no option --renamed_mode", "did you mean renamed-mode?"),
        ("no-enable-flag", True, "how enable-flag is switched off", "did you mean enable-flag = false?"),
        ("disable-flag", True, "how enable-flag is switched off", "did you mean enable-flag = false?"),
        ("maybe", "cc", "'cc' is no value of it", "did you mean c?"),
        ("maybe", 1, "a value of another type", None),
        ("size", "8 k", "a value of another type", None),
        ("size", True, "a value of another type", None),
        ("share", {"decimal": "1.5"}, "out of bounds", None),
        ("enable-flag", "yes", "a value of another type", None),
        ("quiet", False, "it is given alone, or not at all", None),
        ("port", [1, 2], "it takes one value, not a list", None),
        ("names", [], "it takes one value or more", None),
        ("table", "{}", "a value of another type", None),
        ("inner", {"dept": 1}, "Inner has no key 'dept'", "did you mean depth?"),
        ("inner", {"depth": 9}, "out of bounds", None),
        ("inner", {"depth": "3"}, "a value of another type", None),
        ("inner", {"backend": "SPARS"}, "'SPARS' is no value of it", "did you mean SPARSE?"),
        ("inner", 3, "not a table", None),
        ("speculative-config", {"method": "x"}, "Inner has no key 'method'", None),
        ("backend", "FLASHY", "'FLASHY' is no value of it", "did you mean FLASH?"),
        ("open", "--quiet", "'--quiet' begins as an option does", None),
        ("open", "-x", "'-x' begins as an option does", None),
        ("names", ["x", "-y"], "'-y' begins as an option does", None),
        ("table-or-text", "-{", "'-{' begins as an option does", None),
    ],
)
def test_what_it_would_not_take_is_one_problem(
    schema: Schema, name: str, value: Json, message: str, hint: str | None
) -> None:
    (problem,) = problems(shape({name: value}), schema)
    assert message in problem.message
    assert problem.hint == hint


@pytest.mark.parametrize(
    ("name", "value", "message", "hint"),
    [
        ("VLLM_NAMES", "x", "nothing in the image reads VLLM_NAMES", "did you mean VLLM_NAME?"),
        ("CUDA_CACHE_PATHS", "x", "nothing in the image reads CUDA_CACHE_PATHS", "did you mean CUDA_CACHE_PATH?"),
        ("VLLM_DEV", "", "a text that cannot be read", None),
        ("VLLM_RATE", "half", "a text that cannot be read", None),
        ("VLLM_LEVEL", "hig", "'hig' is no value of it", "did you mean high?"),
    ],
)
def test_a_variable_that_nothing_reads_or_that_cannot_be_read_is_a_problem(
    schema: Schema, name: str, value: str, message: str, hint: str | None
) -> None:
    (problem,) = problems(shape(environment={name: value}), schema)
    assert (problem.message, problem.hint) == (message, hint)


def test_variables_are_read_as_the_program_reads_them(schema: Schema) -> None:
    taken = {"VLLM_DEV": "1", "VLLM_RATE": "0.25", "VLLM_LEVEL": "HIGH", "VLLM_NAME": "", "PYTHONHASHSEED": "0"}
    assert problems(shape(environment=taken), schema) == []


def test_every_problem_is_said_at_once_each_where_its_value_stands(schema: Schema) -> None:
    found = problems(shape({"inner": {"dept": 1, "depth": 0}, "sise": 1}, {"VLLM_DEVS": "1"}), schema)
    assert sorted(problem.where for problem in found) == [
        "fabric/tuning/x.toml: arguments.inner.dept",
        "fabric/tuning/x.toml: arguments.inner.depth",
        "recipes/small.toml: arguments.sise",
        "recipes/small.toml: environment.VLLM_DEVS",
    ]


def test_what_became_of_a_name_is_told_where_somebody_wrote_it_down(schema: Schema) -> None:
    gone = {"VLLM_DIR": "VLLM_ROOT instead"}
    (problem,) = problems(shape(environment={"VLLM_DIR": "/x"}), schema, gone)
    assert problem.message == "nothing in the image reads VLLM_DIR any more: VLLM_ROOT instead"


def test_what_a_missing_capability_would_read_is_no_second_problem(schema: Schema) -> None:
    wanted = shape({"backend": "TILE", "sise": 1}, {"PATCHED_ONLY": "1"})
    awaited = {"arguments.backend", "environment.PATCHED_ONLY"}
    assert [problem.message for problem in problems(wanted, schema, awaited=awaited)] == ["vllm has no option --sise"]


def test_expected_and_got_are_aligned(schema: Schema) -> None:
    (problem,) = problems(shape({"share": {"decimal": "1.5"}}), schema)
    assert problem.detail == ("expected  at most 1", "got       1.5")


def test_an_option_on_its_way_out_is_named(schema: Schema) -> None:
    assert deprecated(shape({"odd": True, "size": 1}), schema) == ["odd"]


def test_variables_read_by_several_are_one_entry_with_all_their_readers() -> None:
    one = b'{"wheel": "a", "version": "1", "variables": {"X_Y": "a.py"}}'
    two = b'{"wheel": "b", "version": "2", "variables": {"X_Y": "b.py", "VLLM_Z": "c.py"}}'
    options = (
        b'{"options": {}, "positional": [], "configs": {}, "enums": {},'
        b' "variables": {"VLLM_Z": {"kind": "int", "default": "1"}}}'
    )
    files = {"schema/variables/b.json": two, "schema/options.json": options, "schema/variables/a.json": one}
    made = merge(files, image="i", platform="p", derivation="d", parts={"x": "y"}, content="c")
    assert made["variables"] == {
        "X_Y": {"a": "a.py", "b": "b.py"},
        "VLLM_Z": {"b": "c.py", "vllm": "vllm/envs.py"},
    }
    assert made["own"] == {"VLLM_Z": {"kind": "int", "default": "1"}}
    assert made["readers"] == {"a": "1", "b": "2"}
    assert render_schema(made) == render_schema(
        merge(dict(reversed(files.items())), image="i", platform="p", derivation="d", parts={"x": "y"}, content="c")
    )


@pytest.mark.parametrize("data", [b"", b"{}", b'{"derive": "argument-schema/1"}', b'{"derive": "other/1"}'])
def test_a_file_that_is_no_schema_is_refused_with_the_command_that_writes_it(data: bytes) -> None:
    from derive.errors import InputErrors

    with pytest.raises(InputErrors) as error:
        load_schema(data, "recipes/ds41f.schema.json")
    (problem,) = error.value.problems()
    assert problem.where == "recipes/ds41f.schema.json"
    assert problem.hint == "write it again: derive schema ds41f --write"


def test_the_declared_table_is_sorted_and_says_where_each_variable_is_told_of() -> None:
    import tomllib

    table = tomllib.loads(Path(SCRIPTS / "declared.toml").read_text())
    assert all(one["source"] and one["variables"] == sorted(set(one["variables"])) for one in table.values())
