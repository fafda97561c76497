# SPDX-License-Identifier: Apache-2.0
"""What an upstream calls things now, beside a pin."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from derive.canonical import Digest
from derive.errors import UpstreamGone
from derive.git.model import GitPin
from derive.git.newer import find_newer_git, newer_tags
from support.folders import Plain
from support.git_server import Upstream


@pytest.mark.parametrize(
    ("tag", "tags", "newer"),
    [
        ("v1.2", ["v1.10", "v1.3", "v1.2", "v1.2.0", "2.0", "v2.0rc1", "v1.1", "x"], ("v1.3", "v1.10")),
        ("v1.0rc1", ["v1.0rc2", "v1.0", "v0.9", "v1.1rc1"], ("v1.0rc2", "v1.0", "v1.1rc1")),
        ("v2.29.7-1", ["v2.29.7-2", "v2.29.8-1", "v2.29.7", "v2.28.3-1"], ("v2.29.7-2", "v2.29.8-1")),
        ("release-2024_05", ["release-2024_06", "release-2023_12", "beta-2025_01"], ("release-2024_06",)),
        ("latest", ["v1", "newest"], ()),
        ("v1", [], ()),
    ],
)
def test_newer_tags_are_later_versions_of_the_same_pattern(tag: str, tags: list[str], newer: tuple[str, ...]) -> None:
    assert newer_tags(tag, tags) == newer
    assert newer_tags(tag, reversed(tags)) == newer


def test_tags_and_branches_are_asked_of_a_real_repository(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "r.git")
    first = upstream.commit({b"a": Plain(b"1")})
    upstream.tag("v1", first)
    second = upstream.commit({b"a": Plain(b"2")}, parent=first)
    upstream.tag("v2", second, annotated=False)
    pin = GitPin(name="r", commit=first, tree="b" * 40, nar=Digest("c" * 64), size=1, tag="v1")
    found = find_newer_git((str(upstream.path),), pin)
    assert (found.tags, found.tag_commit, found.tag_moved, found.branch_moved) == (("v2",), first, False, False)
    by_branch = find_newer_git((str(upstream.path),), dataclasses.replace(pin, tag=None, branch="main"))
    assert (by_branch.branch_commit, by_branch.branch_moved, by_branch.tags) == (second, True, ())
    by_default = find_newer_git((str(upstream.path),), dataclasses.replace(pin, tag=None))
    assert (by_default.branch, by_default.moved) == ("main", True)


def test_a_tag_that_was_moved_and_a_branch_that_went_are_told(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "r.git")
    first = upstream.commit({b"a": Plain(b"1")})
    upstream.tag("v1", upstream.commit({b"a": Plain(b"2")}))
    pin = GitPin(name="r", commit=first, tree="b" * 40, nar=Digest("c" * 64), size=1, tag="v1")
    assert find_newer_git((str(upstream.path),), pin).tag_moved
    gone = find_newer_git((str(upstream.path),), dataclasses.replace(pin, tag=None, branch="old"))
    assert (gone.branch_commit, gone.moved) == (None, True)


def test_a_repository_of_nothing_and_one_that_is_not_there_are_gone(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "r.git")
    pin = GitPin(name="r", commit="a" * 40, tree="b" * 40, nar=Digest("c" * 64), size=1)
    for path in (upstream.path, tmp_path / "absent"):
        with pytest.raises(UpstreamGone, match="r: nobody serves branches and tags"):
            find_newer_git((str(path),), pin)
