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

_TIMES = frozenset(
    (
        "made_s",
        "promoted_s",
        "retired_s",
        "observed_s",
        "expires_s",
        "checked_s",
        "audited_s",
        "started_s",
        "gathered_s",
    )
)
"""The keys that say when: seconds since 1970. Any other number of seconds is a length, or a part of a rate."""

_LENGTHS = frozenset(("facts_age_s", "duration_ns"))


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
    key = path.rpartition(".")[2]
    if key in _TIMES:
        return _moment(value)
    if key in _LENGTHS:
        return duration_text(value if key.endswith("_ns") else value * 1_000_000_000)
    return size_text(value) if key.endswith("_bytes") else str(value)


def _moment(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return str(seconds)
