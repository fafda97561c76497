# SPDX-License-Identifier: Apache-2.0
"""A shape whose transport or kernel backend the image lacks is rendered in full and marked, not refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.render.chosen import Chosen
from derive.render.inputs import Inputs, read_inputs
from support.cli import CHECKOUT


def inputs(folder: Path, *edits: tuple[str, str], fabric: tuple[str, str] | None = None) -> Inputs:
    """Read ds41f's default shape from a copy of the project's launching content, its recipe and transports edited."""
    for root in ("recipes", "render", "fabric", "lock", "images"):
        shutil.copytree(CHECKOUT / root, folder / root)
    recipe = folder / "recipes/ds41f.toml"
    # The triangles, whose transports differ, would be judged as well.
    text = recipe.read_text().partition("[shapes.tp3-triangle]")[0]
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    recipe.write_text(text)
    transports = folder / "fabric/transports.toml"
    if fabric is not None:
        assert fabric[0] in transports.read_text()
        transports.write_text(transports.read_text().replace(*fabric))
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


ONESHOT = ('transport = "nccl-ring"', 'transport = "oneshot-ring4"')
TILELANG = ('kernel-backend = "b12x"', 'kernel-backend = "tilelang"')


@pytest.mark.parametrize("missing", [ONESHOT, TILELANG], ids=["a transport", "a kernel backend"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param('NCCL_PAT_ENABLE = "0"', 'NCCL_PATS_ENABLE = "0"', id="of rings"),
        pytest.param('NCCL_NET_PLUGIN = "none"', 'NCCL_NETS_PLUGIN = "none"', id="of all transports"),
    ],
)
def test_a_misspelt_setting_of_what_the_image_has_is_an_error_whatever_it_lacks(
    tmp_path: Path, missing: tuple[str, str], old: str, new: str
) -> None:
    with pytest.raises(InputErrors) as caught:
        inputs(tmp_path, missing, fabric=(old, new))
    (problem,) = caught.value.problems()
    name = new.partition(" ")[0]
    assert problem.where.startswith("fabric/transports.toml: ")
    assert problem.message == f"nothing in the image reads {name}"


def test_a_missing_transport_that_a_recipe_needs_by_name_awaits_the_same(tmp_path: Path) -> None:
    read = inputs(tmp_path, ONESHOT, ('    "offline",', '    "offline",\n    "oneshot-ring4",'))
    assert "needs" in {one.because for one in read.judgement.missing if one.capability == "oneshot-ring4"}


def test_a_misspelt_setting_of_nccl_in_a_missing_transports_own_table_is_an_error(tmp_path: Path) -> None:
    own = ("settings = { SPARKNET_ROCE_TOPOLOGY", 'settings = { NCCL_CUMEMS = "1", SPARKNET_ROCE_TOPOLOGY')
    with pytest.raises(InputErrors) as caught:
        inputs(tmp_path, ONESHOT, fabric=own)
    assert [one.message for one in caught.value.problems()] == ["nothing in the image reads NCCL_CUMEMS"]


def test_a_misspelt_backend_of_kernels_that_the_image_has_is_an_error_under_a_missing_transport(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        inputs(tmp_path, ONESHOT, fabric=('moe-backend = "b12x"', 'moe-backend = "b12y"'))
    assert [one.message for one in caught.value.problems()] == ["'b12y' is no value of it"]


def typed(name: str) -> tuple[str, str]:
    """Return the edit of the recipe that types a variable."""
    return 'NCCL_DEBUG = "WARN"', f'NCCL_DEBUG = "WARN"\n{name} = "2"'


def test_a_typed_variable_of_a_patched_library_is_rendered_and_needs_it(tmp_path: Path) -> None:
    read = inputs(tmp_path, typed("NCCL_SWITCHLESS_BIDIRECTIONAL"))
    assert read.resolved.environment["NCCL_SWITCHLESS_BIDIRECTIONAL"] == "2"
    assert not read.judgement.deployable
    assert (
        "not deployable: needs nccl-switchless (fabric/settings.toml: settings.NCCL_SWITCHLESS_BIDIRECTIONAL.needs)"
        in read.judgement.reasons()
    )


def test_a_typed_variable_beside_one_of_a_missing_library_is_checked_as_ever(tmp_path: Path) -> None:
    edit = typed("NCCL_SWITCHLESS_BIDIRECTIONAL")
    with pytest.raises(InputErrors) as caught:
        inputs(tmp_path, edit, ('NCCL_DEBUG_SUBSYS = "INIT"', 'NCCL_DEBUG_SUBSYSTEM = "INIT"'))
    assert [one.message for one in caught.value.problems()] == ["nothing in the image reads NCCL_DEBUG_SUBSYSTEM"]


def test_a_typed_setting_of_a_missing_transports_engine_is_no_fault_of_the_recipe(tmp_path: Path) -> None:
    edit = typed("SPARKNET_ROCE_SPIN_LIMIT")
    read = inputs(tmp_path, ONESHOT, edit)
    assert read.resolved.environment["SPARKNET_ROCE_SPIN_LIMIT"] == "2"
    assert read.resolved.origins["environment.SPARKNET_ROCE_SPIN_LIMIT"].file == "recipes/ds41f.toml"
