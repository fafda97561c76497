# SPDX-License-Identifier: Apache-2.0
"""What moved from one release to the next, out of their documents; of historical ones, what was written of them.

Core: no IO. Documents are read as tables: one that holds more than was foreseen is shown for what is known of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Json
from derive.records.model import Record
from derive.report.history import Part, agree, stated
from derive.report.model import Change, Changes, Release
from derive.report.recipes import Texts, keys_moved
from derive.report.values import clean, items, short, table, whole, worded
from derive.words import count_text, size_text

_MOST = 30
"""Rows of one step that a page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Documented:
    """A release's record with its two documents, empty where there are none."""

    record: Record
    release: Mapping[str, Json]
    facts: Mapping[str, Json]


def steps(line: tuple[Release, ...], documented: Iterable[Documented], texts: Texts) -> tuple[Changes, ...]:
    """Say what moved from each release of a line to the next, the newest first; ``texts`` are those of recipes.

    Of historical releases each thing is held against the last one of the line that states it, which is named where it
    is not the one before.
    """
    known = {clean(one.record.subject): one for one in documented}
    last: dict[str, dict[tuple[Part, str], tuple[str, str]]] = {}
    found: list[Changes] = []
    for release in line:
        second = known[release.name]
        first = None if release.previous is None else known.get(release.previous)
        if first is not None and first.release and second.release:
            rows = tuple(_rows(first, second, texts))
        else:
            held = last.setdefault(release.lane, {})
            rows = tuple(_told(held, release, second.record))
        found.append(_changes(release, rows, second.record))
    return tuple(reversed(found))


def _changes(release: Release, rows: tuple[Change, ...], record: Record) -> Changes:
    told = (clean(table(one).get("text")) for one in items(record.body.get("changes")))
    return Changes(
        first=release.previous,
        second=release.name,
        rows=rows[:_MOST],
        told=tuple(text for text in told if text),
        more=max(0, len(rows) - _MOST),
    )


def _told(held: dict[tuple[Part, str], tuple[str, str]], release: Release, record: Record) -> Iterator[Change]:
    """Yield what a record states otherwise than the last that stated it, and remember what it states."""
    for key, value in sorted(stated(record).items()):
        part, what = key
        before = held.get(key)
        held[key] = (value, release.name)
        if before is not None and part != "figure" and not agree(before[0], value):
            whose = "" if before[1] == release.previous else f" ({before[1]})"
            yield Change(part=part, what=what, before=f"{short(before[0])}{whose}", after=short(value))


def _rows(first: Documented, second: Documented, texts: Texts) -> Iterator[Change]:
    a, b = first.release, second.release
    yield from _recipes(first, second, texts)
    yield from _images(first, second)
    yield from _upstreams(first.facts, second.facts)
    for part in ("lock", "content"):
        yield from _table_moved(part, table(a.get(part)), table(b.get(part)))
    yield from _table_moved("model", table(a.get("model")), table(b.get("model")))
    yield from _table_moved("settings", table(a.get("settings")), table(b.get("settings")))
    yield from _shapes(table(a.get("shapes")), table(b.get("shapes")))
    yield from _engine(table(a.get("engine")), table(b.get("engine")))


def _recipes(first: Documented, second: Documented, texts: Texts) -> Iterator[Change]:
    """Yield each recipe of which something moved, the release's own among them, and which keys of it did."""
    sides = []
    for one in (first.release, second.release):
        own = table(one.get("recipe"))
        sides.append({**table(one.get("recipes")), clean(own.get("name")): own.get("digest")})
    for change in _table_moved("recipe", *sides):
        yield change
        yield from keys_moved(change.what, first.record, second.record, texts)


def _table_moved(part: str, before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[Change]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            sides = [_brief(worded(side[name])) if name in side else None for side in (before, after)]
            yield Change(part=part, what=clean(name), before=sides[0], after=sides[1])


def _images(first: Documented, second: Documented) -> Iterator[Change]:
    before, after = (table(one.release.get("images")) for one in (first, second))
    for platform in sorted(before.keys() | after.keys()):
        one, other = (table(side.get(platform)).get("digest") for side in (before, after))
        if one != other:
            yield Change(part="image", what=clean(platform), before=_short(one), after=_short(other))
            yield from _layers(platform, first.facts, second.facts)


def _layers(platform: str, first: Mapping[str, Json], second: Mapping[str, Json]) -> Iterator[Change]:
    sides = []
    for facts in (first, second):
        layers = items(table(table(facts.get("images")).get(platform)).get("layers"))
        sides.append({worded(table(one).get("digest")): whole(table(one).get("size_bytes")) or 0 for one in layers})
    before, after = sides
    if not before or not after:
        return
    new = sum(digest not in before for digest in after)
    yield Change(
        part="image",
        what=f"{clean(platform)}: layers, {new} of them new",
        before=f"{count_text(len(before), 'layer')}, {size_text(sum(before.values()))}",
        after=f"{count_text(len(after), 'layer')}, {size_text(sum(after.values()))}",
    )


def _upstreams(first: Mapping[str, Json], second: Mapping[str, Json]) -> Iterator[Change]:
    sides = [
        {clean(table(one).get("name")): table(one) for one in items(side.get("upstreams"))} for side in (first, second)
    ]
    before, after = sides
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name, {}), after.get(name, {})
        if one.get("commit") != other.get("commit"):
            sides_text = (_short(one.get("commit")), _short(other.get("commit")))
            yield Change(part="upstream", what=f"{name} commit", before=sides_text[0], after=sides_text[1])
        if one.get("head") != other.get("head") or one.get("series") != other.get("series"):
            was, now = (frozenset(map(clean, items(side.get("series")))) for side in (one, other))
            moved = "; ".join(
                f"{word} {', '.join(sorted(names))}"
                for word, names in (("without", was - now), ("with", now - was))
                if names
            )
            yield Change(
                part="upstream",
                what=f"{name} series" + (f": {moved}" if moved else ""),
                before=count_text(len(was), "patch", "patches") + _parenthesis(one.get("head")),
                after=count_text(len(now), "patch", "patches") + _parenthesis(other.get("head")),
            )


def _shapes(before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[Change]:
    for name in sorted(before.keys() | after.keys()):
        one, other = table(before.get(name)), table(after.get(name))
        if one != other:
            yield Change(part="shape", what=clean(name), before=_shape(one), after=_shape(other))


def _shape(shape: Mapping[str, Json]) -> str | None:
    if not shape:
        return None
    needs = ", ".join(clean(one) for one in items(shape.get("needs")))
    return f"{_short(shape.get('bundle')) or ''}{f', needs {needs}' if shape.get('deployable') is False else ''}"


def _engine(before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[Change]:
    for key in ("version", "digest"):
        if before.get(key) != after.get(key):
            yield Change(part="engine", what=key, before=_short(before.get(key)), after=_short(after.get(key)))


def _parenthesis(digest: Json) -> str:
    text = _short(digest)
    return f" ({text})" if text else ""


def _short(value: Json) -> str | None:
    return short(value) or None if isinstance(value, str) else None


def _brief(text: str | None) -> str | None:
    return None if text is None else short(text)
