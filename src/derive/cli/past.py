# SPDX-License-Identifier: Apache-2.0
"""Prints what earlier runs of a target were expected to take, and took.

Edge: the store, standard streams.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, table, wants_json
from derive.store.history import runs, steps_of_run
from derive.words import duration_text, size_text

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.derivations.model import Derivation
    from derive.store.database import Database
    from derive.store.history import PastStep, Run
    from derive.store.local import LocalStore

_WORST = 8


def print_past(args: argparse.Namespace, target: Derivation, store: LocalStore) -> int:
    """Answer with the latest runs, newest first, and with the steps of the newest that were judged worst."""
    found = runs(store.database, target.name, target.host)
    if wants_json(args):
        body: list[Json] = [_document(store.database, run) for run in found]
        worst: list[Json] = [] if not found else [_step(step) for step in _worst(store.database, found[0].run)]
        answer_record("past", target.name, {"host": target.host, "runs": body, "furthest_off": worst})
    elif not found:
        answer(f"{target.name} ({target.host}) was never run in this store, or had nothing to do")
    else:
        head = ("when", "outcome", "jobs", "expected", "took", "error", "to write", "wrote")
        answer(table([head, *(_row(store.database, run) for run in found)], right=frozenset(range(2, 8))))
        worst_steps = [
            (step.name, duration_text(step.expected_ns or 0), duration_text(step.duration_ns), _error(step))
            for step in _worst(store.database, found[0].run)
        ]
        if worst_steps:
            rows = [("step of the newest run", "expected", "took", "error"), *worst_steps]
            answer("\n" + table(rows, right=frozenset({1, 2, 3})))
    return 0


def _row(database: Database, run: Run) -> tuple[str, ...]:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started_s))
    expected = "?" if run.expected_ns is None else duration_text(run.expected_ns)
    took = "?" if run.duration_ns is None else duration_text(run.duration_ns)
    to_write = "?" if run.expected_write_bytes is None else size_text(run.expected_write_bytes)
    wrote = size_text(_written(database, run))
    return when, run.outcome or "killed or running", str(run.jobs), expected, took, _error(run), to_write, wrote


def _written(database: Database, run: Run) -> int:
    return sum(step.written_bytes for step in steps_of_run(database, run.run))


def _error(found: Run | PastStep) -> str:
    if found.duration_ns is None or not found.expected_ns:
        return ""
    return f"{(found.duration_ns - found.expected_ns) / found.expected_ns:+.0%}"


def _worst(database: Database, run: int) -> list[PastStep]:
    judged = [step for step in steps_of_run(database, run) if step.expected_ns is not None]
    return sorted(judged, key=lambda step: -abs(step.duration_ns - (step.expected_ns or 0)))[:_WORST]


def _document(database: Database, run: Run) -> Json:
    return {
        "run": run.run,
        "derivation": str(run.target),
        "started_s": run.started_s,
        "outcome": run.outcome,
        "jobs": run.jobs,
        "expected_ns": run.expected_ns,
        "duration_ns": run.duration_ns,
        "expected_fetch_bytes": run.expected_fetch_bytes,
        "expected_write_bytes": run.expected_write_bytes,
        "written_bytes": _written(database, run),
    }


def _step(step: PastStep) -> Json:
    return {
        "name": step.name,
        "derivation": str(step.derivation),
        "outcome": step.outcome,
        "expected_ns": step.expected_ns,
        "duration_ns": step.duration_ns,
        "written_bytes": step.written_bytes,
    }
