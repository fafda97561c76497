# SPDX-License-Identifier: Apache-2.0
"""Whether others have a promotion."""

from __future__ import annotations

from pathlib import Path

from derive.records.folder import load
from derive.releases.policy import may_deploy
from derive.releases.published import published
from support.chained import MADE_S, Chained, waiver
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


def test_a_retirement_that_only_the_remote_branch_has_holds_a_deploy_up(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    chained = Chained()
    found, _ = chained.release("demo-1")
    chained.promote("demo-1", found, "ring")
    chained.write(tmp_path)
    old = commit(tmp_path, "promoted")
    chained.retire("demo-1")
    chained.write(tmp_path)
    git(tmp_path, "update-ref", "refs/remotes/origin/main", commit(tmp_path, "retired"))
    git(tmp_path, "reset", "--quiet", "--hard", old)
    chain = load(tmp_path)
    known = published(tmp_path, chain, "demo-1", "ring", "origin/main")
    (problem,) = may_deploy(chain, "demo-1", "ring", now_s=MADE_S, published=known)
    assert problem.message == "ring of demo-1 is retired on origin/main: a node hung"
    assert problem.where == "records/releases/0003-demo-1-retired.json"
    assert may_deploy(chain, "demo-1", "ring", "experiment", now_s=MADE_S, published=known) == []


def test_a_newer_promotion_on_the_remote_branch_is_taken_in_first(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    chained = Chained()
    found, _ = chained.release("demo-1")
    chained.promote("demo-1", found, "ring")
    chained.write(tmp_path)
    old = commit(tmp_path, "promoted")
    chained.promote("demo-1", found, "ring", [waiver("ring", MADE_S)])
    chained.write(tmp_path)
    git(tmp_path, "update-ref", "refs/remotes/origin/main", commit(tmp_path, "promoted again"))
    git(tmp_path, "reset", "--quiet", "--hard", old)
    chain = load(tmp_path)
    known = published(tmp_path, chain, "demo-1", "ring", "origin/main")
    (problem,) = may_deploy(chain, "demo-1", "ring", now_s=MADE_S, published=known)
    assert problem.message == "origin/main has a newer promotion of ring of demo-1, which is not here"
    assert published(tmp_path, chain, "demo-1", "triangle", "origin/main") is False, "of another shape it says nothing"
