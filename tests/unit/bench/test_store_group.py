# SPDX-License-Identifier: Apache-2.0
"""What the measurements of the store do, on a small scale."""

from __future__ import annotations

from pathlib import Path

from derive.store.collect import collect
from derive.store.local import LocalStore
from derive.store.reach import Level
from derive.store.verify import How, verify
from speed.store import add, fill, large_blobs, stat_all, work_tree


def test_garbage_is_sound_and_all_of_it_goes(tmp_path: Path) -> None:
    fill(tmp_path, 10)
    with LocalStore(tmp_path) as store:
        assert verify(store, How(jobs=2, trees=True)).findings == ()
        freed = {one.kind: one.count for one in collect(store, Level.AUDIT).freed}
    assert freed == {"contents of trees": 5, "fetched artifacts": 5, "listings": 5}


def test_large_blobs_have_the_size_that_is_asked_for(tmp_path: Path) -> None:
    paths = large_blobs(tmp_path, 2, 4 << 20)
    assert [path.stat().st_size for path in paths] == [4 << 20] * 2


def test_a_work_tree_is_the_same_tree_each_time(tmp_path: Path) -> None:
    work_tree(tmp_path / "work", 120)
    assert stat_all(tmp_path / "work") == 120
    assert add(tmp_path / "store", tmp_path / "work") == add(tmp_path / "store", tmp_path / "work")
