# SPDX-License-Identifier: Apache-2.0
"""When a host that serves models may build, with how many jobs, and when what runs there is stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from derive.errors import Corrupt
from derive.schedule.config import GIB, Guard
from derive.schedule.idle import (
    IdleFacts,
    Running,
    Verdict,
    jobs_for,
    may_build,
    must_stop,
    read_idle_facts,
)

SPARK = IdleFacts(available_bytes=112 * GIB, total_bytes=120 * GIB, cpus=20, containers=())
GUARD = Guard(host="spark2", user="me", idle=("dsv41-*", "vllm"))


def test_an_idle_host_builds_with_two_processors_a_job_beside_four() -> None:
    assert may_build(SPARK, GUARD) == Verdict(jobs=8)


@pytest.mark.parametrize(
    ("available", "cpus", "jobs"),
    [(112, 20, 8), (112, 64, 10), (64, 64, 5), (112, 8, 2), (112, 5, 0), (20, 64, 0)],
)
def test_jobs_are_bounded_by_processors_memory_and_ten(available: int, cpus: int, jobs: int) -> None:
    assert jobs_for(replace(SPARK, available_bytes=available * GIB, cpus=cpus), GUARD) == jobs


@pytest.mark.parametrize("name", ["dsv41-tp4-rank0", "vllm"])
def test_a_container_that_serves_keeps_it_from_building(name: str) -> None:
    verdict = may_build(replace(SPARK, containers=(Running(name=name), Running(name="other"))), GUARD)
    assert verdict == Verdict(jobs=0, reasons=(f"it serves: {name} runs",))


def test_a_container_that_derive_deployed_serves_whatever_its_name() -> None:
    verdict = may_build(replace(SPARK, containers=(Running(name="b", deployed=True), Running(name="vllm"))), GUARD)
    assert verdict.reasons == ("it serves: b, vllm run",)


def test_containers_of_other_names_do_not() -> None:
    assert may_build(replace(SPARK, containers=(Running(name="buildx_buildkit_spark20"),)), GUARD).may


def test_less_memory_than_a_build_begins_with_is_said_with_both_figures() -> None:
    verdict = may_build(replace(SPARK, available_bytes=63 * GIB), GUARD)
    assert verdict.reasons == ("63.0 GiB available, and a build begins with 64.0 GiB",)


def test_an_engine_that_does_not_answer_counts_as_serving() -> None:
    facts = replace(SPARK, containers=None, unread="permission denied")
    assert may_build(facts, GUARD).reasons == ("its container engine does not say what runs: permission denied",)
    assert must_stop(facts, GUARD)


def test_another_build_there_excludes_this_one() -> None:
    assert may_build(replace(SPARK, holder="ann@laptop"), GUARD).reasons == ("another build runs there: ann@laptop",)


def test_a_host_too_small_for_one_job_says_so() -> None:
    assert may_build(replace(SPARK, cpus=5), GUARD).reasons == (
        "too small: 5 processors, and one job needs 6: 2 beside cores-kept = 4",
    )


def test_a_host_with_too_little_memory_for_one_job_says_how_much_it_needs_and_which_keys_say_so() -> None:
    guard = replace(GUARD, memory_needed=GIB, memory_floor=16 * GIB)
    verdict = may_build(replace(SPARK, available_bytes=int(21.9 * GIB)), guard)
    assert verdict.reasons == (
        "too small: 21.9 GiB available, and one job needs 24.0 GiB: memory-a-job = 8GiB above memory-floor = 16GiB",
    )


def test_a_host_that_has_just_enough_for_one_job_builds() -> None:
    facts = replace(SPARK, cpus=6, available_bytes=32 * GIB)
    assert may_build(facts, replace(GUARD, memory_needed=GIB)) == Verdict(jobs=1)


def test_a_host_too_small_in_both_says_both() -> None:
    verdict = may_build(replace(SPARK, cpus=1, available_bytes=30 * GIB), replace(GUARD, memory_needed=GIB))
    assert [reason.partition(" available")[0] for reason in verdict.reasons] == [
        "too small: 1 processor, and one job needs 6: 2 beside cores-kept = 4",
        "too small: 30.0 GiB",
    ]


def test_what_runs_goes_on_down_to_the_floor_and_is_stopped_below_it() -> None:
    assert must_stop(replace(SPARK, available_bytes=24 * GIB), GUARD) == ()
    assert must_stop(replace(SPARK, available_bytes=24 * GIB - 1), GUARD) == (
        "24.0 GiB available, below the floor of 24.0 GiB",
    )


def test_a_server_that_starts_stops_what_runs() -> None:
    assert must_stop(replace(SPARK, containers=(Running(name="vllm"),)), GUARD) == ("it serves: vllm runs",)


def test_what_a_host_says_is_read_and_anything_else_refused() -> None:
    said = {
        "derive": "idle-facts/1",
        "available_bytes": 5,
        "total_bytes": 6,
        "cpus": 7,
        "containers": [{"name": "a", "labels": ["io.derive.launch-bundle"]}],
        "unread": "",
        "holder": None,
    }
    assert read_idle_facts("spark2", said) == IdleFacts(
        available_bytes=5, total_bytes=6, cpus=7, containers=(Running(name="a", deployed=True),)
    )
    for wrong in ({**said, "derive": "x"}, {**said, "cpus": None}, {}, None):
        with pytest.raises(Corrupt):
            read_idle_facts("spark2", wrong)
