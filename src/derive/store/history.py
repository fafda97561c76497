# SPDX-License-Identifier: Apache-2.0
"""What was run and when: runs with what was expected of them, their steps, and where artifacts came from.

Edge: the store's database. Nothing here decides a byte; rows are added, and never changed but to end a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from derive.canonical import Digest
from derive.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a plan. ``target`` is a derivation id; ``outcome`` None while it runs, or when it was killed.

    ``expected_ns`` and ``expected_write_bytes`` are None where no past run tells.
    """

    run: int
    target: Digest
    name: str
    host: str
    jobs: int
    started_s: int
    expected_ns: int | None
    expected_fetch_bytes: int
    expected_write_bytes: int | None
    duration_ns: int | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStep:
    """One step of a run. ``outcome``: ``built``, ``fetched``, ``reused`` (early cutoff); ``reason`` as planned.

    ``written_bytes`` are those of its new blobs; ``expected_ns`` is None where no past run told.
    """

    run: int
    derivation: Digest
    resolved: Digest
    name: str
    host: str
    outcome: str
    reason: str
    ended_s: int
    duration_ns: int
    expected_ns: int | None
    written_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an artifact's bytes came from: a URL without credentials, or a folder."""

    digest: Digest
    place: str
    fetched_s: int


def begin_run(database: Database, run: Run) -> int:
    """Note that a run begins, and return its number; ``run.run`` is not looked at."""
    row = (
        *(run.target.hex, run.name, run.host, run.jobs, run.started_s),
        *(run.expected_ns, run.expected_fetch_bytes, run.expected_write_bytes),
    )
    with database.cursor() as cursor:
        cursor.execute(
            "INSERT INTO runs (target, name, host, jobs, started_s, expected_ns, expected_fetch_bytes,"
            " expected_write_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
        return int(cursor.lastrowid or 0)


def end_run(database: Database, run: int, outcome: str, duration_ns: int) -> None:
    """Note how a run ended: ``done``, ``failed`` or ``stopped``."""
    with database.cursor() as cursor:
        cursor.execute("UPDATE runs SET outcome = ?, duration_ns = ? WHERE run = ?", (outcome, duration_ns, run))


def add_step(database: Database, step: PastStep) -> None:
    """Note a finished step."""
    row = (
        *(step.run, step.derivation.hex, step.resolved.hex, step.name, step.host, step.outcome, step.reason),
        *(step.ended_s, step.duration_ns, step.expected_ns, step.written_bytes),
    )
    with database.cursor() as cursor:
        cursor.execute(
            "INSERT INTO steps (run, derivation, resolved, name, host, outcome, reason, ended_s, duration_ns,"
            " expected_ns, written_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )


def runs(database: Database, name: str, host: str | None = None, *, limit: int = 20) -> tuple[Run, ...]:
    """Return the latest runs of a target's name, newest first."""
    sql = "SELECT * FROM runs WHERE name = ?1 AND (?2 IS NULL OR host = ?2) ORDER BY run DESC LIMIT ?3"
    with database.cursor() as cursor:
        found = cursor.execute(sql, (name, host, limit)).fetchall()
    return tuple(_run(row) for row in found)


def steps_of_run(database: Database, run: int) -> tuple[PastStep, ...]:
    """Return the steps that a run finished, in the order in which they ended."""
    return _steps(database, "WHERE run = ? ORDER BY step", (run,))


def steps_of(database: Database, derivation: Digest) -> tuple[PastStep, ...]:
    """Return when a derivation was run, oldest first."""
    return _steps(database, "WHERE derivation = ? ORDER BY step", (derivation.hex,))


def steps_named(database: Database, name: str, host: str | None = None) -> tuple[PastStep, ...]:
    """Return every step of a name, oldest first; of one host platform, or of any."""
    return _steps(database, "WHERE name = ?1 AND (?2 IS NULL OR host = ?2) ORDER BY step", (name, host))


def add_source(database: Database, source: Source) -> None:
    """Note where an artifact came from; the latest time stands."""
    row = (source.digest.hex, source.place, source.fetched_s)
    with database.cursor() as cursor:
        cursor.execute("INSERT OR REPLACE INTO sources VALUES (?, ?, ?)", row)


def sources_of(database: Database, digests: Iterable[Digest]) -> tuple[Source, ...]:
    """Return where artifacts came from, by digest and then newest first."""
    found: list[Source] = []
    with database.cursor() as cursor:
        for digest in digests:
            sql = "SELECT place, fetched_s FROM sources WHERE digest = ? ORDER BY fetched_s DESC, place"
            rows = cursor.execute(sql, (digest.hex,)).fetchall()
            found += [Source(digest=digest, place=place, fetched_s=when) for place, when in rows]
    return tuple(found)


def _steps(database: Database, where: str, values: Sequence[object]) -> tuple[PastStep, ...]:
    columns = "run, derivation, resolved, name, host, outcome, reason, ended_s, duration_ns, expected_ns, written_bytes"
    with database.cursor() as cursor:
        rows = cursor.execute(f"SELECT {columns} FROM steps {where}", values).fetchall()  # noqa: S608 - ours
    return tuple(_step(row) for row in rows)


def _step(row: tuple[Any, ...]) -> PastStep:
    run, derivation, resolved, name, host, outcome, reason, ended, duration, expected, written = row
    return PastStep(
        run=run,
        derivation=Digest(derivation),
        resolved=Digest(resolved),
        name=name,
        host=host,
        outcome=outcome,
        reason=reason,
        ended_s=ended,
        duration_ns=duration,
        expected_ns=expected,
        written_bytes=written,
    )


def _run(row: tuple[Any, ...]) -> Run:
    run, target, name, host, jobs, started, duration, outcome, expected, fetch, write = row
    return Run(
        run=run,
        target=Digest(target),
        name=name,
        host=host,
        jobs=jobs,
        started_s=started,
        duration_ns=duration,
        outcome=outcome,
        expected_ns=expected,
        expected_fetch_bytes=fetch,
        expected_write_bytes=write,
    )
