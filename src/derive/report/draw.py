# SPDX-License-Identifier: Apache-2.0
"""The pictures of a report: the line of releases, values over time, and one number with its bounds.

Core: no IO. SVG inside HTML: colours are the page's, so that light, dark and print need no second picture. Every text
from a record is escaped here, where it becomes markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from derive.report.model import Figure, Release, State
from derive.report.series import Folded, Scale, apart, day_ticks, folded, placed_days, round_ticks

_ROW, _TOP, _BOTTOM = 22, 20, 16
_AXIS, _LANE, _LANES = 92, 20, 5
_LABEL = 275
_LONGEST = 16
_LONGEST_GAP = 10.0
"""Days without a release that the line has room for: what is longer is cut short, and says how long it is."""
_HIGH, _WIDE, _LEFT, _RIGHT = 180, 440, 44, 112
_MARKS = 4
_STRIP = (120, 14)

STATE_WORDS: dict[State, str] = {
    "historical": "historical: cannot be derived",
    "candidate": "candidate",
    "promoted": "promoted",
    "retired": "retired",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Values of one thing by day, in order."""

    name: str
    points: tuple[tuple[int, float, str], ...]


def release_line(releases: Sequence[Release], ident: str) -> str:
    """Return the line of releases: days down the left, a lane for each deployment or recipe, a label for each."""
    lanes = list(dict.fromkeys(one.lane for one in releases))
    columns = {lane: min(index, _LANES - 1) for index, lane in enumerate(lanes)}
    days = _days(releases, lanes)
    order = sorted(range(len(releases)), key=lambda index: (days[index], index))
    fold = folded(days, _LONGEST_GAP)
    height = max(200, _ROW * len(releases))
    along = Scale(least=0, most=fold.knots[-1][1], start=_TOP, end=_TOP + height)

    def scale(day: float) -> float:
        return along(fold(day))

    places = apart([scale(days[index]) for index in order], _ROW)
    shift = max(0.0, _TOP - places[0])
    label_y = {index: place + shift for index, place in zip(order, places, strict=True)}
    tall = max(label_y.values(), default=0) + _BOTTOM
    tall = max(tall, scale(max(days)) + shift + _BOTTOM)
    label_x = _AXIS + _LANE * (min(len(lanes), _LANES) + 1)
    points = {index: (_AXIS + _LANE * columns[releases[index].lane], scale(days[index]) + shift) for index in order}
    lines = [
        *_opened(label_x + _LABEL, tall, ident, f"{len(releases)} releases by date", _told(releases)),
        *_axis(fold, scale, shift, label_x, height),
        *_links(releases, points),
        *(_leader(points[index], label_x, label_y[index]) for index in order),
    ]
    for index in order:
        lines.append(_mark(releases[index], *points[index]))
        lines += _label(releases[index], label_x, label_y[index])
    return "\n".join([*lines, "</svg>"])


def _days(releases: Sequence[Release], lanes: Sequence[str]) -> list[float]:
    days = [0.0] * len(releases)
    for lane in lanes:
        own = [index for index, one in enumerate(releases) if one.lane == lane]
        for index, day in zip(own, placed_days([releases[index].day for index in own]), strict=True):
            days[index] = day
    return days


def _told(releases: Sequence[Release]) -> str:
    states = [one.state for one in releases]
    counts = [f"{states.count(state)} {state}" for state in STATE_WORDS if state in states]
    return f"{', '.join(counts)}; from {releases[0].name} to {releases[-1].name}. The table beside has all of them."


def _axis(fold: Folded, scale: Callable[[float], float], shift: float, right: int, height: int) -> Iterator[str]:
    for day, text in day_ticks(int(fold.knots[0][0]), int(fold.knots[-1][0]), max(3, height // 24)):
        if not fold.is_cut(day):
            y = scale(day) + shift
            yield f'<path class="grid" d="M{_AXIS - 12} {y:.1f}H{right - 8}"/>'
            yield _text(_AXIS - 18, y + 4, text, "pale num end")
    for first, last in fold.cuts:
        y = (scale(first) + scale(last)) / 2 + shift
        yield f'<path class="cut" d="M{_AXIS - 12} {y - 3:.1f}h{right - _AXIS + 4}m0 6h-{right - _AXIS + 4}"/>'
        yield _text(_AXIS - 18, y + 4, f"{last - first:.0f} days", "pale num end")


def _links(releases: Sequence[Release], points: dict[int, tuple[int, float]]) -> Iterator[str]:
    names = {one.name: index for index, one in enumerate(releases)}
    for index, one in enumerate(releases):
        before = names.get(one.previous or "")
        if before is None:
            continue
        (x1, y1), (x2, y2) = points[before], points[index]
        bend = "" if x1 == x2 else f"C{x1} {(y1 + y2) / 2:.1f} {x2} {(y1 + y2) / 2:.1f} {x2} {y2:.1f}"
        yield f'<path class="link" d="M{x1} {y1:.1f}{bend or f"V{y2:.1f}"}"/>'


def _leader(point: tuple[int, float], label_x: int, y: float) -> str:
    return f'<path class="leader" d="M{point[0] + 8} {point[1]:.1f}L{label_x - 14} {y:.1f}H{label_x - 5}"/>'


def _mark(release: Release, x: float, y: float) -> str:
    unknown = " undated" if release.day is None else ""
    title = f"<title>{escape(f'{release.name}: {release.state}, {release.date}')}</title>"
    return f'<path class="mark {release.state}{unknown}" d="{state_path(release.state, x, y)}">{title}</path>'


def state_path(state: State, x: float, y: float) -> str:
    """Return the outline that stands for a state, around a place."""
    match state:
        case "historical":
            return f"M{x - 4.5:.1f} {y:.1f}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z"
        case "candidate":
            return f"M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z"
        case "promoted":
            return f"M{x - 5:.1f} {y - 5:.1f}h10v10h-10z"
        case "retired":
            return f"M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"


def _label(release: Release, x: float, y: float) -> Iterator[str]:
    name = _fitted(release.name, _LONGEST)
    date = "date not known" if release.day is None else release.date.partition(" ")[0]
    state = "" if release.state == "historical" else f", {release.state}"
    yield (
        f'<text x="{x:.1f}" y="{y + 4:.1f}"><tspan class="name">{escape(name)}</tspan>'
        f'<tspan class="pale" dx="7">{escape(date + state)}</tspan></text>'
    )


def over_time(lines: Sequence[Line], ident: str, title: str, unit: str, most: float | None = None) -> str:
    """Return values over time from 0: a line and a mark for each thing, its name at its last point."""
    days = [day for line in lines for day, _, _ in line.points]
    top = max((value for line in lines for _, value, _ in line.points), default=0.0)
    ticks = round_ticks(top if most is None else most, 5)
    x = Scale(least=min(days), most=max(days), start=_LEFT + 12, end=_WIDE - _RIGHT - 12)
    y = Scale(least=0, most=ticks[-1], start=_TOP + _HIGH, end=_TOP)
    tall = _TOP + _HIGH + 34
    drawn = [*_opened(_WIDE, tall, ident, title, _said(lines, unit))]
    for tick in ticks:
        drawn.append(f'<path class="grid" d="M{_LEFT} {y(tick):.1f}H{_WIDE - _RIGHT}"/>')
        drawn.append(_text(_LEFT - 8, y(tick) + 4, f"{tick:,.10g}", "pale num end"))
    drawn.append(_text(_LEFT - 8, 10, unit, "pale end"))
    for day, text in day_ticks(min(days), max(days), 4):
        drawn.append(_text(x(day), _TOP + _HIGH + 20, text, "pale num middle"))
    ends = sorted(range(len(lines)), key=lambda index: (y(lines[index].points[-1][1]), index))
    labels = apart([y(lines[index].points[-1][1]) for index in ends], 14)
    for index, place in zip(ends, labels, strict=True):
        drawn += _curve(lines[index], index, x, y, place)
    return "\n".join([*drawn, "</svg>"])


def _said(lines: Sequence[Line], unit: str) -> str:
    said = [f"{line.name}: {line.points[-1][2]} at last" for line in lines]
    return f"{'; '.join(said)} ({unit}). The table below has all of them."


def _curve(line: Line, index: int, x: Scale, y: Scale, label_y: float) -> Iterator[str]:
    places = [(x(day), y(value)) for day, value, _ in line.points]
    style = f"s{index % _MARKS}"
    joined = "L".join(f"{px:.1f} {py:.1f}" for px, py in places)
    yield f'<path class="curve {style}" d="M{joined}"/>'
    for (px, py), (_, _, text) in zip(places, line.points, strict=True):
        shape = (
            f"M{px - 4:.1f} {py:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
            f"M{px:.1f} {py - 5:.1f}l5 5l-5 5l-5 -5z",
            f"M{px - 4:.1f} {py - 4:.1f}h8v8h-8z",
            f"M{px:.1f} {py - 5:.1f}l5 9h-10z",
        )[index % _MARKS]
        yield f'<path class="dot {style}" d="{shape}"><title>{escape(f"{line.name}: {text}")}</title></path>'
    yield _text(_WIDE - _RIGHT + 2, label_y + 4, _fitted(line.name, 17), f"{style}")


def strip(figure: Figure, least: float, most: float) -> str:
    """Return one number with its bounds on a line from ``least`` to ``most``; the number stands in words beside it."""
    wide, high = _STRIP
    x = Scale(least=least, most=most, start=6, end=wide - 6)
    parts = [f'<svg class="strip" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" aria-hidden="true">']
    parts.append(f'<path class="grid" d="M6 {high / 2:g}H{wide - 6}"/>')
    if figure.low is not None and figure.high is not None:
        low, top = x(float(figure.low)), x(float(figure.high))
        parts.append(f'<path class="whisker" d="M{low:.1f} 3v8M{low:.1f} 7H{top:.1f}M{top:.1f} 3v8"/>')
    if figure.value is not None:
        kind = "measured" if figure.measured else "told"
        at = x(float(figure.value))
        parts.append(f'<circle class="{kind}" cx="{at:.1f}" cy="{high / 2:g}" r="3.5"/>')
    return "".join([*parts, "</svg>"])


def bar(share: float) -> str:
    """Return a bar that is a share of its whole long; the number stands in words beside it."""
    wide, high = _STRIP
    long = max(1.0, min(1.0, share) * wide)
    return (
        f'<svg class="strip" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" aria-hidden="true">'
        f'<path class="track" d="M0 3h{wide}v8h-{wide}z"/><path class="bar" d="M0 3h{long:.1f}v8h-{long:.1f}z"/></svg>'
    )


def state_mark(state: State) -> str:
    """Return a state's mark alone, for a table or a legend."""
    return (
        '<svg class="key" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">'
        f'<path class="mark {state}" d="{state_path(state, 8, 8)}"/></svg>'
    )


def _opened(width: float, height: float, ident: str, title: str, told: str) -> Iterator[str]:
    yield f'<svg viewBox="0 0 {width:g} {height:.0f}" width="{width:g}" height="{height:.0f}" role="img"'
    yield f' aria-labelledby="{ident}-title {ident}-desc">'
    yield f'<title id="{ident}-title">{escape(title)}</title>'
    yield f'<desc id="{ident}-desc">{escape(told)}</desc>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _fitted(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
