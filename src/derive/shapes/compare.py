# SPDX-License-Identifier: Apache-2.0
"""What differs between two sides: keys that came, went or changed, each with the nodes that it holds for.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from derive.shapes.model import (
    SECTIONS,
    Alone,
    Moved,
    Section,
    ShapeComparison,
    Side,
    Sides,
    Source,
    Told,
    Value,
    Values,
)


def compare_sides(before: Sides, after: Sides, titles: tuple[str, str], notes: Sequence[str] = ()) -> ShapeComparison:
    """Compare shapes of one name with one another, and those of other names where both are for one cabling."""
    alone: list[Alone] = []
    moved: list[Moved] = []
    for shape, old, new in _pairs(before, after):
        if old is None or new is None:
            alone.append(Alone(shape=shape, what="shape", side="after" if old is None else "before"))
            continue
        alone += _nodes_alone(shape, old, new)
        for section in SECTIONS:
            moved += _facts(shape, section, old, new)
            moved += _by_nodes(shape, section, old, new)
    return ShapeComparison(
        before=titles[0], after=titles[1], moved=tuple(moved), alone=tuple(alone), notes=tuple(notes)
    )


def _pairs(before: Sides, after: Sides) -> Iterator[tuple[str, Side | None, Side | None]]:
    """Yield what is compared with what, under the name that both have, or ``OLD -> NEW``; then what has no partner.

    Of several of one cabling the first go together.
    """
    left = {name: side for name, side in after.items() if name not in before}
    alone = []
    for name, old in before.items():
        if name in after:
            yield name, old, after[name]
            continue
        partner = next((other for other, new in left.items() if _cabling(old) == _cabling(new) is not None), None)
        if partner is None:
            alone.append(name)
        else:
            yield f"{name} -> {partner}", old, left.pop(partner)
    yield from ((name, before[name], None) for name in alone)
    yield from ((name, None, side) for name, side in left.items())


def _cabling(side: Side) -> str | None:
    value = side.facts.get("shape", {}).get("cabling")
    return None if value is None else value.text


def causes(moved: Moved) -> Iterator[tuple[Source | None, Source | None]]:
    """Yield what caused a difference: those places of both sides that do not say the same.

    Of a value that is made of several, the parts are paired in order; what a part has alike caused nothing.
    """
    old = () if moved.before is None else moved.before.sources
    new = () if moved.after is None else moved.after.sources
    pairs = [
        (old[at] if at < len(old) else None, new[at] if at < len(new) else None)
        for at in range(max(len(old), len(new)))
    ]
    yield from [pair for pair in pairs if not _alike(*pair)] or pairs


def _alike(one: Source | None, other: Source | None) -> bool:
    if one is None or other is None:
        return False
    return (one.said, one.rule, one.read) == (other.said, other.rule, other.read)


def _nodes_alone(shape: str, old: Side, new: Side) -> Iterator[Alone]:
    ranks = ({one.rank for one in side.told} for side in (old, new))
    before, after = ranks
    for side, only, ranked in (("before", before - after, old), ("after", after - before, new)):
        for one in ranked.told:
            if one.rank in only:
                what = f"rank {one.rank}" if one.node.startswith("${") else f"rank {one.rank} ({one.node})"
                yield Alone(shape=shape, what=what, side="before" if side == "before" else "after")


def _facts(shape: str, section: Section, old: Side, new: Side) -> Iterator[Moved]:
    before, after = _whole(old.facts.get(section, {}), new.facts.get(section, {}))
    for key in dict.fromkeys((*before, *after)):
        if _differ(before.get(key), after.get(key)):
            yield Moved(shape=shape, section=section, key=key, before=before.get(key), after=after.get(key))


def _whole(before: Values, after: Values) -> tuple[Values, Values]:
    """Take an element that only one side has, such as a cable, as one thing and not key by key."""
    heads = [{key.partition(".")[0] for key in values} for values in (before, after)]
    return _joined(before, heads[1]), _joined(after, heads[0])


def _joined(values: Values, known: set[str]) -> Values:
    found: dict[str, Value] = {}
    for key, value in values.items():
        head, dot, _ = key.partition(".")
        if not dot or head in known or not head.endswith("]"):
            found[key] = value
        elif head not in found:
            sources = tuple(replace(one, key=head) for one in value.sources)
            found[head] = replace(value, sources=sources)
    return found


def _by_nodes(shape: str, section: Section, old: Side, new: Side) -> Iterator[Moved]:
    """Yield what nodes of one rank are told otherwise; what all of them are told alike is one row."""
    others = {one.rank: one for one in new.told}
    pairs = [(one, others[one.rank]) for one in old.told if one.rank in others]
    keys = dict.fromkeys(key for pair in pairs for one in pair for key in one.sections.get(section, {}))
    for key in keys:
        rows: dict[tuple[str | None, str | None], tuple[Value | None, Value | None, list[int]]] = {}
        for one, other in pairs:
            before, after = _at(one, section, key), _at(other, section, key)
            if _differ(before, after):
                texts = (before and before.text, after and after.text)
                known = texts if section != "files" else (before and "", after and "")
                rows.setdefault(known, (before, after, []))[2].append(one.rank)  # type: ignore[arg-type]
        for before, after, ranks in rows.values():
            everywhere = len(ranks) == len(pairs)
            nodes = () if everywhere else tuple(ranks)
            yield Moved(shape=shape, section=section, key=key, before=before, after=after, nodes=nodes)


def _at(told: Told, section: Section, key: str) -> Value | None:
    return told.sections.get(section, {}).get(key)


def _differ(before: Value | None, after: Value | None) -> bool:
    return (before and before.text) != (after and after.text)
