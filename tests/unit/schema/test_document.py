# SPDX-License-Identifier: Apache-2.0
"""A pinned schema whose entries are not as derive writes them is refused when it is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from derive.errors import InputErrors
from derive.recipes.load import recipe_names
from derive.schema.model import load_schema
from support.recipes import launching

FILE = "recipes/ds41f.schema.json"


@cache
def text() -> str:
    return launching()[FILE].decode()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d["variables"].update(A=1), "variables.A: not an object"),
        (lambda d: d["variables"].update(A={"x": 1}), "variables.A.x: not text"),
        (lambda d: d["own"].update(A={"choices": 1}), "own.A.choices: not a list"),
        (lambda d: d["options"].update(a=[]), "options.a: not an object"),
        (lambda d: d["options"]["dtype"].update(names=[1]), "options.dtype.names: not a list of texts"),
        (lambda d: d["options"]["dtype"].update(type=None), "options.dtype.type: not text"),
        (lambda d: d["options"]["dtype"].update(config="Nope"), "options.dtype.config: no Nope in configs"),
        (lambda d: d["configs"].update(A={"extra": "forbid", "fields": {"k": 1}}), "configs.A.fields.k: not an object"),
        (
            lambda d: d["configs"].update(
                A={"extra": "forbid", "fields": {"k": {"type": [{"list": [{"enum": "Z"}]}]}}}
            ),
            "configs.A.fields.k.type: no Z in enums",
        ),
        (lambda d: d.update(enums=1), "enums: not an object"),
        (lambda d: d.pop("program"), "program: not text"),
    ],
)
def test_a_malformed_entry_is_told_at_its_key(edit: Callable[[dict[str, Any]], object], message: str) -> None:
    document = json.loads(text())
    edit(document)
    with pytest.raises(InputErrors) as refused:
        load_schema(json.dumps(document).encode(), FILE)
    (problem,) = refused.value.problems()
    assert (problem.where, problem.message) == (FILE, f"not as derive writes it: {message}")


def test_what_is_pinned_is_as_derive_writes_it() -> None:
    assert "ds41f" in recipe_names(launching())
    assert load_schema(text().encode(), FILE).program == "vllm"
