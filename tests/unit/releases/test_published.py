# SPDX-License-Identifier: Apache-2.0
"""Whether others have a promotion."""

from __future__ import annotations

from pathlib import Path

from derive.records.folder import load
from derive.releases.published import published
from support.chained import Chained
from support.releasing import commit, git


def test_a_promotion_is_published_with_its_release_and_documents_or_not_at_all(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    chained = Chained()
    found, _ = chained.release("demo-1")
    chained.write(tmp_path)
    commit(tmp_path, "a release")
    chained.promote("demo-1", found, "ring")
    chained.write(tmp_path)
    chain = load(tmp_path)
    assert published(tmp_path, chain, "demo-1", "ring", "origin/main") is None
    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert published(tmp_path, chain, "demo-1", "ring", "origin/main") is False
    commit(tmp_path, "promoted")
    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert published(tmp_path, chain, "demo-1", "ring", "origin/main") is True
    assert published(tmp_path, chain, "demo-1", "triangle", "origin/main") is False
