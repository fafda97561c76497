# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.store.database import Database, Realisation
from derive.store.history import (
    PastStep,
    Run,
    Source,
    add_source,
    add_step,
    answered,
    begin_run,
    builder_totals,
    end_run,
    latest_derivations,
    note_answer,
    recent_steps,
    runs,
    sources_of,
    steps_of,
    steps_of_run,
)

RUN = Run(
    run=0,
    target=sha256(b"target"),
    name="probe",
    host="linux/amd64",
    jobs=2,
    started_s=1000,
    expected_ns=None,
    expected_fetch_bytes=7,
    expected_write_bytes=None,
)
STEP = PastStep(
    run=1,
    derivation=sha256(b"derivation"),
    resolved=sha256(b"resolved"),
    name="tool",
    host="any",
    builder="script/1",
    outcome="built",
    reason="never built from these inputs",
    ended_s=1001,
    duration_ns=5,
    expected_ns=4,
    weight_bytes=10,
    written_bytes=20,
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "derive.sqlite")
    yield database
    database.close()


def test_a_run_that_was_killed_has_no_outcome(database: Database) -> None:
    number = begin_run(database, RUN)
    assert runs(database, "probe") == (replace(RUN, run=number),)
    end_run(database, number, "done", 9)
    assert runs(database, "probe") == (replace(RUN, run=number, outcome="done", duration_ns=9),)


def test_runs_are_newest_first_and_told_apart_by_platform(database: Database) -> None:
    numbers = [begin_run(database, replace(RUN, host=host)) for host in ("linux/amd64", "linux/arm64", "linux/amd64")]
    assert [run.run for run in runs(database, "probe", "linux/amd64")] == [numbers[2], numbers[0]]
    assert len(runs(database, "probe", limit=1)) == 1
    assert runs(database, "other") == ()


def noted(database: Database) -> list[int]:
    return [run for run, _ in answered(database, after=0)]


def test_what_was_answered_without_a_run_is_noted_where_something_else_was_wanted_since(database: Database) -> None:
    one, two = sha256(b"one"), sha256(b"two")
    for target in (one, one, two, two):
        note_answer(database, target, "probe", "linux/amd64", 1)
    assert noted(database) == [2, 1]
    note_answer(database, one, "probe", "linux/amd64", 1)
    assert noted(database) == [3, 2]
    end_run(database, begin_run(database, RUN), "failed", 9)
    for target in (one, two, one):
        note_answer(database, target, "probe", "linux/amd64", 1)
    assert noted(database) == [7, 6, 3, 2]
    assert answered(database, after=2, before=6) == ((3, one),)


def test_a_run_for_the_same_thing_is_no_reason_for_a_note_and_one_that_failed_is(database: Database) -> None:
    for outcome, count in (("done", 0), ("failed", 1)):
        end_run(database, begin_run(database, RUN), outcome, 9)
        note_answer(database, RUN.target, "probe", "linux/amd64", 1)
        with database.cursor() as cursor:
            assert cursor.execute("SELECT count(*) FROM runs WHERE outcome = 'reused'").fetchone() == (count,)
    assert [run.outcome for run in runs(database, "probe")] == ["failed", "done"]


def test_steps_come_back_whole_by_run_and_by_derivation(database: Database) -> None:
    add_step(database, STEP)
    other = replace(STEP, run=2, derivation=sha256(b"other"), host="linux/arm64")
    add_step(database, other)
    assert steps_of_run(database, 1) == (STEP,)
    assert steps_of(database, other.derivation) == (other,)


def test_recent_steps_leave_out_what_was_not_run_and_are_bounded(database: Database) -> None:
    for number in range(8):
        add_step(database, replace(STEP, run=number))
    add_step(database, replace(STEP, run=9, outcome="reused"))
    found = recent_steps(database, ["tool", "absent"], limit=3)
    assert [step.run for step in found["tool", "any"]] == [7, 6, 5]


def test_totals_are_by_builder(database: Database) -> None:
    add_step(database, STEP)
    add_step(database, replace(STEP, weight_bytes=30))
    add_step(database, replace(STEP, builder="unpack/1"))
    assert builder_totals(database) == [
        ("script/1", 2, 10, 40, 40, 1000.0, 200.0),
        ("unpack/1", 1, 5, 10, 20, 100.0, 50.0),
    ]


def test_the_latest_derivation_of_a_name_is_the_one_that_ran_last(database: Database) -> None:
    for number in (1, 2):
        step = replace(STEP, run=number, derivation=sha256(b"%d" % number), resolved=sha256(b"r%d" % number))
        entry = Realisation(
            resolved=step.resolved,
            outputs={"out": f"flat:{step.resolved}"},
            builder="script/1",
            engine="",
            host="x86_64",
            duration_ns=1,
            log="",
            built_s=1,
        )
        database.add_realisation(entry, step.derivation, "tool", b"{}")
        add_step(database, step)
    (found,) = latest_derivations(database, ["tool"]).values()
    assert found[0] == sha256(b"2")


def test_the_places_of_an_artifact_are_newest_first_and_each_once(database: Database) -> None:
    digest = sha256(b"artifact")
    for place, when in (("a", 1), ("b", 2), ("a", 3)):
        add_source(database, Source(digest=digest, place=place, fetched_s=when))
    assert [(source.place, source.fetched_s) for source in sources_of(database, [digest])] == [("a", 3), ("b", 2)]


def test_steps_that_ran_elsewhere_say_what_they_take_here_only_where_none_ran_here(database: Database) -> None:
    add_step(database, replace(STEP, run=1, duration_ns=8))
    add_step(database, replace(STEP, run=2, duration_ns=2), "big")
    add_step(database, replace(STEP, run=3, name="other", builder="kernel/1", duration_ns=3), "big")
    found = recent_steps(database, ["tool", "other"])
    assert {key: [step.duration_ns for step in steps] for key, steps in found.items()} == {
        ("tool", "any"): [8],
        ("other", "any"): [3],
    }
    assert [row[:3] for row in builder_totals(database)] == [("kernel/1", 1, 3), ("script/1", 1, 8)]


def test_a_store_of_an_earlier_version_knows_of_no_step_that_ran_elsewhere(database: Database) -> None:
    add_step(database, STEP)
    with database.cursor() as cursor:
        cursor.execute("DROP TABLE step_places")
    assert recent_steps(database, ["tool"]) == {("tool", "any"): [STEP]}
    assert [row[0] for row in builder_totals(database)] == ["script/1"]
