# SPDX-License-Identifier: Apache-2.0
"""What was run and when: runs with what was expected of them, their steps, and where artifacts came from.

Edge: the store's database. Nothing here decides a byte; rows are added, and never changed but to end a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from derive.canonical import Digest
from derive.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a plan. ``target`` is a derivation id; ``outcome`` None while it runs, or when it was killed.

    An ``outcome`` of ``reused`` is one for which nothing had to run.

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

    ``builder`` has its version (``script/1``), and the part of its work that it was (``kernel/1 device``).
    ``written_bytes`` are those of its new blobs, ``weight_bytes`` those of the artifacts below it, which its time grows
    with; ``expected_ns`` is None where no past run told.
    """

    run: int
    derivation: Digest
    resolved: Digest
    name: str
    host: str
    builder: str
    outcome: str
    reason: str
    ended_s: int
    duration_ns: int
    expected_ns: int | None = None
    weight_bytes: int = 0
    written_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an artifact's bytes came from: a URL without credentials, or a folder."""

    digest: Digest
    place: str
    fetched_s: int


_STEP = (
    "run, derivation, resolved, name, host, builder, outcome, reason, ended_s, duration_ns, expected_ns, weight_bytes,"
    " written_bytes"
)


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


def note_answer(database: Database, target: Digest, name: str, host: str, when_s: int) -> None:
    """Note that a target was answered without running anything, unless the last run was for it, too.

    Between two runs that had something to do each target is noted once, so that the notes do not grow with use.
    """
    last = "SELECT target FROM runs WHERE run = (SELECT max(run) FROM runs) AND outcome IN ('done', 'reused')"
    earlier = (
        "DELETE FROM runs WHERE outcome = 'reused' AND target = ?"
        " AND run > (SELECT coalesce(max(run), 0) FROM runs WHERE outcome IS NOT 'reused')"
    )
    insert = (
        "INSERT INTO runs (target, name, host, jobs, started_s, duration_ns, outcome, expected_ns,"
        " expected_fetch_bytes, expected_write_bytes) VALUES (?, ?, ?, 0, ?, 0, 'reused', 0, 0, 0)"
    )
    with database.cursor() as cursor:
        if cursor.execute(last).fetchone() != (target.hex,):
            cursor.execute("BEGIN IMMEDIATE")
            cursor.execute(earlier, (target.hex,))
            cursor.execute(insert, (target.hex, name, host, when_s))
            cursor.execute("COMMIT")


def answered(database: Database, *, after: int, before: int | None = None) -> tuple[tuple[int, Digest], ...]:
    """Return (run, target) of the runs between two others that gave what was asked for, newest first."""
    sql = (
        "SELECT run, target FROM runs WHERE run > ?1 AND (?2 IS NULL OR run < ?2) AND outcome IN ('done', 'reused')"
        " ORDER BY run DESC"
    )
    with database.cursor() as cursor:
        rows = cursor.execute(sql, (after, before)).fetchall()
    return tuple((run, Digest(target)) for run, target in rows)


def add_step(database: Database, step: PastStep, executor: str | None = None) -> None:
    """Note a finished step, and the executor that ran it, if that was not this machine."""
    row = (
        *(step.run, step.derivation.hex, step.resolved.hex, step.name, step.host, step.builder, step.outcome),
        *(step.reason, step.ended_s, step.duration_ns, step.expected_ns, step.weight_bytes, step.written_bytes),
    )
    with database.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO steps ({_STEP}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - ours
            row,
        )
        if executor is not None:
            cursor.execute("INSERT OR REPLACE INTO step_places VALUES (?, ?)", (cursor.lastrowid, executor))


def placed_steps(database: Database, *, limit: int = 2000) -> list[tuple[str, str, str, str | None, int]]:
    """Return (name, host, builder, executor, duration_ns) of the latest steps built of names built elsewhere, too.

    The executor is None where this machine built it.
    """
    sql = (
        "SELECT s.name, s.host, s.builder, p.executor, s.duration_ns FROM steps s LEFT JOIN step_places p USING (step)"
        " WHERE s.outcome = 'built' AND s.name IN (SELECT name FROM steps JOIN step_places USING (step))"
        " ORDER BY s.step DESC LIMIT ?"
    )
    with database.cursor() as cursor:
        known = cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'step_places'").fetchone()
        # An earlier version's store, opened for reading, has no such table.
        return cursor.execute(sql, (limit,)).fetchall() if known else []


def runs(database: Database, name: str, host: str | None = None, *, limit: int = 20) -> tuple[Run, ...]:
    """Return the latest runs of a target's name that had something to do, newest first."""
    sql = (
        "SELECT * FROM runs WHERE name = ?1 AND (?2 IS NULL OR host = ?2) AND outcome IS NOT 'reused'"
        " ORDER BY run DESC LIMIT ?3"
    )
    with database.cursor() as cursor:
        found = cursor.execute(sql, (name, host, limit)).fetchall()
    return tuple(_run(row) for row in found)


def steps_of_run(database: Database, run: int) -> tuple[PastStep, ...]:
    """Return the steps that a run finished, in the order in which they ended."""
    return _steps(database, "WHERE run = ? ORDER BY step", (run,))


def steps_of(database: Database, derivation: Digest) -> tuple[PastStep, ...]:
    """Return when a derivation was run, oldest first."""
    return _steps(database, "WHERE derivation = ? ORDER BY step", (derivation.hex,))


def recent_steps(database: Database, names: Iterable[str], *, limit: int = 5) -> dict[tuple[str, str], list[PastStep]]:
    """Return the latest steps that were built or fetched, by name and host, newest first.

    Those that ran elsewhere are left out where this machine ran any: other machines take other times.
    """
    own = _own(database)
    where = (
        "WHERE step IN (SELECT step FROM (SELECT step, own, max(own) OVER (PARTITION BY name, host) AS best,"  # noqa: S608 - ours
        " row_number() OVER (PARTITION BY name, host ORDER BY own DESC, step DESC) AS place"
        f" FROM (SELECT step, name, host, {own} AS own FROM steps WHERE outcome NOT IN ('reused', 'substituted')"
        " AND name IN (SELECT value FROM json_each(?)))) WHERE place <= ? AND own = best)"
        " ORDER BY step DESC"
    )
    found: dict[tuple[str, str], list[PastStep]] = {}
    for step in _steps(database, where, (_texts(names), limit)):
        found.setdefault((step.name, step.host), []).append(step)
    return found


def builder_totals(database: Database, *, limit: int = 2000) -> list[tuple[str, int, int, int, int, float, float]]:
    """Return sums over the latest steps built or fetched, by builder.

    Each row is (builder, steps, duration_ns, weight_bytes, written_bytes, weight x weight, weight x duration). Steps
    that ran elsewhere are left out where this machine ran any.
    """
    own = _own(database)
    sql = (
        "SELECT builder, count(*), sum(duration_ns), sum(weight_bytes), sum(written_bytes),"  # noqa: S608 - ours
        " total(1.0 * weight_bytes * weight_bytes), total(1.0 * weight_bytes * duration_ns) FROM"
        f" (SELECT *, max(own) OVER (PARTITION BY builder) AS best FROM (SELECT *, {own} AS own FROM steps"
        " WHERE outcome NOT IN ('reused', 'substituted') ORDER BY step DESC LIMIT ?)) WHERE own = best"
        " GROUP BY builder"
    )
    with database.cursor() as cursor:
        return cursor.execute(sql, (limit,)).fetchall()


def _own(database: Database) -> str:
    """Return in SQL whether this machine ran a step; an earlier version's store notes of none that it did not."""
    with database.cursor() as cursor:
        known = cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'step_places'").fetchone()
    return "step NOT IN (SELECT step FROM step_places)" if known else "1"


def latest_derivations(database: Database, names: Iterable[str]) -> dict[tuple[str, str], tuple[Digest, str, str]]:
    """Return, by name and host, the derivation realised last: its id, its document, and its outputs as JSON texts."""
    sql = (
        "SELECT s.name, s.host, d.id, d.document, r.outputs FROM (SELECT max(step) AS step FROM steps"
        " WHERE name IN (SELECT value FROM json_each(?)) GROUP BY name, host) JOIN steps s USING (step)"
        " JOIN derivations d ON d.id = s.derivation JOIN realisations r ON r.resolved = d.resolved"
    )
    with database.cursor() as cursor:
        rows = cursor.execute(sql, (_texts(names),)).fetchall()
    return {(name, host): (Digest(key), document, outputs) for name, host, key, document, outputs in rows}


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


def _texts(names: Iterable[str]) -> str:
    """Write names as one JSON array: a statement takes only so many values."""
    return json.dumps(sorted(set(names)))


def _steps(database: Database, where: str, values: Sequence[object]) -> tuple[PastStep, ...]:
    with database.cursor() as cursor:
        rows = cursor.execute(f"SELECT {_STEP} FROM steps {where}", values).fetchall()  # noqa: S608 - ours
    return tuple(_step(row) for row in rows)


def _step(row: tuple[Any, ...]) -> PastStep:
    run, derivation, resolved, name, host, builder, outcome, reason, ended, duration, expected, weight, written = row
    return PastStep(
        run=run,
        derivation=Digest(derivation),
        resolved=Digest(resolved),
        name=name,
        host=host,
        builder=builder,
        outcome=outcome,
        reason=reason,
        ended_s=ended,
        duration_ns=duration,
        expected_ns=expected,
        weight_bytes=weight,
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
