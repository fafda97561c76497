# SPDX-License-Identifier: Apache-2.0
"""Figures out of records of any kind: those of historical releases, and every table that has bounds beside a number.

Core: no IO.

A table with ``low_U`` and ``high_U``, and one of ``median_U``, ``mean_U``, ``value_U``, ``time_U`` or ``U`` alone, is a
figure with an interval in the unit U. So reports are read whose kinds were not there when this was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

from derive.canonical import Json
from derive.records.model import Record
from derive.report.history import KIND
from derive.report.model import Figure, Group
from derive.report.values import clean, digits, items, number, table, unit_text, whole

_CENTRES = ("median", "value", "mean", "time")
_NAMES = ("kernel", "suite", "metric", "measure", "name")
_CASES = ("case", "point", "cell", "arm")
_COUNTS = ("n", "samples", "rounds")
_MOST = 40
"""Figures of one record and unit that a page shows; a kernel report has hundreds."""
_DEEPEST = 12


def historical_figures(record: Record) -> Iterator[Figure]:
    """Yield the figures of a historical release."""
    if record.kind != KIND:
        return
    for item in items(record.body.get("figures")):
        one = table(item)
        unit = next((key.partition("_")[2] for key in sorted(one) if key.partition("_")[0] in ("value", "low")), None)
        if unit is None:
            continue
        ending = f"_{unit}" if unit else ""
        streams = clean(one.get("streams"))
        case = ", ".join(part for part in (clean(one.get("case")), _streams(streams)) if part)
        yield Figure(
            name=clean(one.get("name")),
            unit=unit,
            of=clean(record.subject),
            shape=clean(one.get("shape")),
            case=case,
            value=number(one.get(f"value{ending}")),
            low=number(one.get(f"low{ending}")),
            high=number(one.get(f"high{ending}")),
            n=None,
            measured=False,
            about=one.get("about") is True,
            source=clean(one.get("source")),
            against=_against(table(one.get("against")), ending),
            note=clean(one.get("note")),
        )


def measured_figures(file: str, record: Record) -> Iterator[Figure]:
    """Yield the figures with an interval that any other record holds."""
    yield from _measured(file, clean(record.subject), record.body, ("", ""), 0)


def groups(figures: Iterator[Figure]) -> tuple[Group, ...]:
    """Put figures of one name, unit and way of knowing together, in the order in which they come."""
    found: dict[tuple[str, str, bool], list[Figure]] = {}
    for figure in figures:
        found.setdefault((figure.name, figure.unit, figure.measured), []).append(figure)
    return tuple(
        Group(title=name, unit=unit_text(unit), figures=tuple(held[:_MOST]), more=max(0, len(held) - _MOST))
        for (name, unit, _), held in found.items()
    )


def _streams(text: str) -> str:
    return f"{text} stream{'' if text == '1' else 's'}" if text else ""


def _against(one: Mapping[str, Json], ending: str) -> str:
    value = number(one.get(f"value{ending}"))
    return "" if value is None else f"{clean(one.get('name'))} {digits(value)}"


def _measured(file: str, subject: str, value: Json, above: tuple[str, str], depth: int) -> Iterator[Figure]:
    """Walk down; ``above`` is the name and the case of the nearest table around that has either."""
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        here = _called(value, above)
        yield from _here(file, subject, value, here)
        for key in sorted(value):
            yield from _measured(file, subject, value[key], here if here[1] else (here[0] or clean(key), ""), depth + 1)
    else:
        for item in items(value):
            yield from _measured(file, subject, item, above, depth + 1)


def _called(one: Mapping[str, Json], above: tuple[str, str]) -> tuple[str, str]:
    name, case = _first(one, _NAMES), _case(one)
    if above[1]:  # a table within one that has a case: another program, another arm of it
        return above[0], ", ".join(part for part in (above[1], name, case) if part)
    return name or above[0], case


def _here(file: str, subject: str, one: Mapping[str, Json], called: tuple[str, str]) -> Iterator[Figure]:
    for key in sorted(one):
        unit = key.partition("_")[2]
        if not key.startswith("low_") or f"high_{unit}" not in one:
            continue
        low, high = number(one[key]), number(one[f"high_{unit}"])
        if low is None or high is None:
            continue
        yield Figure(
            name=called[0],
            unit=unit,
            of=subject,
            shape=_first(one, ("shape",)),
            case=called[1],
            value=_centre(one, unit),
            low=low,
            high=high,
            n=next((count for word in _COUNTS if (count := whole(one.get(word))) is not None), None),
            measured=True,
            about=False,
            source=file,
            against="",
            note=clean(one.get("interval")),
        )


def _centre(one: Mapping[str, Json], unit: str) -> Decimal | None:
    keys = (*(f"{word}_{unit}" for word in _CENTRES), unit)
    return next((found for key in keys if (found := number(one.get(key))) is not None), None)


def _case(one: Mapping[str, Json]) -> str:
    rows, streams = whole(one.get("rows")), whole(one.get("streams")) or whole(one.get("concurrency"))
    parts = [_first(one, _CASES)]
    if rows is not None:
        parts.append(f"{rows} row{'' if rows == 1 else 's'}")
    if streams is not None:
        parts.append(_streams(str(streams)))
    return ", ".join(part for part in parts if part)


def _first(one: Mapping[str, Json], words: tuple[str, ...]) -> str:
    return next((text for word in words if (text := clean(one.get(word)))), "")
