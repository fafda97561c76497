# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from derive.derivations.model import closure
from speed.content import project_of
from speed.why import moved, realise, write
from support.small import run_here


def test_one_package_is_why_the_second_root_was_built(tmp_path: Path) -> None:
    project = project_of(8)
    before, after = realise(project, tmp_path / "store"), realise(moved(project), tmp_path / "store")
    assert len(closure(after)) == 17
    assert len({one.id for one in closure(before)} & {one.id for one in closure(after)}) == 14
    write(moved(project), tmp_path / "project")
    options = ("--store", str(tmp_path / "store"), "--project", str(tmp_path / "project"))
    for question in (("root",), (f"drv:{after.id.hex}",), (f"drv:{before.id.hex}", f"drv:{after.id.hex}")):
        assert "p7 1 -> 2 (amd64)" in run_here("why", *question, *options).answer
    assert run_here("why", "p7", "--in", f"drv:{before.id.hex}", *options).answer.count("\n") == 1
