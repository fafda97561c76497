# SPDX-License-Identifier: Apache-2.0
"""The production image as the project declares it: evaluated for both platforms, and not built."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from derive.build.service import evaluate
from derive.derivations.model import Derivation, Platform, closure
from derive.project import load_project

ROOT = Path(__file__).parents[2]
PLATFORMS: tuple[Platform, ...] = ("linux/amd64", "linux/arm64")

pytestmark = pytest.mark.parametrize("platform", PLATFORMS)


@cache
def image(platform: Platform) -> Derivation:
    return evaluate(load_project(ROOT), "image:ds41f", platform)


def test_it_is_derived_without_running_a_program_of_another_platform(platform: Platform) -> None:
    assert {step.build for step in closure(image(platform))} == {"any", "linux/amd64"}


def test_it_has_room_for_more_layers(platform: Platform) -> None:
    layers = image(platform).arguments["layers"]
    assert isinstance(layers, int)
    assert layers <= 100


def test_its_wheels_are_those_of_the_lock_but_for_what_is_left_out(platform: Platform) -> None:
    wheels = {step.arguments["name"] for step in closure(image(platform)) if step.builder == "fetch-wheel"}
    assert {"vllm", "b12x", "tilelang", "tile-kernels", "nvidia-nccl-cu13", "torch"} <= wheels
    assert "pynvvideocodec" not in wheels


def test_every_patch_of_its_series_is_applied(platform: Platform) -> None:
    applied = {label for step in closure(image(platform)) if step.builder == "patch" for label in step.labels}
    declared = {f"patches/{path.parent.name}/{path.name}" for path in ROOT.glob("patches/*/*.patch")}
    assert {patch for patch in declared if not patch.startswith("patches/perftest/")} == applied


def test_what_the_page_of_the_series_calls_written_is_there(platform: Platform) -> None:
    del platform  # one page for both
    rows = [line for line in (ROOT / "docs/series.md").read_text().splitlines() if "| **written** |" in line]
    ours = [path for row in rows for path in re.findall(r"`((?:patches|kernels|derivations)/[\w./-]+)`", row)]
    assert len(ours) >= 5
    assert [path for path in ours if not (ROOT / path).exists()] == []
