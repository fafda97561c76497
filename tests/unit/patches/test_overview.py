# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.patches.overview import overview
from derive.project import Project, Settings

HEADER = "Description: say {}\nOrigin: vendor\nWhen-To-Drop: never\n\n"
CHANGE = "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n"
WHOLE = "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"


def project(files: Mapping[str, str]) -> Project:
    settings = Settings(default_image="", build_platform="linux/amd64")
    return Project(root=Path("/none"), settings=settings, files={name: text.encode() for name, text in files.items()})


TWO = {
    "patches/b/series": "# licence: MIT\n0001-x.patch\n0000-y.patch\n",
    "patches/b/0001-x.patch": HEADER.format("x") + CHANGE,
    "patches/b/0000-y.patch": CHANGE + WHOLE,
    "patches/a/series": "# licence: Apache-2.0\n0001-z.patch\n",
    "patches/a/0001-z.patch": "SPDX-License-Identifier: GPL-2.0-only\n\n" + CHANGE,
    "derivations/x.toml": "not even TOML",
}


def test_patches_are_listed_by_series_in_the_order_of_application() -> None:
    found = overview(project(TWO))
    assert [one.place for one in found] == [
        "patches/a/0001-z.patch",
        "patches/b/0001-x.patch",
        "patches/b/0000-y.patch",
    ]
    assert [one.place for one in overview(project(TWO), "a")] == ["patches/a/0001-z.patch"]
    assert overview(project({})) == ()


def test_sizes_count_what_stands_in_the_file() -> None:
    _, small, large = overview(project(TWO))
    assert (small.files, small.hunks, small.added, small.removed) == (1, 1, 2, 1)
    assert (large.files, large.hunks, large.added, large.removed) == (3, 3, 4, 2)


def test_the_licence_is_the_patchs_own_or_that_of_its_series() -> None:
    assert [one.licence for one in overview(project(TWO))] == ["GPL-2.0-only", "MIT", "MIT"]


def test_a_record_holds_the_header_and_what_it_lacks() -> None:
    lacking, whole, _ = (one.document() for one in overview(project(TWO)))
    assert (whole["why"], whole["origin"], whole["when_to_drop"], whole["missing"]) == ("say x", "vendor", "never", [])
    assert lacking["missing"] == ["Description", "Origin", "When-To-Drop"]


def test_a_series_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(InputErrors) as caught:
        overview(project(TWO), "c")
    assert caught.value.problems()[0].hint == "there are a, b"


def test_the_faults_of_all_series_are_reported_at_once() -> None:
    wrong = {**TWO, "patches/a/0001-z.patch": "x\n", "patches/b/series": "0001-x.patch\n"}
    with pytest.raises(InputErrors) as caught:
        overview(project(wrong))
    assert {problem.where.split("/")[1] for problem in caught.value.problems()} == {"a", "b"}
