# SPDX-License-Identifier: Apache-2.0
"""Scores and audits over time: one record each, naming the one before it, so that an edited one is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.errors import CheckFailed, InputErrors
from derive.records.model import read_record
from derive.records.numbered import SCORES


def test_records_follow_one_another_and_are_read_in_their_order(tmp_path: Path) -> None:
    names = [
        SCORES.add(tmp_path, name, {"score_bp": score}).name for name, score in (("r-1", 9), ("r-2", 8), ("r-1", 7))
    ]
    assert names == ["0001-r-1.json", "0002-r-2.json", "0003-r-1.json"]
    found = SCORES.read(tmp_path)
    assert [(one.subject, one.body["score_bp"]) for one in found] == [("r-1", 9), ("r-2", 8), ("r-1", 7)]
    assert found[0].previous is None
    assert [one.previous for one in found[1:]] == [one.digest for one in found[:-1]]


def test_an_edited_an_absent_and_a_strange_file_are_found(tmp_path: Path) -> None:
    for score in (1, 2, 3):
        SCORES.add(tmp_path, "r-1", {"score_bp": score})
    first = tmp_path / "records/derivability/0001-r-1.json"
    named = read_record(first.read_bytes()).digest
    first.write_bytes(first.read_bytes().replace(b'"score_bp":1', b'"score_bp":9'))
    with pytest.raises(CheckFailed) as edited:
        SCORES.read(tmp_path)
    assert edited.value.exit_code == 1
    assert edited.value.where == "records/derivability/0001-r-1.json"
    assert edited.value.message == "edited since it was written: 0002-r-1.json names another digest of it"
    expected, got = (line.split()[1] for line in edited.value.detail)
    assert (expected, got) == (str(named), str(read_record(first.read_bytes()).digest))
    assert edited.value.hint == "see what moved: git log -p -- records/derivability/0001-r-1.json"
    first.unlink()
    (first.parent / "note.txt").write_text("x")
    with pytest.raises(InputErrors) as caught:
        SCORES.add(tmp_path, "r-1", {})
    messages = [one.message for one in caught.value.problems()]
    assert messages == ["no record has the number 0001", "not the name of a record"]
