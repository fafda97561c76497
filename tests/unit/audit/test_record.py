# SPDX-License-Identifier: Apache-2.0
"""Audits over time: one record each, in a chain of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.audit.record import add_audit, audits
from derive.errors import CheckFailed
from derive.records.model import read_record


def test_records_of_audits_follow_one_another(tmp_path: Path) -> None:
    names = [add_audit(tmp_path, "r-1", {"verdict": verdict}).name for verdict in ("same", "differs")]
    assert names == ["0001-r-1.json", "0002-r-1.json"]
    assert audits(tmp_path)[1].previous == audits(tmp_path)[0].digest


def test_an_edited_record_is_the_answer_no_with_both_digests_and_a_next_step(tmp_path: Path) -> None:
    first, _ = (add_audit(tmp_path, "r-1", {"verdict": verdict}) for verdict in ("same", "same"))
    named = read_record(first.read_bytes()).digest
    first.write_bytes(first.read_bytes().replace(b"same", b"well"))
    with pytest.raises(CheckFailed) as edited:
        add_audit(tmp_path, "r-1", {})
    assert (edited.value.exit_code, edited.value.where) == (1, "records/audits/0001-r-1.json")
    got = read_record(first.read_bytes()).digest
    assert edited.value.detail == (f"expected  {named}", f"got       {got}")
    assert edited.value.hint == "see what moved: git log -p -- records/audits/0001-r-1.json"
