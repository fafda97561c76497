# SPDX-License-Identifier: Apache-2.0
"""What each shape of each recipe tells its nodes, at the example of its cabling: all of one node, and every digest."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from derive.canonical import Digest, sha256
from derive.render import RENDERER
from derive.render.bundle import Bundle, bundle
from derive.render.judgement import judge
from support.golden import GOLDEN, check_golden
from support.launching import IMAGE, SHAPES, example_site, project_fabric, project_files, project_shape

NODE = "spark2"
"""The node whose files are kept whole: one that is not the head."""

ADVICE = (
    "launch files have other bytes: where a recipe, the fabric or a template moved, accept the new ones;\n"
    f"where the engine moved, the renderer needs another version than {RENDERER} (derive.render)"
)


@cache
def of_shape(recipe: str, shape: str) -> Bundle:
    resolved = project_shape(recipe, shape)
    judgement, problems = judge(resolved, project_files(), project_fabric())
    assert problems == []
    return bundle(resolved, example_site(resolved), IMAGE, project_fabric(), project_files(), judgement)


def digests(files: Mapping[str, bytes], shape: Digest, launch: Digest) -> str:
    lines = [f"{shape}  the shape bundle", f"{launch}  the launch bundle"]
    return "\n".join([*lines, *(f"{sha256(data)}  {path}" for path, data in files.items()), ""])


@pytest.mark.parametrize(("recipe", "shape"), SHAPES)
def test_a_shape_tells_its_nodes_what_was_reviewed(recipe: str, shape: str) -> None:
    found = of_shape(recipe, shape)
    folder = f"bundles/{recipe}-{shape}"
    for path, data in found.node(NODE).items():
        check_golden(f"{folder}/{path}", data.decode(), advice=ADVICE)
    check_golden(f"{folder}/digests", digests(found.files, found.shape, found.launch), advice=ADVICE)


def test_no_golden_file_is_left_of_what_is_told_no_more() -> None:
    kept = {
        path.relative_to(GOLDEN / "bundles").as_posix() for path in (GOLDEN / "bundles").rglob("*") if path.is_file()
    }
    wanted = {
        f"{recipe}-{shape}/{path}"
        for recipe, shape in SHAPES
        for path in (*of_shape(recipe, shape).node(NODE), "digests")
    }
    assert kept == wanted


def test_every_shape_of_every_recipe_is_here() -> None:
    from derive.recipes.load import recipe_names
    from support.launching import project_recipe

    names = recipe_names(project_files())
    assert sorted(SHAPES) == sorted((name, shape) for name in names for shape in project_recipe(name).shapes)
