# SPDX-License-Identifier: Apache-2.0
"""What a run on a GPU reports, read strictly, and as a record: docs/formats/kernel-report.md.

Core: no IO.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derive.canonical import CanonicalError, Json, decode
from derive.errors import InputErrors, Problem
from derive.records.model import record

FORMAT = "kernel-run/1"
KIND = "kernel-report"
PARTS = ("boot", "lacking", "correct", "time", "sanitize", "profile")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another program for the same computation; ``time_ns`` is None where it could not run."""

    name: str
    time_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One case at one count of rows. Times are of one launch, in nanoseconds; ``time_ns`` is None where it failed."""

    kernel: str
    case: str
    rows: int
    units: tuple[str, ...]
    time_ns: int | None
    low_ns: int | None
    high_ns: int | None
    floor_ns: int
    moved_bytes: int
    target_ns: int | None
    peers: tuple[Peer, ...]

    @property
    def met(self) -> bool | None:
        """Whether the target was reached; None without one."""
        return None if self.target_ns is None else self.time_ns is not None and self.time_ns <= self.target_ns

    @property
    def label(self) -> str:
        """The case and its rows, for people."""
        return f"{self.case}, {self.rows} row{'s' if self.rows != 1 else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A checked report. ``document`` is all of it, as the run wrote it."""

    document: Mapping[str, Json]
    card: str | None
    parts: Mapping[str, bool]
    timed: tuple[Timed, ...]
    read_bytes_per_s: int | None
    empty_launch_ns: int | None

    @property
    def is_well(self) -> bool:
        """Whether every part of the run was well."""
        return all(self.parts.values())

    @property
    def card_slug(self) -> str:
        """The card's name, for a file's name."""
        return re.sub(r"[^a-z0-9]+", "-", (self.card or "no-gpu").lower()).strip("-")


def parse_report(data: bytes, where: str) -> Report:
    """Read a report.

    Raises:
        InputErrors: everything that is wrong with it.
    """
    try:
        document = decode(data)
    except CanonicalError as error:
        raise InputErrors.one(f"not a report: {error}", where=where) from error
    if not isinstance(document, Mapping) or document.get("derive") != FORMAT:
        got = document.get("derive") if isinstance(document, Mapping) else type(document).__name__
        detail = (f"expected  {FORMAT}", f"got       {got}")
        raise InputErrors.one("not the report of a run of kernels", where=where, detail=detail)
    reader = _Reader(where)
    report = _report(reader, document)
    if reader.problems:
        raise InputErrors(reader.problems)
    return report


def record_of(report: Report) -> dict[str, Json]:
    """Return the record of a run: its subject is the card."""
    return record(KIND, report.card or "no GPU", {"run": report.document})


def summary(report: Report) -> tuple[str, ...]:
    """Return what a report says, a line each."""
    lines = [f"{name:9} {'well' if well else 'NOT WELL'}" for name, well in report.parts.items()]
    lines += [f"{one.kernel} {one.label}: {_took(one)}" for one in report.timed]
    return tuple(lines)


def _took(one: Timed) -> str:
    if one.time_ns is None:
        return "failed"
    words = [f"{us(one.time_ns)} us", f"{one.time_ns / one.floor_ns:.2f} x the floor"]
    if one.target_ns is not None:
        words.append(f"target {us(one.target_ns)} us {'met' if one.met else 'MISSED'}")
    words += [f"{peer.name} {us(peer.time_ns)} us" for peer in one.peers if peer.time_ns is not None]
    return ", ".join(words)


def us(time_ns: int) -> str:
    """Write nanoseconds in microseconds, with as many digits as tell something."""
    return f"{time_ns / 1000:.2f}" if time_ns < 10_000 else f"{time_ns / 1000:.1f}"


class _Reader:
    """Takes values out of a document and gathers what is wrong with them."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.problems: list[Problem] = []

    def wrong(self, path: str, message: str) -> None:
        self.problems.append(Problem(where=f"{self.where}: {path}", message=message))

    def table(self, value: Json, path: str) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        self.wrong(path, "not a table")
        return {}

    def rows(self, value: Json, path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            self.wrong(path, "not a list")
            return
        for index, item in enumerate(value):
            yield self.table(item, f"{path}[{index}]"), f"{path}[{index}]"

    def text(self, table: Mapping[str, Any], key: str, path: str) -> str:
        value = table.get(key)
        if isinstance(value, str) and value:
            return value
        self.wrong(f"{path}.{key}", "not a text")
        return ""

    def count(self, table: Mapping[str, Any], key: str, path: str, *, least: int = 0) -> int:
        value = self.some(table, key, path, least=least)
        if value is None and table.get(key) is None:
            self.wrong(f"{path}.{key}", "not there")
        return value or least

    def some(self, table: Mapping[str, Any], key: str, path: str, *, least: int = 0) -> int | None:
        value = table.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.wrong(f"{path}.{key}", f"not a whole number of {least} or more: {value!r}")
            return None
        return value

    def flag(self, table: Mapping[str, Any], key: str, path: str) -> bool:
        value = table.get(key)
        if not isinstance(value, bool):
            self.wrong(f"{path}.{key}", "not true or false")
        return value is True


def _report(reader: _Reader, document: Mapping[str, Any]) -> Report:
    machine = reader.table(document.get("machine"), "machine")
    card = machine.get("card")
    about = reader.table(card, "machine.card") if card is not None else None
    bundle = reader.table(document.get("bundle"), "bundle")
    for unit, path in reader.rows(bundle.get("units"), "bundle.units"):
        for key in ("unit", "derivation"):
            reader.text(unit, key, path)
    parts = {}
    for name, value in reader.table(document.get("parts"), "parts").items():
        parts[name] = reader.flag(reader.table(value, f"parts.{name}"), "ok", f"parts.{name}")
        found = reader.table(document.get(name), name)
        if found.get("ok", True) is not parts[name]:
            reader.wrong(f"parts.{name}.ok", f"does not say the same as {name}.ok")
    times = document.get("time")
    table = reader.table(times, "time") if times is not None else {}
    cases = table.get("cases")
    return Report(
        document=document,
        card=None if about is None else reader.text(about, "name", "machine.card"),
        parts=parts,
        timed=tuple(_timed(reader, row, path) for row, path in reader.rows(cases, "time.cases")) if cases else (),
        read_bytes_per_s=reader.some(table, "read_bytes_per_s", "time", least=1),
        empty_launch_ns=reader.some(table, "empty_launch_ns", "time"),
    )


def _timed(reader: _Reader, row: Mapping[str, Any], path: str) -> Timed:
    peers = tuple(
        Peer(name=reader.text(peer, "name", place), time_ns=reader.some(peer, "time_ns", place, least=1))
        for peer, place in reader.rows(row.get("peers", []), f"{path}.peers")
    )
    one = Timed(
        kernel=reader.text(row, "kernel", path),
        case=reader.text(row, "case", path),
        rows=reader.count(row, "rows", path, least=1),
        units=tuple(str(unit) for unit in row.get("units", ())),
        time_ns=reader.some(row, "time_ns", path, least=1),
        low_ns=reader.some(row, "low_ns", path, least=1),
        high_ns=reader.some(row, "high_ns", path, least=1),
        floor_ns=reader.count(row, "floor_ns", path, least=1),
        moved_bytes=reader.count(row, "moved_bytes", path),
        target_ns=reader.some(row, "target_ns", path, least=1),
        peers=peers,
    )
    if row.get("met") is not one.met:
        reader.wrong(f"{path}.met", f"is {row.get('met')}, and time and target say {one.met}")
    return one
