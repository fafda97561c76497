# SPDX-License-Identifier: Apache-2.0
"""What the operator's own folder holds never stands in the way of a deploy, or of going back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

from derive.deploy.evidence import keep
from derive.deploy.kept import Kept
from derive.deploy.service import recorded
from derive.deploy.told import Told
from derive.deploy.work import Means, Work
from support.deploying import NOW_S, target


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
