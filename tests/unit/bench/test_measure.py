# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import pytest

from speed.measure import CannotMeasureError, Sample, Samples, command, in_child, interleaved, watched

MB = 1_000_000


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_a_command_that_sleeps_takes_wall_time_and_hardly_any_of_a_core() -> None:
    sample = command(["sleep", "0.3"])
    assert sample.wall_ns >= 300 * MB
    assert sample.cpu_ns < 200 * MB


def test_a_command_that_fails_is_an_error_with_its_last_words() -> None:
    with pytest.raises(CannotMeasureError, match="exit code 3") as raised:
        command(["sh", "-c", "echo no such thing >&2; exit 3"])
    assert raised.value.detail == ("no such thing",)


def test_the_peak_of_a_watched_command_is_its_own_and_not_that_of_what_it_starts() -> None:
    large = "b'x' * 200_000_000"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {large!r}])"
    assert command(python(code)).peak_bytes > 200 * MB
    assert 1 * MB < watched(python(code)).peak_bytes < 100 * MB


def test_a_function_in_a_child_gives_its_answer_and_leaves_nothing_behind() -> None:
    seen: list[int] = []

    def work() -> int:
        seen.append(1)
        return os.getpid()

    sample, answer = in_child(work)
    assert answer != os.getpid()
    assert seen == []
    assert sample.wall_ns > 0


def test_the_time_of_a_function_includes_what_it_starts_and_not_the_fork() -> None:
    def work() -> None:
        deadline = time.process_time() + 0.1
        while time.process_time() < deadline:
            pass
        os.waitpid(os.posix_spawn(sys.executable, python("sum(range(10**7))"), os.environ), 0)

    sample, _ = in_child(work)
    assert sample.cpu_ns > 150 * MB


def test_a_function_that_raises_in_a_child_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CannotMeasureError):
        in_child(lambda: int("none"))
    assert "ValueError" in capfd.readouterr().err


def test_rounds_take_each_case_once_and_begin_with_another_each_time() -> None:
    taken: list[str] = []

    def case(name: str) -> Callable[[], Sample]:
        def run() -> Sample:
            taken.append(name)
            return Sample(wall_ns=len(taken), cpu_ns=1, peak_bytes=1)

        return run

    found = interleaved({name: case(name) for name in "abc"}, 3)
    assert "".join(taken) == "abcbcacab"
    assert found["a"].wall_ns == (1, 6, 8)


def test_cores_are_the_median_and_the_peak_is_the_largest() -> None:
    samples = Samples(tuple(Sample(wall_ns=10, cpu_ns=cpu, peak_bytes=cpu) for cpu in (20, 10, 15)))
    assert samples.cores == 1.5
    assert samples.peak_bytes == 20
