# SPDX-License-Identifier: Apache-2.0
"""What the operator's own folder holds never stands in the way of a deploy, or of going back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from derive.deploy import policy
from derive.deploy.evidence import keep
from derive.deploy.kept import Kept
from derive.deploy.planning import Asked
from derive.deploy.policy import Standing
from derive.deploy.refused import Refused
from derive.deploy.service import Prepared, absent_image, recorded, require_local
from derive.deploy.told import Told
from derive.deploy.work import Means, Work
from derive.errors import DeriveError, Missing
from derive.records.chain import read_chain
from support.deploying import NOW_S, site_of, target
from support.launching import IMAGE
from support.released import release_of


def test_records_that_cannot_be_read_are_told_and_pass_for_none(tmp_path: Path) -> None:
    assert recorded(Kept(folder=tmp_path)) == ((), ())
    (tmp_path / "deploys").mkdir()
    (tmp_path / "deploys" / "0001-r1.json~").write_text("an editor's")
    history, (note,) = recorded(Kept(folder=tmp_path))
    assert history == ()
    assert "deploys/0001-r1.json~" in note


def test_where_nothing_can_be_kept_that_is_told_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file, where a folder should be")
    said: list[str] = []
    means = Means(store=tmp_path, kept=Kept(folder=tmp_path), clock=lambda: 0, now_s=lambda: NOW_S, by="Ada")
    nobody = cast("Any", None)
    told = Told(say=said.append, clock=lambda: 0)
    work = Work(deploy="d", target=target(), reach=nobody, held=nobody, told=told, means=means)
    assert asyncio.run(keep(work, "ready")) is None
    assert "not all can be kept" in said[0]


def test_an_image_that_the_store_lacks_is_told_with_both_ways_to_have_it(tmp_path: Path) -> None:
    wanted = target().served
    error = absent_image(tmp_path / "store", wanted, "probe", "linux/arm64")
    assert isinstance(error, Missing)
    (one,) = error.problems()
    assert (one.where, one.message) == ("release:probe-2", f"the store does not hold its image {wanted.image}")
    assert one.hint is not None
    assert "derive image probe --platform linux/arm64" in one.hint
    assert f"derive pull REPOSITORY@{wanted.image}" in one.hint


def _prepared(absent: DeriveError | None) -> Prepared:
    standing = Standing(
        chain=read_chain({}),
        release=release_of(IMAGE),
        promotion=None,
        published=True,
        now_s=NOW_S,
        branch="origin/main",
    )
    lacks = () if absent is None else absent.problems()
    asked = Asked(
        target=target(), site=site_of(target()), standing=standing, history=(), consents=frozenset(), lacks=lacks
    )
    nobody = cast("Any", None)
    return Prepared(wish=nobody, aimed=nobody, asked=asked, kept=nobody, absent=absent)


def test_it_is_refused_before_any_node_is_asked_and_with_all_else_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = absent_image(tmp_path, target().served, "probe", "linux/arm64")
    with pytest.raises(Refused) as refused:
        require_local(_prepared(absent))
    assert (refused.value.exit_code, refused.value.problems()[-1].where) == (1, "release:probe-2")
    assert len(refused.value.problems()) > 1
    monkeypatch.setattr(policy, "refusals", lambda *_, **__: ())
    with pytest.raises(Missing) as missing:
        require_local(_prepared(absent))
    assert missing.value.exit_code == 3
    require_local(_prepared(None))
