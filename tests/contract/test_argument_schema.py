# SPDX-License-Identifier: Apache-2.0
"""The pinned argument schema is what the working tree's derivations give, and the recipes keep to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from derive.build.service import evaluate
from derive.derivations.model import closure
from derive.project import Project, load_project
from derive.schema.check import argument_faults, variable_faults
from derive.schema.model import Schema, load_schema, render_schema
from derive.schema.pin import content_digest, file_of, stale, target
from derive.schema.values import key_faults
from derive.toml import parse_toml

ROOT = Path(__file__).parents[2]
PINNED = ROOT / file_of("ds41f")


@cache
def project() -> Project:
    return load_project(ROOT)


@cache
def schema() -> Schema:
    return load_schema(PINNED.read_bytes())


def test_it_is_what_the_derivations_give() -> None:
    assert stale(project(), schema()) == (), "derive schema ds41f --write"


def test_it_is_written_as_derive_writes_it_and_stays_small() -> None:
    data = PINNED.read_bytes()
    assert render_schema(json.loads(data)) == data
    assert len(data) < 400_000


def test_a_change_elsewhere_moves_no_part_and_one_of_a_script_moves_those_that_it_reads() -> None:
    files = dict(project().files)
    files["patches/perftest/series"] += b"\n# nothing\n"
    changed = Project(root=ROOT, settings=project().settings, files=files)
    platform = project().settings.build_platform
    assert content_digest(files, platform) != content_digest(project().files, platform)
    assert stale(changed, schema()) == ()
    files["derivations/ds41f-schema/hints.py"] += b"\n"
    assert stale(changed, schema()) == ("ds41f-schema-options",)


def test_wheels_are_read_as_the_image_has_them() -> None:
    """Equal steps are built once: whoever has the image unpacks nothing again."""
    image = {step.id for step in closure(evaluate(project(), "image:ds41f", "linux/arm64"))}
    read = closure(target(project(), "ds41f"))
    wheels = [step for step in read if step.builder == "patch" or step.arguments.get("kind") == "wheel"]
    assert len(wheels) > 20
    assert [step.name for step in wheels if step.id not in image] == []


@pytest.mark.parametrize(
    "name",
    """B12X_COMPILE_CACHE_DIR CUDA_CACHE_PATH CUTE_DSL_CACHE_DIR DG_JIT_CACHE_DIR FLASHINFER_WORKSPACE_BASE
    GLOO_SOCKET_IFNAME HF_HUB_OFFLINE NCCL_IB_HCA NUMBA_CACHE_DIR OMP_NUM_THREADS PYTORCH_CUDA_ALLOC_CONF
    TILELANG_CACHE_DIR TORCHINDUCTOR_CACHE_DIR TORCH_NCCL_ASYNC_ERROR_HANDLING TRITON_CACHE_DIR VLLM_HOST_IP
    XDG_CACHE_HOME""".split(),  # noqa: SIM905 - a list of words
)
def test_each_library_is_seen_to_read_its_own_variables(name: str) -> None:
    assert name in schema().variables


def test_nccl_itself_reads_the_settings_of_its_fabric() -> None:
    for name in ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME", "NCCL_ALGO", "NCCL_IB_SUBNET_PREFIX_LEN"):
        assert "nvidia-nccl-cu13" in schema().variables[name].readers


@pytest.mark.parametrize("name", ["NCCL_SWITCHLESS_BIDIRECTIONAL", "NCCL_MIN_TRAFFIC_PER_CHANNEL", "VLLM_CACHE_DIR"])
def test_what_only_a_patched_or_former_library_reads_is_not_there(name: str) -> None:
    assert name not in schema().variables


def test_it_refers_to_nothing_that_it_does_not_have() -> None:
    def named(value: object, key: str) -> set[str]:
        if isinstance(value, Mapping):
            own = {value[key]} if isinstance(value.get(key), str) else set()
            return own.union(*(named(one, key) for one in value.values()))
        return set().union(*(named(one, key) for one in value)) if isinstance(value, list) else set()

    document = json.loads(PINNED.read_bytes())
    options = {"options": document["options"], "configs": document["configs"]}
    assert named(options, "config") == set(document["configs"]) > {"SpeculativeConfig", "EngramConfig"}
    assert named(options, "enum") == set(document["enums"])


def test_every_default_is_a_value_that_the_check_takes() -> None:
    """What the extraction says of types, choices and bounds agrees with what it says of defaults."""
    said = schema()
    options = {n: one.default for n, one in said.options.items() if is_plain(one.default) and one.type != "flag"}
    keys = [
        (f"{name}.{key}", one.default, one)
        for name, config in said.configs.items()
        for key, one in config.keys.items()
        if is_plain(one.default)
    ]
    assert len(options) > 150
    assert len(keys) > 150
    assert [name for name, value in options.items() if any(argument_faults(name, value, said))] == []
    assert [name for name, value, key in keys if any(key_faults(value, key, said, ()))] == []


def is_plain(default: object) -> bool:
    """Say whether a default is a value that a recipe could give: not what only running makes, and not nothing."""
    only_run = isinstance(default, Mapping) and set(default) & {"made", "expression", "member"}
    return not only_run and default not in (None, "", [])


def test_every_argument_and_variable_of_the_recipe_is_one_that_the_image_takes() -> None:
    parsed, problems = parse_toml((ROOT / "recipes/ds41f.toml").read_bytes(), "recipes/ds41f.toml")
    assert parsed is not None
    assert problems == []
    tables: list[Any] = [parsed, *parsed["shapes"].values()]
    arguments = [(name, value) for table in tables for name, value in table.get("arguments", {}).items()]
    variables = [(name, value) for table in tables for name, value in table.get("environment", {}).items()]
    assert len(arguments) > 20
    wrong = [(name, fault) for name, value in arguments for fault in argument_faults(name, value, schema())]
    wrong += [(name, fault) for name, value in variables for fault in variable_faults(name, value, schema())]
    assert wrong == []
