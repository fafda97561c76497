# SPDX-License-Identifier: Apache-2.0
"""`derive image` killed at every kind of moment: the store stays sound, and the next run finishes with the digest."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli_driver import Driver
from support.running import gone_within, marker, running, sleeper, with_argument
from support.servers import Reply
from support.small import SCRIPT, Small, small_project
from support.store_check import check_store, realised

SAMPLES = 10  # kills of one sweep: with the checks and the run after each, ten seconds


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with Driver() as running:
        yield running


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as project:
        yield project


def job(small: Small, store: Path, *more: str, **options: object) -> dict[str, Any]:
    """Return a run of ``derive image small`` for the driver."""
    env = {**small.environment, "DERIVE_STORE": str(store)}
    return {"argv": ["image", "small", *more], "env": env, "cwd": str(small.root), **options}


def test_a_kill_at_any_change_to_the_disk_leaves_a_sound_store_and_the_next_run_finishes(
    small: Small, driver: Driver, tmp_path: Path
) -> None:
    (whole,) = driver.run(job(small, tmp_path / "whole", "--output", str(tmp_path / "whole.tar"), count=True))
    assert whole["code"] == 0, whole["err"]
    steps = whole["steps"]
    chosen = {1, steps // 2, *random.sample(range(2, steps - 20), SAMPLES), *random.sample(range(steps - 20, steps), 3)}
    for fatal in sorted(chosen):
        store, copy = tmp_path / str(fatal), tmp_path / f"{fatal}.tar"
        (killed,) = driver.run(job(small, store, "--output", str(copy), fatal=fatal))
        assert killed["killed"] in (signal.SIGKILL, None), f"step {fatal} of {steps}: {killed['err']}"
        assert killed["left"] == 0, f"a process outlived the kill at step {fatal} of {steps}"
        check_store(store)
        kept = realised(store)
        (again,) = driver.run(job(small, store, "--output", str(copy)))
        assert (again["code"], again["out"]) == (0, whole["out"]), f"after {fatal} of {steps}: {again['err']}"
        check_store(store)
        assert realised(store) == 14
        assert again["err"].count("\nbuilt ") + again["err"].count("\nfetched ") <= 14 - kept, (
            "something was done twice"
        )
        assert copy.read_bytes() == (tmp_path / "whole.tar").read_bytes()


@pytest.mark.parametrize("seed", range(3))
def test_a_store_killed_at_random_times_again_and_again_is_sound_and_finishes(
    small: Small, driver: Driver, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    (whole,) = driver.run(job(small, tmp_path / "whole"))
    store = tmp_path / "store"
    for _ in range(6):
        (ended,) = driver.run(job(small, store, after_s=chance.random() * 0.6))
        assert ended["left"] == 0
        check_store(store)
    (again,) = driver.run(job(small, store))
    assert (again["code"], again["out"]) == (0, whole["out"]), again["err"]
    check_store(store)


def test_a_kill_in_a_check_leaves_what_was_built(small: Small, driver: Driver, tmp_path: Path) -> None:
    store = tmp_path / "store"
    (whole,) = driver.run(job(small, store))
    (counted,) = driver.run(job(small, store, "--check", count=True))
    for fatal in random.sample(range(1, counted["steps"]), 5):
        (killed,) = driver.run(job(small, store, "--check", fatal=fatal))
        assert killed["killed"] in (signal.SIGKILL, None), f"step {fatal}: {killed['err']}"
        assert killed["left"] == 0
        check_store(store)
    (again,) = driver.run(job(small, store, "--check"))
    assert (again["code"], again["out"]) == (0, whole["out"]), again["err"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_in_a_script_it_says_so_ends_the_sandbox_and_keeps_what_was_finished(
    small: Small, number: signal.Signals
) -> None:
    mark = marker()
    small.write("derivations/small/build.sh", sleeper(mark))
    with running(small, "image", "small", "--jobs", "1") as run:
        run.wait_for(lambda: with_argument(mark))
        ended = run.end(number, within_s=40)
    assert (ended.code, ended.out) == (130, "")
    assert "error: stopped\n  hint: run the same command again: everything finished is kept\n" in ended.err
    assert "Traceback" not in ended.err
    assert gone_within(20, mark), "the sandbox outlived its engine"
    check_store(small.store)
    small.write("derivations/small/build.sh", SCRIPT)
    asked = len(small.server.requests)
    again = small.derive("image", "small")
    assert again.code == 0, again.err
    assert again.err.startswith("small: 0 to fetch, ")
    assert len(small.server.requests) == asked


def test_killed_in_a_script_no_process_of_the_sandbox_survives(small: Small) -> None:
    mark = marker()
    small.write("derivations/small/build.sh", sleeper(mark))
    with running(small, "image", "small") as run:
        run.wait_for(lambda: with_argument(mark))
        run.end(signal.SIGKILL, within_s=40)
    assert gone_within(20, mark)
    check_store(small.store)


def test_interrupted_while_a_mirror_is_silent_it_ends_at_once(small: Small) -> None:
    small.serve("notes_1.0-1_amd64.deb", Reply(hang=True))
    with running(small, "image", "small") as run:
        run.wait_for(lambda: small.asked("notes_1.0-1_amd64.deb"))
        ended = run.end(signal.SIGINT, within_s=40)
    assert (ended.code, ended.out) == (130, "")
    assert "error: stopped\n" in ended.err
    check_store(small.store)


def test_interrupted_while_it_is_still_starting_it_says_so(small: Small) -> None:
    with running(small, "image", "small") as run:
        run.wait_for(lambda: "pydantic_core" in Path(f"/proc/{run.process.pid}/maps").read_text())
        ended = run.end(signal.SIGINT, within_s=40)
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.endswith("  hint: run the same command again: everything finished is kept\n")
