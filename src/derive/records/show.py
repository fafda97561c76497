# SPDX-License-Identifier: Apache-2.0
"""Records as lines for people: each key path with its value.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from derive.canonical import Json
from derive.records.chain import Entry
from derive.words import duration_text, one_line, size_text


def lines_of(entry: Entry) -> list[tuple[str, str]]:
    """Return a record as rows of two cells, its file first."""
    record = entry.record
    head = [("record", entry.where), ("digest", str(entry.digest)), ("kind", record.kind), ("about", record.subject)]
    return [*head, *_rows(record.body, "")]


def _rows(value: Json, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and set(value) == {"decimal"}:
        yield path, str(value["decimal"])
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _rows(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _rows(item, f"{path}[{index}]")
    elif isinstance(value, str | int):
        yield path, _text(path, value)


def _text(path: str, value: str | int | bool) -> str:
    """Write a value by the unit that its key ends in."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return one_line(value)
    if path.endswith("_age_s"):
        return duration_text(value * 1_000_000_000)
    if path.endswith("_s"):
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if path.endswith("_ns"):
        return duration_text(value)
    return size_text(value) if path.endswith("_bytes") else str(value)
