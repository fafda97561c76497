# SPDX-License-Identifier: Apache-2.0
"""Differences, causes and paths in words: one line says what, further lines show it.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import assert_never

from derive.canonical import Json, encode
from derive.why.causes import Cause
from derive.why.differences import (
    Absent,
    Artifact,
    ArtifactMoved,
    BuilderMoved,
    Difference,
    Forgotten,
    HunkMoved,
    InputMoved,
    OperationMoved,
    OrderMoved,
    PatchAdded,
    PatchMoved,
    PatchRemoved,
    TextMoved,
    Value,
    ValueMoved,
)
from derive.why.path import Path
from derive.why.render import Line, Span, Style, line, line_diff, printable
from derive.words import count_text

_LONGEST = 100
_PLAIN_FACTS = ("name", "version", "architecture", "suite", "file", "locator", "size", "sha256")


def time_text(when_s: int) -> str:
    """Write a time as a date, in UTC."""
    return datetime.fromtimestamp(when_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def headline(difference: Difference) -> str:  # noqa: PLR0911 - one for each alternative
    """Say in one line what differs."""
    match difference:
        case BuilderMoved(before, after):
            return f"builder {before} -> {after}"
        case ValueMoved(place, Absent(), after):
            return f"{place} = {value_text(after)} added"
        case ValueMoved(place, before, Absent()):
            return f"{place} = {value_text(before)} removed"
        case ValueMoved(place, before, after):
            return f"{place}: {value_text(before)} -> {value_text(after)}"
        case TextMoved(place, before, after):
            return f"{place}{_came(before, after)}"
        case PatchAdded() | PatchRemoved() | PatchMoved() | HunkMoved() | OperationMoved():
            from derive.why.patch_words import patch_headline

            return patch_headline(difference)
        case ArtifactMoved():
            return _artifact(difference)
        case InputMoved(role, None, after):
            return f"input {role} added: {after}"
        case InputMoved(role, before, None):
            return f"input {role} removed: {before}"
        case InputMoved(role, before, after):
            return f"input {role}: {before} -> {after}"
        case OrderMoved(before, after):
            return f"order: {' '.join(before)} -> {' '.join(after)}"
        case Forgotten(derivation):
            return f"drv:{derivation.short} is not known to this store: what moved in it or below it cannot be said"
        case _:
            assert_never(difference)


def details(difference: Difference) -> Iterator[Line]:
    """Show what differs, in lines, where a headline does not say all."""
    match difference:
        case TextMoved(_, before, after):
            yield from line_diff(before, after)
        case HunkMoved() | OperationMoved():
            from derive.why.patch_words import patch_details

            yield from patch_details(difference)
        case ArtifactMoved(Artifact(facts=old), Artifact(facts=new), fields) if old is not None and new is not None:
            for key in sorted(fields, key=lambda name: (name not in _PLAIN_FACTS, name)):
                if key not in ("version", "file") or "version" not in fields:
                    yield line(f"{key}: {value_text(old.get(key))} -> {value_text(new.get(key))}", "dim")
        case _:
            return


def cause_lines(cause: Cause) -> Iterator[Line]:
    """Show one root cause, and the way by which it reached what was asked about."""
    first = [Span(printable(headline(cause.difference)), "strong")]
    if cause.steps > 1:
        first.append(Span(f"  ({count_text(cause.steps, 'step')})", "dim"))
    yield tuple(first)
    yield from (indented(one) for one in details(cause.difference))
    yield line(f"  in {' < '.join(reversed(cause.path))}", "dim")


def path_lines(path: Path) -> Iterator[Line]:
    """Show a path from what depends, at the top, to what it depends on."""
    role = ""
    for depth, link in enumerate(path.links):
        node = link.node
        used = f"{role}: " if role else ""
        marks: Style = "strong" if depth in (0, len(path.links) - 1) else "plain"
        yield (
            Span("  " * depth + printable(used), "dim"),
            Span(printable(node.title), marks),
            Span(f"  {node.builder}, drv:{node.id.short}", "dim"),
        )
        role = link.role


def indented(one: Line, by: int = 2) -> Line:
    """Return a line further to the right."""
    return (Span(" " * by), *one)


def value_text(value: Value) -> str:
    """Write a value as it stands in documents, not too long."""
    if isinstance(value, Absent):
        return "nothing"
    text = encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def artifact_text(artifact: Artifact) -> str:
    """Name an artifact: its name and version, or its hash."""
    return f"{artifact.name} {artifact.version}".strip()


def _artifact(moved: ArtifactMoved) -> str:
    before, after = moved.before, moved.after
    if before is None or after is None:
        one = after if after is not None else before
        assert one is not None
        return f"{artifact_text(one)}{_kind(one.facts)} {'added' if before is None else 'removed'}"
    if before.name != after.name:
        return f"{artifact_text(before)} -> {artifact_text(after)}"
    if before.version != after.version:
        return f"{after.name} {before.version} -> {after.version}{_kind(after.facts)}"
    return f"{artifact_text(after)}{_kind(after.facts)}: {', '.join(moved.fields)} moved in the lock"


def _kind(facts: Mapping[str, Json] | None) -> str:
    architecture = None if facts is None else facts.get("architecture")
    return f" ({architecture})" if isinstance(architecture, str) else ""


def _came(before: object, after: object) -> str:
    return " added" if before is None else " removed" if after is None else ""
