# SPDX-License-Identifier: Apache-2.0
"""The recipes of this project: what they serve, that every key of them can be explained, and what they wait for."""

from __future__ import annotations

from functools import cache

import pytest

from derive.recipes.arguments import words
from derive.recipes.deployable import image_capabilities, verdict
from derive.recipes.load import Recipe, load_recipe, recipe_names
from derive.recipes.merge import find, leaves, merge, prune
from derive.recipes.resolve import resolve
from derive.recipes.resolved import Resolved
from derive.recipes.why import why
from derive.toml import key_path
from support.recipes import launching

SHAPES = [
    ("ds41f", "tp4-ring"),
    ("ds41f", "tp3-triangle"),
    ("ds41f", "tp3-triangle-4k"),
    ("probe", "ring4"),
    ("probe", "triangle"),
]


@cache
def recipe(name: str) -> Recipe:
    return load_recipe(launching(), name)


def shape(name: str, of: str) -> Resolved:
    return resolve(recipe(name), of)


def missing(name: str, of: str) -> list[str]:
    one = shape(name, of)
    capabilities, _ = image_capabilities(launching(), one.image)
    return [str(item.capability) for item in verdict(one, capabilities)]


def test_the_recipes_and_shapes_are_these() -> None:
    assert recipe_names(launching()) == ("ds41f", "probe")
    assert [(name, of) for name in recipe_names(launching()) for of in recipe(name).shapes] == SHAPES
    assert recipe("ds41f").default_shape == "tp4-ring"


@pytest.mark.parametrize("name", ["ds41f", "probe"])
def test_every_key_that_a_recipe_writes_or_is_given_is_explained(name: str) -> None:
    explained = set()
    for of in recipe(name).shapes:
        one = shape(name, of)
        written = prune(merge(recipe(name).shared, recipe(name).shapes[of]))
        for path, _ in (*leaves(written), *leaves(one.document)):
            place = (path, one.origins[key_path(path)])
            if place not in explained:
                assert why(one, key_path(path)), path
                explained.add(place)


def test_every_option_and_variable_is_explained_by_its_bare_name() -> None:
    one = shape("ds41f", "tp4-ring")
    for option in one.arguments:
        assert why(one, f"--{option}")[0].startswith(f"arguments.{option}")
    for variable in one.environment:
        assert why(one, variable)[0].startswith(f"environment.{variable} = ")


@pytest.mark.parametrize(
    ("of", "length", "sequences", "budget", "kv_bytes", "threshold", "graphs"),
    [
        ("tp4-ring", 1048576, 16, 8192, 11274289152, 8096, 96),
        ("tp3-triangle", 1048576, 8, 4096, 3758096384, 4048, 48),
        ("tp3-triangle-4k", 262144, 8, 4096, 2362232012, 4048, 48),
    ],
)
def test_the_shapes_have_the_sizes_that_were_promoted(
    of: str, length: int, sequences: int, budget: int, kv_bytes: int, threshold: int, graphs: int
) -> None:
    arguments = shape("ds41f", of).arguments
    assert arguments["max-model-len"] == length
    assert arguments["max-num-seqs"] == sequences
    assert arguments["max-num-batched-tokens"] == budget
    assert arguments["kv-cache-memory-bytes"] == kv_bytes
    assert arguments["long-prefill-token-threshold"] == threshold
    assert arguments["max-cudagraph-capture-size"] == graphs


def test_the_captured_graphs_are_those_that_were_promoted() -> None:
    path = ("compilation-config", "cudagraph_capture_sizes")
    small = [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48]
    assert find(shape("ds41f", "tp3-triangle").arguments, path) == small
    assert find(shape("ds41f", "tp4-ring").arguments, path) == [*small, 56, 64, 72, 80, 88, 96]


def test_the_shapes_of_the_model_wait_for_these_capabilities() -> None:
    assert missing("ds41f", "tp4-ring") == ["engram-disk", "one-prefill"]
    assert missing("ds41f", "tp3-triangle") == ["engram-disk", "one-prefill", "tp3-padding"]
    assert missing("ds41f", "tp3-triangle-4k") == ["engram-disk", "one-prefill", "tp3-padding"]


def test_the_model_is_the_later_checkpoint_sampled_as_it_is_meant_to_be() -> None:
    one = shape("ds41f", "tp4-ring")
    assert one.model is not None
    assert one.model.name == "deepseek-v4-1-flash-1017"
    assert "--override-generation-config" in words(one)
    assert '{"temperature":1.0,"top_p":1.0}' in words(one)


def test_the_host_of_the_4_kib_shape_alone_has_small_pages() -> None:
    pages = {of: shape("ds41f", of).host.page_size for _, of in SHAPES[:3]}
    assert pages == {"tp4-ring": 65536, "tp3-triangle": 65536, "tp3-triangle-4k": 4096}


def test_nothing_is_written_but_below_the_cache_which_names_no_release() -> None:
    one = shape("ds41f", "tp4-ring")
    assert all(mount.read_only for mount in one.mounts)
    folders = [value for value in one.environment.values() if value.startswith("/")]
    assert folders
    assert all(folder.startswith("/cache/") and folder.count("/") == 2 for folder in folders)


def test_probe_serves_the_manifest_of_its_launch_without_model_or_collectives() -> None:
    one = shape("probe", "ring4")
    assert (one.model, one.schema, one.transport, one.notes) == (None, None, "none", ())
    assert (one.entrypoint, words(one)) == (
        ("/usr/bin/python3.13", "-m", "http.server"),
        ("--bind", "0.0.0.0", "--directory", "/launch", "8080"),
    )
    assert [need.capability for need in one.needs] == ["memory-guard"]
    assert [(mount.source, mount.target, mount.read_only) for mount in one.mounts] == [
        ("{folder}/probe/current", "/launch", True)
    ]
