# SPDX-License-Identifier: Apache-2.0
"""How quick executors are, by what the same steps took here and there."""

from __future__ import annotations

from derive.schedule.speeds import Speed, Timed, speeds


def timed(name: str, seconds: float, executor: str | None = None) -> Timed:
    return Timed(name=name, host="linux/arm64", builder="script/1", executor=executor, duration_ns=int(seconds * 10**9))


def test_a_speed_is_the_median_over_the_steps_built_at_both_places() -> None:
    rows = [timed("a", 10), timed("a", 5, "x"), timed("b", 30), timed("b", 10, "x"), timed("c", 8), timed("c", 8, "x")]
    assert speeds(rows) == {"x": Speed(speed=2000, steps=3)}


def test_steps_that_only_one_of_them_built_say_nothing() -> None:
    assert speeds([timed("a", 10), timed("b", 5, "x")]) == {}


def test_steps_too_short_to_tell_a_speed_say_nothing() -> None:
    assert speeds([timed("a", 0.5), timed("a", 5, "x")]) == {}


def test_several_runs_of_a_step_count_as_their_median() -> None:
    rows = [timed("a", 9), timed("a", 10), timed("a", 90), timed("a", 20, "x")]
    assert speeds(rows) == {"x": Speed(speed=500, steps=1)}
