# SPDX-License-Identifier: Apache-2.0
"""Which rank died first, and of what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from derive.canonical import Json, encode
from derive.deploy.guard_records import guard_kill
from derive.deploy.incident import Budget, Incident, deaths, engine_ns, exit_text
from derive.deploy.kernel_log import KernelKill
from support.ended import GOOD_GUARD, SERVED, container, ended, kill, rank

SECOND = 1_000_000_000


def test_ranks_that_all_run_and_are_guarded_have_not_died() -> None:
    assert deaths([rank(0, container(), guards=(GOOD_GUARD,)), rank(1, container())]) == ()


def test_the_rank_that_ended_first_comes_first() -> None:
    found = deaths([rank(0, ended(9.5)), rank(1, ended(7.25, 137)), rank(2, ended(8))])
    assert [one.node for one in found] == ["spark2", "spark3", "spark1"]


def test_what_a_nodes_clock_is_ahead_is_taken_off_before_ends_are_compared() -> None:
    found = deaths([rank(0, ended(9.5), ahead_ns=5 * SECOND), rank(1, ended(7.25))])
    assert [one.node for one in found] == ["spark1", "spark2"]


def test_a_rank_without_a_known_time_comes_after_those_with_one() -> None:
    found = deaths([rank(0, None), rank(1, ended(7))])
    assert [(one.node, one.kind) for one in found] == [("spark2", "exit"), ("spark1", "gone")]


def test_a_node_that_does_not_answer_died_when_it_last_answered() -> None:
    at_ns = engine_ns("2026-11-30T17:10:01Z")
    found = deaths([rank(0, ended(7)), rank(1, container(), trouble="no route to host", answered_ns=at_ns)])
    assert [(one.node, one.kind) for one in found] == [("spark2", "lost"), ("spark1", "exit")]
    assert found[0].why == "the node does not answer: no route to host"


def test_a_rank_that_runs_without_any_guard_at_work_counts_as_dead() -> None:
    dead = replace(GOOD_GUARD, alive=False, code=-9)
    startup = replace(GOOD_GUARD, phase="startup", alive=False, pid=None)
    (death,) = deaths([rank(0, container(), guards=(startup, dead))])
    assert death.kind == "unguarded"
    assert death.why.startswith("its memory guard (steady) was killed by signal 9")
    assert deaths([rank(0, container(), guards=(startup, GOOD_GUARD))]) == ()


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"exit_code": 137, "oom_killed": True}, "oom", "killed by the kernel for want of memory (OOM), exit code 137"),
        (
            {"exit_code": 1, "oom_killed": True},
            "oom",
            "a process of it was killed by the kernel for want of memory (OOM), and it ended with exit code 1",
        ),
        ({"exit_code": 137}, "killed", "ended by SIGKILL, exit code 137"),
        ({"exit_code": 139}, "exit", "ended by SIGSEGV, exit code 139"),
        ({"exit_code": 143}, "stopped", "told to stop, exit code 143"),
        ({"exit_code": 1, "error": "no such device"}, "exit", "ended by itself, exit code 1: no such device"),
        ({"exit_code": None, "state": "created"}, "exit", "it is created"),
    ],
)
def test_an_end_is_told_as_the_engine_knows_it(changes: dict[str, Any], kind: str, words: str) -> None:
    found = ended(7, **({"code": changes.pop("exit_code")} | changes))
    assert exit_text(found) == words
    assert deaths([rank(0, found)])[0].kind == kind


def test_a_kill_by_the_memory_guard_is_told_with_its_figures() -> None:
    (death,) = deaths([rank(0, ended(7, 137), kills=(kill(6), kill(-3600, reason="pressure")))])
    assert death.kind == "guard"
    said = "killed by the memory guard (steady): less memory was available than its floor"
    assert death.why == f"{said}: 2.50 GiB available, floor 3.00 GiB"
    assert death.guard == kill(6)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            -9,
            (
                "its memory guard (steady) was killed by signal 9: "
                "on the node: sudo journalctl --unit derive-probe-guard-steady.service"
            ),
        ),
        (1, "its memory guard (steady) could not guard any more, and killed it"),
        (3, "its memory guard (steady) killed it for want of memory"),
    ],
)
def test_a_service_that_ended_with_its_guard_says_how_the_guard_ended(code: int, words: str) -> None:
    startup = replace(GOOD_GUARD, phase="startup", alive=False, code=0)
    guard = replace(GOOD_GUARD, alive=False, code=code)
    (death,) = deaths([rank(0, ended(7, 143), guards=(startup, guard))])
    assert (death.kind, death.why) == ("guard", words)


def test_an_old_record_of_the_guard_says_nothing_of_this_end() -> None:
    (death,) = deaths([rank(0, ended(7, 137), kills=(kill(-3600),))])
    assert (death.kind, death.guard) == ("killed", None)


@pytest.mark.parametrize(("second", "kind"), [(57, "killed"), (59, "guard"), (62, "guard")])
def test_a_guards_record_from_before_the_container_started_is_of_the_one_before_it(second: int, kind: str) -> None:
    found = ended(7, 137, started="2026-11-30T17:10:00.250Z")
    (death,) = deaths([rank(0, found, kills=(kill(second - 60),))])
    assert death.kind == kind


def test_what_the_kernel_says_that_it_killed_goes_before_all_else() -> None:
    said = KernelKill(process="VLLM::Worker", pid=7, resident_bytes=90 << 30, own_limit=False)
    (death,) = deaths([rank(0, ended(7, 1), kernel=said, kills=(kill(7),))])
    words = (
        "the kernel killed VLLM::Worker, which held 90.00 GiB, for want of memory (OOM): the machine had no memory left"
    )
    assert (death.kind, death.why) == ("oom", f"{words}, exit code 1")
    assert death.document()["kernel"] == said.document()


def test_a_guards_record_is_read_as_the_guard_writes_it() -> None:
    body: dict[str, Json] = {
        "phase": "startup",
        "reason": "below-floor",
        "realtime_s": 7,
        "floor_bytes": 5,
        "samples": [{"available_bytes": 9}, {"available_bytes": 4}],
        "processes": {"count": 1, "largest": [{"name": "vllm", "pid": 3, "resident_bytes": 8}]},
    }
    found = guard_kill("/e/one.json", {"derive": "record/1", "kind": "memory-guard", "subject": "probe", "body": body})
    assert found is not None
    assert (found.phase, found.at_s, found.available_bytes, found.largest) == ("startup", 7, 4, (("vllm", 8),))


@pytest.mark.parametrize("other", [None, 3, [], {}, {"kind": "memory-guard"}, {"kind": "memory-guard", "body": {}}])
def test_what_is_no_record_of_a_guard_is_none(other: Json) -> None:
    assert guard_kill("/e/one.json", other) is None


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:01.123456789Z", 1_123_456_789),
        ("1970-01-01T01:00:00+01:00", 0),
        ("0001-01-01T00:00:00Z", None),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_an_engines_time_is_read_to_the_nanosecond(text: str | None, ns: int | None) -> None:
    assert engine_ns(text) == ns


def _bodies(*times: int, service: str = "probe", decided: str = "restart") -> list[dict[str, Json]]:
    return [{"service": service, "decided": decided, "at_s": at_s} for at_s in times]


def test_a_budget_counts_the_restarts_of_a_service_within_its_time() -> None:
    budget = Budget(restarts=3, within_s=100)
    bodies = [*_bodies(10, 950, 990), *_bodies(980, service="other"), *_bodies(985, decided="budget-spent")]
    assert budget.spent(bodies, "probe", 1000) == 2


def test_an_incident_can_stand_in_a_record() -> None:
    found = Incident(
        service="probe",
        served=SERVED,
        deaths=deaths([rank(0, ended(9)), rank(1, ended(7, 137), kills=(kill(7),)), rank(2, None)]),
        at_s=1000,
        decided="restart",
        why="1 of 3 restarts within 3600 s",
        restarts=1,
        budget=Budget(restarts=3, within_s=3600),
        stopped={"spark1": None, "spark2": "no answer"},
        logs=None,
    ).body()
    assert encode(found)
    assert (found["first"], found["decided"]) == ("spark2", "restart")
