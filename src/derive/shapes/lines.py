# SPDX-License-Identifier: Apache-2.0
"""A comparison of shapes as lines for people, and as the body of a record.

Core: no IO.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from derive.canonical import Json
from derive.shapes.compare import causes
from derive.shapes.model import SECTIONS, Alone, Moved, ShapeComparison, Source, Value
from derive.why.render import Line, Span, line, printable

_LONG = 160


def shape_lines(found: ShapeComparison, *, why: bool, everything: bool = False) -> Iterator[Line]:
    """Yield what moved; with ``why`` what caused each; with ``everything`` long values whole."""
    yield (Span(printable(f"- {found.before}"), "removed"),)
    yield (Span(printable(f"+ {found.after}"), "added"),)
    for shape in dict.fromkeys((*(one.shape for one in found.alone), *(one.shape for one in found.moved))):
        yield from _shape(found, shape, why=why, everything=everything)
    if found.same:
        yield line("nothing moved")
    for note in found.notes:
        yield ()
        yield line(note, "dim")


def moved_lines(found: ShapeComparison, *, why: bool, everything: bool = False) -> Iterator[Line]:
    """Yield what moved in one shape of both sides, without its titles."""
    yield from map(_alone, found.alone)
    for one in found.moved:
        if one.section != "files":
            yield _row(one, "", everything=everything)
            if why:
                yield from _causes(one)


def _shape(found: ShapeComparison, shape: str, *, why: bool, everything: bool) -> Iterator[Line]:
    if shape:
        yield ()
        yield line(shape, "strong")
    yield from (_alone(one) for one in found.alone if one.shape == shape)
    for section in SECTIONS:
        rows = [one for one in found.moved if (one.shape, one.section) == (shape, section)]
        if rows:
            yield ()
            yield line(f"{section}  {_where(rows)}".rstrip(), "strong")
        for one in rows:
            yield _row(one, _where(rows), everything=everything)
            if why and section != "files":
                yield from _causes(one)
    if why and any(one.section == "files" for one in found.moved):
        yield line("  what the rows above tell a node, its files say in every form")


def _alone(one: Alone) -> Line:
    style, sign = ("removed", "-") if one.side == "before" else ("added", "+")
    return (Span(printable(f"{sign} {one.what}"), "removed" if style == "removed" else "added"),)


def _where(rows: list[Moved]) -> str:
    return "every node" if rows[0].section not in ("shape", "site") and not any(row.nodes for row in rows) else ""


def _row(one: Moved, said: str, *, everything: bool) -> Line:
    key = one.key if not one.nodes else f"{one.key}, {_ranks(one.nodes)}"
    if not said and not one.nodes and one.section not in ("shape", "site"):
        key += ", every node"
    if one.before is None:
        return (Span(printable(f"+ {key}  {_text(one, one.after, everything)}"), "added"),)
    if one.after is None:
        return (Span(printable(f"- {key}  {_text(one, one.before, everything)}"), "removed"),)
    return line(f"~ {key}  {_text(one, one.before, everything)} -> {_text(one, one.after, everything)}")


def _ranks(nodes: tuple[int, ...]) -> str:
    return f"rank{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes))}"


def _text(one: Moved, value: Value | None, everything: bool) -> str:
    if value is None:
        return ""
    if one.section == "files":
        return value.text[7:19]
    text = value.text if value.text and value.text.isprintable() and " " not in value.text else json.dumps(value.text)
    return text if everything or len(text) <= _LONG else f"{text[:_LONG]}... ({len(text)} characters)"


def _causes(one: Moved) -> Iterator[Line]:
    told: set[str] = set()
    for before, after in causes(one):
        text = _cause(one, before, after)
        if text not in told:
            told.add(text)
            yield line(f"    {text}", "dim")
    if not told:
        yield line("    not known: a rendered folder says what, not why", "dim")


def _cause(moved: Moved, before: Source | None, after: Source | None) -> str:
    """Say where two values come from, without what the row says already."""
    if before is None or after is None:
        one = before or after
        assert one is not None
        return _whole(one, moved.after if before is None else moved.before)
    if before.rule is not None and before.rule == after.rule:
        inputs = "; ".join(_inputs(before, after))
        return f"rule {before.rule}: {inputs}" if inputs else f"rule {before.rule}, {_places(before, after)}"
    if before.rule is not None or after.rule is not None:
        return f"{_whole(before, moved.before)} -> {_whole(after, moved.after)}"
    said = "" if _is_text(before, moved.before) and _is_text(after, moved.after) else f": {before.said} -> {after.said}"
    return f"{_places(before, after)}{said}"


def _places(before: Source, after: Source) -> str:
    if before.place == after.place:
        return before.place
    return f"{before.place} -> {after.key if before.file == after.file and after.key else after.place}"


def _inputs(before: Source, after: Source) -> Iterator[str]:
    """Yield what two applications of one rule read otherwise."""
    old, new = (dict(text.partition(" = ")[::2] for text in one.read) for one in (before, after))
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key):
            yield f"{key} = {old.get(key, 'nothing')} -> {new.get(key, 'nothing')}"


def _whole(one: Source, value: Value | None) -> str:
    if one.rule is not None:
        return f"rule {one.rule}: {'; '.join(one.read) or one.place}"
    return one.place if not one.said or _is_text(one, value) else f"{one.place} = {one.said}"


def _is_text(one: Source, value: Value | None) -> bool:
    return value is not None and one.said == value.text


def shape_body(found: ShapeComparison, *, why: bool) -> dict[str, Json]:
    """Return a comparison as the body of a record."""
    return {
        "before": found.before,
        "after": found.after,
        "same": found.same,
        "alone": [{"shape": one.shape or None, "what": one.what, "side": one.side} for one in found.alone],
        "moved": [_document(one, why=why) for one in found.moved],
        "notes": list(found.notes),
    }


def _document(one: Moved, *, why: bool) -> dict[str, Json]:
    document: dict[str, Json] = {
        "shape": one.shape or None,
        "section": one.section,
        "key": one.key,
        "nodes": list(one.nodes) or None,
        "before": None if one.before is None else one.before.text,
        "after": None if one.after is None else one.after.text,
    }
    if why:
        document["causes"] = [{"before": _source(old), "after": _source(new)} for old, new in causes(one)]
    return document


def _source(one: Source | None) -> Json:
    return (
        None
        if one is None
        else {"file": one.file, "key": one.key, "says": one.said, "rule": one.rule, "read": list(one.read)}
    )
