# SPDX-License-Identifier: Apache-2.0
"""The page: what an account says, laid out for a template that only arranges it.

Core: no IO. Imports Jinja2, late. Everything that comes from a record is escaped: by the template, or in the pictures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from derive.report.draw import STATE_WORDS, Line, bar, over_time, release_line, state_mark, strip
from derive.report.model import STATES, Account, Changes, Figure, Group, Score, Size
from derive.report.values import digits, unit_text
from derive.words import count_text, releases_text, size_text

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

View: TypeAlias = "Mapping[str, object]"

_MILLION, _BILLION = 1_000_000, 1_000_000_000


def page(account: Account, template: str) -> bytes:
    """Return the page: the same bytes for the same account and template."""
    return _compiled(template).render(_view(account)).encode("utf-8")


@lru_cache(maxsize=1)
def _compiled(template: str) -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        newline_sequence="\n",
        cache_size=0,
    )
    return environment.from_string(template)


def _view(account: Account) -> View:
    singles, shared = _parted(account.groups)
    return {
        "account": account,
        "counted": _counted(account).replace(" releases", "").replace(" release", ""),
        "line": _drawn(release_line(account.releases, "line")) if account.releases else None,
        "states": [(state, STATE_WORDS[state], _drawn(state_mark(state))) for state in STATES],
        "marks": {state: _drawn(state_mark(state)) for state in STATES},
        "releases": tuple(reversed(account.releases)),
        "moved": [one for one in account.changes if one.rows or one.told],
        "still": _still(account.changes),
        "groups": [_group(group) for group in shared],
        "singles": [_figure(figure, None) for figure in singles],
        "sizes": _sizes(account.sizes),
        "sizes_drawn": _sizes_drawn(account.sizes),
        "scores": [_score(one) for one in reversed(account.scores)],
        "scores_drawn": _scores_drawn(account.scores),
    }


def _drawn(svg: str) -> Markup:
    """Let a picture through as it is: its texts were escaped where it was drawn."""
    from markupsafe import Markup

    return Markup(svg)  # noqa: S704 - made by derive.report.draw alone


def _still(changes: Sequence[Changes]) -> str:
    """Name the releases of which no change is known."""
    return ", ".join(one.second for one in changes if not one.rows and not one.told)


def _parted(groups: Sequence[Group]) -> tuple[list[Figure], list[Group]]:
    """Part figures that stand alone from those that have others of their kind."""
    singles = [group.figures[0] for group in groups if len(group.figures) == 1 and not group.more]
    return singles, [group for group in groups if len(group.figures) > 1 or group.more]


def _group(group: Group) -> View:
    numbers = [one for figure in group.figures for one in (figure.value, figure.low, figure.high) if one is not None]
    ends = (min(numbers), max(numbers)) if numbers else None
    return {
        "title": group.title,
        "unit": group.unit,
        "more": group.more,
        "rows": [_figure(figure, ends) for figure in group.figures],
        "cases": any(figure.case for figure in group.figures)
        or _same([figure.note for figure in group.figures]) is None,
        "shapes": any(figure.shape for figure in group.figures),
        "against": any(figure.against for figure in group.figures),
        "bounds": any(figure.low is not None for figure in group.figures),
        "values": any(figure.value is not None for figure in group.figures),
        "n": any(figure.n is not None for figure in group.figures),
        "sources": _same([figure.source for figure in group.figures]),
        "of": _same([figure.of for figure in group.figures]),
        "note": _same([figure.note for figure in group.figures]) or "",
        "measured": any(figure.measured for figure in group.figures),
        "ends": "" if ends is None else f"{digits(ends[0])} to {digits(ends[1])}",
    }


def _same(texts: Sequence[str]) -> str | None:
    """Return what all have in common, None where they differ."""
    return texts[0] if len(set(texts)) == 1 else None


def _figure(figure: Figure, ends: tuple[Decimal, Decimal] | None) -> View:
    about = "about " if figure.about else ""
    low, high = figure.low, figure.high
    return {
        "figure": figure,
        "value": "" if figure.value is None else f"{about}{digits(figure.value)}",
        "bounds": "" if low is None or high is None else f"{digits(low)} to {digits(high)}",
        "unit": unit_text(figure.unit),
        "case": figure.case or "",
        "drawn": None if ends is None else _drawn(strip(figure, float(ends[0]), float(ends[1]))),
    }


def _sizes(sizes: Sequence[Size]) -> list[View]:
    """Return sizes with the newest first; each with its difference from the one before of the same image."""
    most = max((one.size_bytes for one in sizes), default=0)
    before: dict[tuple[str, str], int] = {}
    found: list[View] = []
    for one in sizes:
        key = (one.image, one.platform)
        moved = None if key not in before else one.size_bytes - before[key]
        before[key] = one.size_bytes
        found.append(
            {
                "size": one,
                "bytes": f"{one.size_bytes:,}",
                "about": size_text(one.size_bytes),
                "moved": "" if moved is None else f"{moved:+,}" if moved else "0",
                "drawn": _drawn(bar(one.size_bytes / most if most else 0.0)),
            }
        )
    return list(reversed(found))


def _sizes_drawn(sizes: Sequence[Size]) -> Markup | None:
    dated = [one for one in sizes if one.day is not None]
    if not dated:
        return None
    most = max(one.size_bytes for one in dated)
    divisor, unit = (_BILLION, "GB") if most >= _BILLION else (_MILLION, "MB")
    lines: dict[str, list[tuple[int, float, str]]] = {}
    for one in dated:
        point = (one.day or 0, one.size_bytes / divisor, f"{one.release}, {size_text(one.size_bytes)}")
        lines.setdefault(f"{one.image} {one.platform.rpartition('/')[2]}", []).append(point)
    drawn = tuple(Line(name=name, points=tuple(points)) for name, points in lines.items())
    return _drawn(over_time(drawn, "sizes", "Bytes of images by release, compressed", unit))


def _scores_drawn(scores: Sequence[Score]) -> Markup | None:
    lines: dict[str, list[tuple[int, float, str]]] = {}
    for one in sorted((one for one in scores if one.day is not None), key=lambda one: (one.day or 0, one.file)):
        lines.setdefault(one.release, []).append((one.day or 0, one.score_bp / 100, percent(one.score_bp)))
    if not lines:
        return None
    drawn = tuple(Line(name=name, points=tuple(points)) for name, points in lines.items())
    return _drawn(over_time(drawn, "scores", "Share of a release that could be derived again", "%", most=100.0))


def _score(one: Score) -> View:
    return {
        "score": one,
        "percent": percent(one.score_bp),
        "counts": tuple(_counts(one)),
        "drawn": _drawn(bar(one.score_bp / 10_000)),
    }


def _counts(one: Score) -> Iterator[str]:
    yield from (f"{count:,} {place.replace('_', ' ')}" for place, count in one.counts)


def percent(basis_points: int) -> str:
    """Write basis points as a percentage with two decimals."""
    sign = "-" if basis_points < 0 else ""
    return f"{sign}{abs(basis_points) // 100}.{abs(basis_points) % 100:02d}%"


def summary(account: Account) -> str:
    """Say in one line what a page holds."""
    state = (
        "the chain holds"
        if not account.chain.problems
        else count_text(len(account.chain.problems), "problem") + " in the chain"
    )
    return f"{_counted(account)}, {count_text(account.chain.records, 'record')}; {state}"


def _counted(account: Account) -> str:
    historical = sum(one.state == "historical" for one in account.releases)
    return releases_text(len(account.releases) - historical, historical)
