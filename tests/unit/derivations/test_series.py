# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.derivations.evaluate import Evaluator
from derive.derivations.model import Platform, closure
from derive.derivations.scope import Scope, load_scope
from derive.derivations.series import TreeSource, WheelSource, source_derivation, uses
from support.projects import FILES, project

TEXT = str(FILES["derivations/d.toml"])
N = ("n-1.0-cp313-cp313-manylinux_2_17_x86_64.whl", "n-1.0-cp313-cp313-manylinux_2_17_aarch64.whl")


def scope(patches: str = "", build_platform: Platform = "linux/amd64") -> Scope:
    text = TEXT.replace('set = "w"', f'set = "w"\npatches = {{ {patches} }}')
    return load_scope(project({"derivations/d.toml": text}, build_platform=build_platform))


def test_a_series_that_nothing_applies_has_no_use() -> None:
    assert uses(scope(), "other") == ()


def test_a_series_is_used_by_a_declared_step_on_the_tree_that_it_names() -> None:
    (use,) = uses(scope(), "b")
    assert (use.step, use.place, use.sources) == ("patched", "derivations/d.toml: patched", (TreeSource("source"),))


def test_a_series_of_a_wheel_must_fit_its_file_for_every_platform_the_build_platform_s_first() -> None:
    (_, use) = uses(scope('n = "b"'), "b")
    assert (use.step, use.place) == ("n patched", "derivations/d.toml: programs.patches.n")
    assert tuple(source.name for source in use.sources) == N
    (_, use) = uses(scope('n = "b"', "linux/arm64"), "b")
    assert tuple(source.name for source in use.sources) == N[::-1]


def test_one_file_for_all_platforms_is_one_source() -> None:
    (_, use) = uses(scope('a = "b"'), "b")
    assert [source.name for source in use.sources] == ["a-1.0-py3-none-any.whl"]


def test_what_a_source_derives_is_what_the_project_patches() -> None:
    where = scope('n = "b"')
    patched = {one.name: one for one in closure(Evaluator(where).derivation("all", "linux/arm64"))}
    declared, wheel = uses(where, "b")
    assert source_derivation(where, declared.source) == patched["patched"].inputs["source"].derivation
    arm64 = wheel.sources[1]
    assert isinstance(arm64, WheelSource)
    assert source_derivation(where, arm64) == patched["n patched"].inputs["source"].derivation
