# SPDX-License-Identifier: Apache-2.0
"""The executors of a user's settings: what is read, and everything that is wrong at once."""

from __future__ import annotations

import pytest

from derive.errors import InputErrors
from derive.schedule.config import GIB, ExecutorEntry, Guard, parse_executors

WHOLE = """
[mirrors]
oci = "http://localhost"

[executors.laptop]
jobs = 2
memory = "16GiB"

[executors.spark2]
builder = "spark2"
platforms = ["linux/arm64"]
jobs = 4
cores = 16
memory = "96GiB"
rate = "110MiB"
speed = 1.45

[executors.spark2.guard]
ssh = "builder@spark2"
idle = ["dsv41-*", "vllm"]
memory-needed = "32GiB"
lock = "/run/lock/build"
"""


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(InputErrors) as caught:
        parse_executors(text.encode(), "config.toml")
    return [(one.where, one.message) for one in caught.value.problems()]


def test_every_key_is_read_and_the_order_of_the_file_stays() -> None:
    laptop, spark = parse_executors(WHOLE.encode(), "config.toml")
    assert laptop == ExecutorEntry(name="laptop", builder=None, platforms=(), jobs=2, memory_bytes=16 * GIB)
    assert laptop.is_here
    assert spark == ExecutorEntry(
        name="spark2",
        builder="spark2",
        platforms=("linux/arm64",),
        jobs=4,
        cores=16,
        memory_bytes=96 * GIB,
        rate=110 << 20,
        speed=1450,
        guard=Guard(
            host="spark2",
            user="builder",
            idle=("dsv41-*", "vllm"),
            memory_needed=32 * GIB,
            lock="/run/lock/build",
        ),
    )


def test_a_guard_that_says_nothing_is_that_of_a_host_with_models() -> None:
    (one,) = parse_executors(b"[executors.a]\n[executors.a.guard]\n", "config.toml")
    assert one.guard == Guard(memory_needed=64 * GIB, memory_floor=24 * GIB, memory_a_job=8 * GIB, cores_kept=4)


def test_without_the_table_there_are_none() -> None:
    assert parse_executors(b"[mirrors]\n", "config.toml") == ()


def test_everything_that_is_wrong_is_told_at_once_with_its_place() -> None:
    text = """
    [executors.here]
    builder = "x"
    platforms = ["linux/s390x"]
    [executors.a]
    builder = "two words"
    jobs = 0
    cores = "4"
    memory = "lots"
    rate = "0B"
    speed = -1
    colour = "red"
    [executors.a.guard]
    ssh = "spark2"
    idle = "dsv41"
    memory-needed = "1GiB"
    lock = "here"
    [executors.b]
    """
    assert problems(text) == [
        ("config.toml: executors.a.builder", "not what stands here"),
        ("config.toml: executors.a.colour", "unknown key"),
        ("config.toml: executors.a.cores", "not what stands here"),
        ("config.toml: executors.a.guard.idle", "not what stands here"),
        ("config.toml: executors.a.guard.lock", "not what stands here"),
        (
            "config.toml: executors.a.guard.memory-needed",
            "less than memory-floor: what begins would be stopped at once",
        ),
        ("config.toml: executors.a.guard.ssh", "not what stands here"),
        ("config.toml: executors.a.jobs", "not what stands here"),
        ("config.toml: executors.a.memory", "not what stands here"),
        ("config.toml: executors.a.platforms", "missing: nothing says what it runs"),
        ("config.toml: executors.a.rate", "not what stands here"),
        ("config.toml: executors.a.speed", "not what stands here"),
        ("config.toml: executors.b", "two executors without a builder: both are this machine"),
        ("config.toml: executors.here", "the name is taken"),
        ("config.toml: executors.here.platforms", "not what stands here"),
    ]


@pytest.mark.parametrize("text", ["executors = 1", "[executors]\na = 1", "[[executors]]", "not toml", "\xff"])
def test_what_is_no_table_of_tables_is_refused(text: str) -> None:
    assert len(problems(text)) == 1


def test_a_name_that_no_command_line_takes_is_refused() -> None:
    assert problems('[executors."-x"]')[0] == ("config.toml: executors.-x", "no name for an executor")


def test_an_executor_that_names_anothers_builder_without_its_guard_is_told_with_both_keys() -> None:
    text = """
[executors.fast]
builder = "spark2"
platforms = ["linux/arm64"]
[executors.spark2]
builder = "spark2"
platforms = ["linux/arm64"]
[executors.spark2.guard]
"""
    message = "the builder spark2 has a guard in executors.spark2.guard, and none here"
    assert problems(text) == [("config.toml: executors.fast.builder", message)]
    with_both = text.replace("[executors.spark2]\n", "[executors.fast.guard]\n[executors.spark2]\n")
    assert len(parse_executors(with_both.encode(), "config.toml")) == 2


@pytest.mark.parametrize("jobs", ["9" * 5000, "-" + "9" * 5000, "0x" + "f" * 5000, "513"])
def test_a_number_beyond_all_bounds_is_refused_with_its_key(jobs: str) -> None:
    assert problems(f"[executors.a]\njobs = {jobs}\n") == [("config.toml: executors.a.jobs", "not what stands here")]


def test_settings_that_are_nested_too_deep_are_refused_with_their_file() -> None:
    assert problems("executors = " + "[" * 3000) == [
        ("config.toml", "not valid TOML: arrays or tables too deep in each other")
    ]


def test_numbers_of_other_tables_are_not_looked_at() -> None:
    text = f"[other]\na = {'9' * 5000}\nb = nan\n[executors.a]\njobs = 2\n"
    assert parse_executors(text.encode(), "config.toml")[0].jobs == 2


def test_what_moves_a_cursor_is_escaped_wherever_it_is_told() -> None:
    text = """
[executors."a\\u001b"]
"b\\u001b" = 1
[executors.b]
builder = "c\\u001b"
guard = 1
[executors."d\\u001b"]
"""
    with pytest.raises(InputErrors) as caught:
        parse_executors(text.encode(), "config.toml")
    for one in caught.value.problems():
        assert all(part.isprintable() for part in (one.where, one.message, one.hint or "", *one.detail)), one


def test_of_a_long_value_only_the_beginning_is_shown() -> None:
    with pytest.raises(InputErrors) as caught:
        parse_executors(f'[executors.a]\nrate = "{"x" * 5000}"\n'.encode(), "config.toml")
    assert all(len(line) < 200 for one in caught.value.problems() for line in one.detail)


@pytest.mark.parametrize(
    ("guard", "detail"),
    [
        (
            'memory-needed = "1GiB"\nmemory-floor = "2GiB"',
            ("expected  2GiB or more, as memory-floor", "got       '1GiB'"),
        ),
        ('memory-needed = "1GiB"', ("expected  24GiB or more, as memory-floor by default", "got       '1GiB'")),
        ('memory-floor = "100GiB"', ("expected  100GiB or more, as memory-floor", "got       64GiB by default")),
    ],
)
def test_memory_below_the_floor_is_told_with_both_values(guard: str, detail: tuple[str, ...]) -> None:
    with pytest.raises(InputErrors) as caught:
        parse_executors(f"[executors.a.guard]\n{guard}\n".encode(), "config.toml")
    (problem,) = caught.value.problems()
    assert problem.where == "config.toml: executors.a.guard.memory-needed"
    assert problem.detail == detail
