# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from derive.store.local import LocalStore
from derive.trees.diff import Changed, diff
from speed.patches import judged, make_tree, patched, peers, series_files


def test_the_made_up_series_changes_the_files_that_it_names(tmp_path: Path) -> None:
    series = series_files(600, 3)
    tree = make_tree(tmp_path, 600)
    after = patched(tmp_path, tree, series)
    assert judged(tmp_path, tree, series) == 3
    with LocalStore(tmp_path) as store:
        changes = diff(store.listing(tree), store.listing(type(tree).parse(after)))
    assert len(changes) == 9
    assert all(isinstance(change, Changed) and change.kind == "contents" for change in changes)


def test_git_and_patch_apply_the_same_files(tmp_path: Path) -> None:
    series = series_files(600, 3)
    tree = make_tree(tmp_path / "store", 600)
    for sample in peers(tmp_path, tmp_path / "store", tree, series).values():
        assert sample().wall_ns > 0
