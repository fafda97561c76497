# SPDX-License-Identifier: Apache-2.0
"""A shape whose transport or kernel backend the image lacks is rendered in full and marked, not refused."""

from __future__ import annotations

import shutil
from pathlib import Path

from derive.render.chosen import Chosen
from derive.render.inputs import Inputs, read_inputs
from support.cli import CHECKOUT


def inputs(folder: Path, *edits: tuple[str, str]) -> Inputs:
    """Read ds41f's default shape from a copy of the project's launching content, its recipe edited."""
    for root in ("recipes", "render", "fabric", "lock", "images"):
        shutil.copytree(CHECKOUT / root, folder / root)
    recipe = folder / "recipes/ds41f.toml"
    # The triangles, whose transports differ, would be judged as well.
    text = recipe.read_text().partition("[shapes.tp3-triangle]")[0]
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    recipe.write_text(text)
    return read_inputs(folder, Chosen(), {"XDG_CONFIG_HOME": str(folder / "nobody")}, "ds41f")


def test_variables_of_a_transport_that_the_image_lacks_are_no_fault_of_the_recipe(tmp_path: Path) -> None:
    read = inputs(tmp_path, ('transport = "nccl-ring"', 'transport = "oneshot-ring4"'))
    assert "SPARKNET_ROCE_TOPOLOGY" in read.resolved.environment
    assert "oneshot-ring4" in {one.capability for one in read.judgement.missing}


def test_options_of_a_kernel_backend_that_the_image_lacks_are_no_fault_of_the_recipe(tmp_path: Path) -> None:
    read = inputs(tmp_path, ('kernel-backend = "b12x"', 'kernel-backend = "tilelang"'))
    assert read.resolved.arguments["moe-backend"] == "tilelang"
    assert "tilelang-backend" in {one.capability for one in read.judgement.missing}


def test_settings_of_a_patched_library_that_the_image_lacks_are_no_fault_of_the_recipe(tmp_path: Path) -> None:
    read = inputs(tmp_path, ('tuning = "tp4"', 'tuning = "tp4-switchless"'))
    assert "NCCL_SWITCHLESS_BIDIRECTIONAL" in read.resolved.environment
    assert "nccl-switchless" in {one.capability for one in read.judgement.missing}
