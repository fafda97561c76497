# SPDX-License-Identifier: Apache-2.0
"""A picture of times against floors: one line a case, on one scale of microseconds.

Core: no IO. SVG 1.1, the same bytes for the same report.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from derive.kernels.report import Peer, Report, Timed, us

_LEFT, _RIGHT, _TOP, _ROW, _BOTTOM = 300, 300, 74, 30, 46
_SCALE = 520
"""Pixels between the smallest and the greatest time."""

_INK, _PALE, _GRID, _TIME, _MISSED = "#1b1f24", "#6a737d", "#e1e4e8", "#0550ae", "#b31d28"
_STEPS = (1, 2, 5)


def plot(report: Report) -> str:
    """Return the picture; one without a time says so."""
    rows = report.timed
    height = _TOP + _ROW * max(1, len(rows)) + _BOTTOM
    width = _LEFT + _SCALE + _RIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"',
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(16, 26, f"Kernels on {report.card or 'no GPU'}: time of one launch, and the least it could be", size=16),
        *_key(report),
    ]
    if rows:
        scale = _Scale.of(rows)
        lines += _grid(scale, height)
        for index, one in enumerate(rows):
            lines += _row(scale, one, _TOP + _ROW * index + _ROW // 2)
    else:
        lines.append(_text(_LEFT, _TOP + _ROW, "nothing was timed", colour=_PALE))
    return "\n".join([*lines, "</svg>", ""])


class _Scale:
    """Nanoseconds to pixels, by logarithm, between two round times."""

    def __init__(self, least_ns: float, most_ns: float) -> None:
        self.least, self.most = least_ns, most_ns

    @classmethod
    def of(cls, rows: Sequence[Timed]) -> _Scale:
        """Return the scale that everything fits on."""
        times = [time for one in rows for time in _times(one)]
        ticks = list(_ticks(min(times) / 2, max(times) * 2))
        least = max((tick for tick in ticks if tick <= min(times)), default=ticks[0])
        most = min((tick for tick in ticks if tick >= max(times)), default=ticks[-1])
        return cls(least, most if most > least else least * 2)

    def x(self, time_ns: float) -> float:
        """Return where a time lies."""
        return _LEFT + _SCALE * math.log(time_ns / self.least) / math.log(self.most / self.least)

    def ticks(self) -> Iterator[float]:
        """Yield the round times on it."""
        return _ticks(self.least, self.most)


def _times(one: Timed) -> list[int]:
    found = (one.time_ns, one.floor_ns, one.target_ns, one.low_ns, one.high_ns, *(peer.time_ns for peer in one.peers))
    return [time for time in found if time is not None]


def _ticks(least: float, most: float) -> Iterator[float]:
    for power in range(12):
        for step in _STEPS:
            tick = float(step * 10**power)
            if least <= tick <= most:
                yield tick


def _key(report: Report) -> Iterator[str]:
    facts = []
    if report.read_bytes_per_s is not None and report.empty_launch_ns is not None:
        rate = f"{report.read_bytes_per_s / 1e12:.2f} TB/s"
        facts.append(f"the floor is bytes moved at {rate}, plus one empty launch of {us(report.empty_launch_ns)} us")
    yield _text(16, 48, "".join(facts), colour=_PALE, size=12)
    x = _LEFT + _SCALE + 24
    for index, (mark, label) in enumerate(
        ((_floor_mark(x, 14), "floor"), (_time_mark(x, 30, _TIME), "median"), (_target_mark(x, 54), "target"))
    ):
        yield mark
        yield _text(x + 14, 18 + 16 * index, label, size=12)
    yield _peer_mark(x + 90, 14)
    yield _text(x + 104, 18, "another program", size=12)


def _grid(scale: _Scale, height: int) -> Iterator[str]:
    bottom = height - _BOTTOM + 6
    for tick in scale.ticks():
        x = scale.x(tick)
        yield f'<path d="M{x:.1f} {_TOP - 6}V{bottom}" stroke="{_GRID}"/>'
        yield _text(x, bottom + 16, f"{tick / 1000:g}", colour=_PALE, size=12, anchor="middle")
    yield _text(_LEFT + _SCALE / 2, bottom + 34, "microseconds", colour=_PALE, size=12, anchor="middle")


def _row(scale: _Scale, one: Timed, y: int) -> Iterator[str]:
    colour = _MISSED if one.met is False or one.time_ns is None else _TIME
    yield _text(_LEFT - 16, y - 2, one.label, anchor="end")
    yield _text(_LEFT - 16, y + 11, one.kernel, anchor="end", colour=_PALE, size=11)
    floor = scale.x(one.floor_ns)
    if one.time_ns is not None:
        time = scale.x(one.time_ns)
        yield f'<path d="M{floor:.1f} {y}H{time:.1f}" stroke="{colour}" stroke-width="3" stroke-opacity="0.35"/>'
    if one.low_ns is not None and one.high_ns is not None:
        yield f'<path d="M{scale.x(one.low_ns):.1f} {y}H{scale.x(one.high_ns):.1f}" stroke="{colour}"/>'
    yield _floor_mark(floor, y)
    yield from (_peer_mark(scale.x(peer.time_ns), y) for peer in one.peers if peer.time_ns is not None)
    if one.target_ns is not None:
        yield _target_mark(scale.x(one.target_ns), y)
    if one.time_ns is not None:
        yield _time_mark(scale.x(one.time_ns), y, colour)
    yield _text(_LEFT + _SCALE + 24, y - 2, _said(one), colour=colour)
    yield _text(_LEFT + _SCALE + 24, y + 11, "; ".join(_peer_text(peer) for peer in one.peers), colour=_PALE, size=11)


def _said(one: Timed) -> str:
    if one.time_ns is None:
        return "failed: no time"
    missed = "" if one.target_ns is None else f", target {us(one.target_ns)}{'' if one.met else ' missed'}"
    return f"{us(one.time_ns)} us, {one.time_ns / one.floor_ns:.2f} x floor{missed}"


def _peer_text(peer: Peer) -> str:
    return f"{peer.name} {'not run' if peer.time_ns is None else us(peer.time_ns)}"


def _floor_mark(x: float, y: float) -> str:
    return f'<path d="M{x:.1f} {y - 7:.1f}v14" stroke="{_INK}" stroke-width="2"/>'


def _time_mark(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>'


def _peer_mark(x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="#ffffff" stroke="{_PALE}" stroke-width="1.5"/>'


def _target_mark(x: float, y: float) -> str:
    return f'<path d="M{x - 5:.1f} {y - 11:.1f}h10l-5 7z" fill="{_INK}"/>'


def _text(x: float, y: float, text: str, *, colour: str = _INK, size: int = 13, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
    )
