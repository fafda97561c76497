# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest

from derive.canonical import digest_document
from derive.errors import InputErrors
from derive.kernels.report import parse_report, record_of, summary, us


def timed(**changes: Any) -> dict[str, Any]:
    """Return one timing of a report: 20 us, of a floor of 16, with a target of 18 that is missed."""
    return {
        "kernel": "cast",
        "case": "cast/bf16",
        "rows": 6,
        "units": ["cast/cast/bf16/few/sm_90a"],
        "problems": [],
        "time_ns": 20000,
        "low_ns": 19900,
        "high_ns": 20300,
        "floor_ns": 16000,
        "moved_bytes": 65536,
        "target_ns": 18000,
        "met": False,
        "peers": [{"name": "other", "time_ns": 25000}],
        **changes,
    }


def run(*cases: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a report of a run on an H200 whose timing was not well."""
    return {
        "derive": "kernel-run/1",
        "bundle": {"units": [{"unit": "cast/cast/bf16/few/sm_90a", "derivation": "sha256:" + "0" * 64}]},
        "machine": {"ok": True, "card": {"name": "NVIDIA H200"}},
        "parts": {"machine": {"ok": True, "seconds": 3}, "time": {"ok": False, "seconds": 60}},
        "time": {
            "ok": False,
            "empty_launch_ns": 1100,
            "read_bytes_per_s": 4_400_000_000_000,
            "cases": list(cases or (timed(),)),
        },
        **changes,
    }


def wrong(document: object) -> list[str]:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    with pytest.raises(InputErrors) as caught:
        parse_report(data, "out/report.json")
    return [f"{problem.where}: {problem.message}" for problem in caught.value.problems()]


def test_a_report_is_read_with_times_targets_and_peers() -> None:
    report = parse_report(json.dumps(run()).encode(), "r")
    (one,) = report.timed
    assert (one.time_ns, one.floor_ns, one.target_ns, one.met) == (20000, 16000, 18000, False)
    assert [(peer.name, peer.time_ns) for peer in one.peers] == [("other", 25000)]
    assert (report.card, report.card_slug, report.is_well) == ("NVIDIA H200", "nvidia-h200", False)


def test_the_summary_says_what_was_missed_and_by_how_much() -> None:
    lines = summary(parse_report(json.dumps(run()).encode(), "r"))
    assert lines == (
        "machine   well",
        "time      NOT WELL",
        "cast cast/bf16, 6 rows: 20.0 us, 1.25 x the floor, target 18.0 us MISSED, other 25.0 us",
    )


def test_a_case_that_failed_has_no_time_and_is_missed() -> None:
    failed = {key: value for key, value in timed().items() if key not in ("time_ns", "low_ns", "high_ns")}
    report = parse_report(json.dumps(run(failed)).encode(), "r")
    assert report.timed[0].met is False
    assert summary(report)[-1] == "cast cast/bf16, 6 rows: failed"


def test_the_record_is_one_with_the_whole_run_in_it() -> None:
    document = record_of(parse_report(json.dumps(run()).encode(), "r"))
    assert document["derive"] == "record/1"
    assert (document["kind"], document["subject"], document["body"]) == ("kernel-report", "NVIDIA H200", {"run": run()})
    assert digest_document(document).hex


def test_what_is_no_report_is_refused() -> None:
    assert wrong(b"no JSON")[0].startswith("out/report.json: not a report: ")
    assert wrong([]) == ["out/report.json: not the report of a run of kernels"]
    assert wrong({"derive": "record/1"}) == ["out/report.json: not the report of a run of kernels"]


def test_a_float_is_refused_since_a_record_holds_none() -> None:
    assert wrong(run(timed(time_ns=20000.5))) == [
        "out/report.json: not a report: a float cannot stand in a canonical document: 20000.5"
    ]


def test_everything_wrong_is_told_at_once_with_its_place() -> None:
    bad = run(timed(rows=0, floor_ns=None, kernel=""), bundle={"units": [{"unit": "x"}]})
    assert wrong(bad) == [
        "out/report.json: bundle.units[0].derivation: not a text",
        "out/report.json: time.cases[0].floor_ns: not there",
        "out/report.json: time.cases[0].kernel: not a text",
        "out/report.json: time.cases[0].rows: not a whole number of 1 or more: 0",
    ]


def test_a_target_that_was_missed_cannot_be_called_met() -> None:
    assert wrong(run(timed(met=True))) == ["out/report.json: time.cases[0].met: is True, and time and target say False"]


def test_a_part_that_was_not_well_cannot_be_called_well() -> None:
    parts = {"time": {"ok": True, "seconds": 60}}
    assert wrong(run(parts=parts)) == ["out/report.json: parts.time.ok: does not say the same as time.ok"]


def test_times_are_written_with_as_many_digits_as_tell_something() -> None:
    assert [us(1100), us(9999), us(66040)] == ["1.10", "10.00", "66.0"]
