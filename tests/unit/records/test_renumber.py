# SPDX-License-Identifier: Apache-2.0
"""Records of one branch put after those of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.records.folder import files_below, load
from derive.records.renumber import renumber
from support.chained import Chained, two_releases


def branches() -> tuple[Chained, Chained]:
    ours, theirs = two_releases(), two_releases()
    ours.retire("demo-2")
    ours.retire("demo-1")
    theirs.add("observed", "lab", {"nodes": {}, "observed_s": 1})
    theirs.add("observed", "lab", {"nodes": {}, "observed_s": 2}, "later")
    return ours, theirs


def test_two_records_follow_all_others_in_their_order(tmp_path: Path) -> None:
    for one in branches():
        one.write(tmp_path)
    moved = renumber(tmp_path, ["0005-lab", "records/releases/0006-lab-later.json"])
    assert [path.name for path in moved] == ["0007-lab.json", "0008-lab-later.json"]
    assert [entry.number for entry in load(tmp_path).entries] == list(range(1, 9))
    assert [entry.record.body["observed_s"] for entry in load(tmp_path).of("lab")] == [1, 2]


def test_a_record_may_get_a_name_that_another_had(tmp_path: Path) -> None:
    chained = two_releases()
    chained.write(tmp_path)
    other = two_releases()
    other.add("observed", "lab", {"nodes": {}, "observed_s": 1})
    other.add("observed", "lab", {"nodes": {}, "observed_s": 2})
    other.write(tmp_path)
    chained.add("observed", "den", {"nodes": {}, "observed_s": 3})
    chained.write(tmp_path)
    moved = renumber(tmp_path, ["0005-lab", "0006-lab"])
    assert [path.name for path in moved] == ["0006-lab.json", "0007-lab.json"]
    assert [entry.record.body["observed_s"] for entry in load(tmp_path).of("lab")] == [1, 2]


def test_what_would_leave_no_sound_chain_is_refused_and_nothing_moves(tmp_path: Path) -> None:
    two_releases().write(tmp_path)
    before = files_below(tmp_path)
    with pytest.raises(InputErrors):
        renumber(tmp_path, ["0002-demo-1-ring"])
    with pytest.raises(InputErrors) as caught:
        renumber(tmp_path, ["0009-nothing"])
    assert caught.value.problems()[0].message == "no such record"
    assert files_below(tmp_path) == before


def test_a_record_that_is_not_there_is_told_with_how_records_are_named(tmp_path: Path) -> None:
    two_releases().write(tmp_path)
    with pytest.raises(InputErrors) as caught:
        renumber(tmp_path, ["zzz"])
    (problem,) = caught.value.problems()
    assert problem.hint == "name records as their files are called: the last is 0004-demo-1-retired"
