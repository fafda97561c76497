# SPDX-License-Identifier: Apache-2.0
"""Historical releases compared: no bit of theirs can be derived, but what was written of them can be held together.

Core: no IO.

Two identities agree where one is the beginning of the other: some are known by their first digits alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from derive.canonical import Json
from derive.records.model import Record
from derive.report.values import clean, digits, items, number, table, unit_text, worded

Part: TypeAlias = Literal["identity", "shape", "figure"]
Relation: TypeAlias = Literal["same", "differs", "only first", "only second"]
RELATIONS: tuple[Relation, ...] = ("same", "differs", "only first", "only second")
Stated: TypeAlias = Mapping[tuple[Part, str], str]

KIND = "historical"
_FEWEST = 7
"""Fewer digits of a hash say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One thing that is known of one release or of both."""

    part: Part
    what: str
    first: str | None
    second: str | None
    relation: Relation


def compare_historical(first: Record, second: Record) -> tuple[Compared, ...]:
    """Compare what two records state, of which one at least is of a historical release: sorted by part and name."""
    return compare(stated(first), stated(second))


def compare(first: Stated, second: Stated) -> tuple[Compared, ...]:
    """Compare two sets of things stated."""
    order: tuple[Part, ...] = ("identity", "shape", "figure")
    keys = sorted(first.keys() | second.keys(), key=lambda key: (order.index(key[0]), key[1]))
    return tuple(_compared(part, what, first.get((part, what)), second.get((part, what))) for part, what in keys)


def words(first: str, second: str, rows: tuple[Compared, ...], historical: tuple[str, ...]) -> list[str]:
    """Say what such a comparison is worth: which releases cannot be derived, and of how much both say something."""
    counts = {relation: sum(row.relation == relation for row in rows) for relation in RELATIONS}
    both = counts["same"] + counts["differs"]
    alone = f"{counts['only first']} of {first} alone, {counts['only second']} of {second} alone"
    return [
        f"{' and '.join(historical)} cannot be derived: compared is what was written down, and no byte of an image",
        f"known of both: {both}, of which {counts['differs']} differ; {alone}",
    ]


def stated(record: Record) -> dict[tuple[Part, str], str]:
    """Return everything that a record states of its release."""
    body = record.body
    found: dict[tuple[Part, str], str] = {}
    found.update((("identity", what), value) for what, value in _identities(table(body.get("identities"))))
    if backend := clean(body.get("kernel_backend")):
        found["identity", "kernel backend"] = backend
    for shape, values in table(body.get("shapes")).items():
        found.update((("shape", f"{clean(shape)}: {what}"), value) for what, value in _shape(table(values), ""))
    found.update((("figure", what), value) for what, value in _figures(body.get("figures")))
    return found


def stated_by_documents(release: Mapping[str, Json], facts: Mapping[str, Json]) -> dict[tuple[Part, str], str]:
    """Return what the documents of a release that can be derived state, under the names that historical ones use."""
    found: dict[tuple[Part, str], str] = {}
    for item in items(facts.get("upstreams")):
        upstream = table(item)
        if commit := clean(upstream.get("commit")):
            found["identity", f"{clean(upstream.get('name'))} revision"] = commit
    for key in ("repository", "revision"):
        if text := clean(table(release.get("model")).get(key)):
            found["identity", f"model {key}"] = text
    for platform, image in table(release.get("images")).items():
        found["identity", f"image digest for {clean(platform)}"] = worded(table(image).get("digest"))
    for name, shape in table(release.get("shapes")).items():
        found["shape", f"{clean(name)}: bundle"] = worded(table(shape).get("bundle"))
    return found


def cells(rows: tuple[Compared, ...], *, everything: bool) -> list[tuple[str, str, str, str]]:
    """Return rows as cells: what, of the first, of the second, how they relate; of both, or ``everything``."""
    shown = rows if everything else [row for row in rows if row.relation in ("same", "differs")]
    return [(f"{row.part}: {row.what}", row.first or "-", row.second or "-", row.relation) for row in shown]


def _compared(part: Part, what: str, first: str | None, second: str | None) -> Compared:
    relation: Relation
    if first is None or second is None:
        relation = "only second" if first is None else "only first"
    else:
        relation = "same" if agree(first, second) else "differs"
    return Compared(part=part, what=what, first=first, second=second, relation=relation)


def agree(first: str, second: str) -> bool:
    """Say whether two things stated are the same, or one is the beginning of the other, and says so."""
    return first == second or _begins(first, second) or _begins(second, first)


def _begins(short: str, long: str) -> bool:
    return short.endswith("...") and len(short) >= _FEWEST + 3 and long.startswith(short.removesuffix("..."))


def _identities(identities: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    for name, source in table(identities.get("sources")).items():
        for key, value in table(source).items():
            if value is not None:
                yield f"{clean(name)} {clean(key.replace('_', ' '))}", worded(value)
    for image in items(identities.get("images")):
        one = table(image)
        shape = clean(one.get("shape"))
        for key in ("id", "tag"):
            if one.get(key) is not None:
                yield f"image {key}{f' of {shape}' if shape else ''}", worded(one[key])
    for name in ("base_image", "model"):
        for key, value in table(identities.get(name)).items():
            yield f"{name.replace('_', ' ')} {clean(key)}", worded(value)


def _shape(values: Mapping[str, Json], above: str) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if value is None or key in ("source", "note"):
            continue
        name = f"{above}{clean(key)}"
        if isinstance(value, Mapping) and set(value) != {"decimal"}:
            yield from _shape(value, f"{name}.")
        else:
            yield name, worded(value)


def _figures(figures: Json) -> Iterator[tuple[str, str]]:
    for item in items(figures):
        one = table(item)
        keys = [key for key in one if key.partition("_")[0] in ("value", "low")]
        if not keys:
            continue
        unit = keys[0].partition("_")[2]
        about = "about " if one.get("about") is True else ""
        yield figure_name(one), f"{about}{figure_text(one, unit)} {unit_text(unit)}".rstrip()


def figure_name(one: Mapping[str, Json]) -> str:
    """Write what a figure is of: its name, case, shape and streams."""
    streams = clean(one.get("streams"))
    said = f"{streams} stream{'' if streams == '1' else 's'}" if streams else ""
    parts = (clean(one.get("name")), clean(one.get("case")), clean(one.get("shape")), said)
    return ", ".join(part for part in parts if part)


def figure_text(one: Mapping[str, Json], unit: str) -> str:
    """Write the number of a figure, or its bounds."""
    ending = f"_{unit}" if unit else ""
    value, low, high = (number(one.get(f"{word}{ending}")) for word in ("value", "low", "high"))
    if value is not None:
        return digits(value)
    return f"{digits(low)} to {digits(high)}" if low is not None and high is not None else ""
