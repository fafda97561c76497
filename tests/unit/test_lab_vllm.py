# SPDX-License-Identifier: Apache-2.0
"""The project of ``make lab-vllm``, as far as it can be judged without building anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.vllm_project import OWN, lay
from support.cli import derive

_IMAGE = f"sha256:{'0' * 64}"


def test_its_locks_fit_its_wishes() -> None:
    assert derive("lock", "--check", "--project", str(OWN)).code == 0


@pytest.mark.parametrize(("recipe", "shape"), [("tiny", "tp3-triangle"), ("tiny", "tp4-ring"), ("pairs", "tp2-pairs")])
def test_its_shapes_are_deployable(tmp_path: Path, recipe: str, shape: str) -> None:
    project = lay(tmp_path / "project")
    where = ("--project", str(project), "--store", str(tmp_path / "store"))
    shown = derive("render", "--recipe", recipe, "--shape", shape, "--image", _IMAGE, "--json", *where)
    body = json.loads(shown.answer)["body"]
    assert body["deployable"] is True, body
