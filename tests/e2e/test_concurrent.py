# SPDX-License-Identifier: Apache-2.0
"""Processes that derive in one store at once: all succeed, and each thing is fetched and built once."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_driver import Driver
from support.running import marker, running, sleeper, with_argument
from support.small import Small, artifacts, small_project
from support.store_check import check_store, realised


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with Driver() as running:
        yield running


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as project:
        yield project


@pytest.mark.parametrize("count", [2, 4])
def test_processes_that_derive_one_image_at_once_all_succeed_and_build_each_thing_once(
    small: Small, driver: Driver, tmp_path: Path, count: int
) -> None:
    builds = tmp_path / "builds"
    job = {"argv": ["image", "small"], "env": small.environment, "cwd": str(small.root), "builds": str(builds)}
    outcomes = driver.run(*[job] * count)
    assert [outcome["code"] for outcome in outcomes] == [0] * count, [outcome["err"] for outcome in outcomes]
    assert len({outcome["out"] for outcome in outcomes}) == 1
    built = Counter(builds.read_text().splitlines())
    assert set(built.values()) == {1}, "a thing was built twice"
    assert len(built) == realised(small.store) == 14
    assert {file: small.asked(file) for file in artifacts() if "arm64" not in file} == {
        "busybox_1.0-1_amd64.deb": 1,
        "hello_1.0.orig.tar.gz": 1,
        "notes_1.0-1_amd64.deb": 1,
    }
    check_store(small.store)


def test_what_two_processes_say_that_they_built_is_each_thing_once(small: Small) -> None:
    with running(small, "image", "small") as one, running(small, "image", "small") as other:
        results = [one.result(), other.result()]
    assert [result.answer for result in results] == [results[0].answer] * 2
    said = Counter(
        name for result in results for name in re.findall(r"^built \d+/\d+  (.*?)  [\d.]+ s$", result.err, re.MULTILINE)
    )
    steps = (
        "notes",
        "tools",
        "hello-patched",
        "hello",
        "small root",
        "small layer notes",
        "small layer hello",
        "small",
    )
    assert {name: said[name] for name in steps} == dict.fromkeys(steps, 1)


def test_two_platforms_at_once_share_what_they_have_in_common(small: Small, driver: Driver, tmp_path: Path) -> None:
    builds = tmp_path / "builds"
    jobs = [
        {
            "argv": ["image", "small", "--platform", platform],
            "env": small.environment,
            "cwd": str(small.root),
            "builds": str(builds),
        }
        for platform in ("linux/amd64", "linux/arm64")
    ]
    outcomes = driver.run(*jobs)
    assert [outcome["code"] for outcome in outcomes] == [0, 0], [outcome["err"] for outcome in outcomes]
    assert outcomes[0]["out"] != outcomes[1]["out"]
    assert set(Counter(builds.read_text().splitlines()).values()) == {1}
    check_store(small.store)


def test_one_that_waits_for_another_s_build_ends_at_once_when_interrupted(small: Small) -> None:
    small.write("derivations/small/build.sh", sleeper(100))
    with running(small, "image", "small") as builder:
        builder.wait_for(builder.script_has_begun)
        with running(small, "image", "small") as waiting:
            waiting.wait_for(lambda: lock_is_open_in(waiting.process.pid))
            ended = waiting.end(signal.SIGINT, within_s=40)
        assert (ended.code, ended.out) == (130, "")
        assert builder.process.poll() is None


def test_one_that_waits_builds_itself_when_the_builder_is_killed(small: Small) -> None:
    mark = marker()
    small.write("derivations/small/build.sh", sleeper(mark))
    with running(small, "image", "small") as builder, running(small, "image", "small") as waiting:
        # Whichever came first builds, and the other waits.
        builder.wait_for(
            lambda: with_argument(mark) and all(lock_is_open_in(r.process.pid) for r in (builder, waiting))
        )
        before = set(with_argument(mark))
        first, second = (builder, waiting) if sandbox_is_of(builder.process.pid) else (waiting, builder)
        first.end(signal.SIGKILL, within_s=40)
        second.wait_for(lambda: set(with_argument(mark)) - before)
        ended = second.end(signal.SIGINT, within_s=40)
    assert ended.code == 130
    check_store(small.store)


def sandbox_is_of(pid: int) -> bool:
    """Say whether a process has started a sandbox's keeper."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return any(child.read_text().strip() for child in children)


def lock_is_open_in(pid: int) -> bool:
    """Say whether a process has a build's lock open: it waits for it."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if "/locks/build-" in str(descriptor.readlink()):
                return True
        except FileNotFoundError:
            continue
    return False
