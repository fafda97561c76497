# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

from derive.kernels.plot import plot
from derive.kernels.report import Report, parse_report


def timed(case: str, **changes: Any) -> dict[str, Any]:
    return {
        "kernel": "cast",
        "case": case,
        "rows": 1,
        "units": [],
        "time_ns": 2000,
        "low_ns": 1900,
        "high_ns": 2100,
        "floor_ns": 1600,
        "moved_bytes": 1,
        "target_ns": 2500,
        "met": True,
        "peers": [],
        **changes,
    }


def report(*cases: dict[str, Any], card: str = "NVIDIA H200") -> Report:
    times = {"empty_launch_ns": 1100, "read_bytes_per_s": 4_400_000_000_000, "cases": list(cases)}
    document = {
        "derive": "kernel-run/1",
        "bundle": {"units": []},
        "machine": {"card": {"name": card}},
        "parts": {"time": {"ok": True}},
        "time": times,
    }
    return parse_report(json.dumps(document).encode(), "r")


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def places(picture: str, tag: str) -> list[float]:
    return [float(one.get("cx", "0")) for one in ET.fromstring(picture).iter(f"{{http://www.w3.org/2000/svg}}{tag}")]


def test_the_same_report_gives_the_same_bytes() -> None:
    assert plot(report(timed("a"), timed("b"))) == plot(report(timed("a"), timed("b")))


def test_every_case_has_its_line_and_what_was_missed_is_said() -> None:
    shown = texts(plot(report(timed("a"), timed("b", time_ns=3000, high_ns=3100, met=False))))
    assert "a, 1 row" in shown
    assert "2.00 us, 1.25 x floor, target 2.50" in shown
    assert "3.00 us, 1.88 x floor, target 2.50 missed" in shown


def test_a_case_without_a_time_is_shown_as_failed() -> None:
    shown = texts(plot(report(timed("a", time_ns=None, low_ns=None, high_ns=None, met=False))))
    assert "failed: no time" in shown


def test_a_name_cannot_break_the_picture() -> None:
    picture = plot(report(timed("<a & 'b'>"), card='"x" </svg>'))
    assert "<a & 'b'>, 1 row" in texts(picture)


def test_a_longer_time_lies_further_right_and_all_lie_on_the_scale() -> None:
    picture = plot(report(timed("a"), timed("b", time_ns=900_000, high_ns=990_000, met=False)))
    first, second = places(picture, "circle")[-2:]
    assert 300 <= first < second <= 820


def test_nothing_timed_is_said() -> None:
    assert "nothing was timed" in texts(plot(report()))
