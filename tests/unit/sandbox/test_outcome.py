# SPDX-License-Identifier: Apache-2.0
"""How a run ended becomes one clear error, or none."""

from __future__ import annotations

import pytest

from derive.errors import BuildFailed, DeriveError, HostRefuses, Interrupted
from derive.sandbox.outcome import Cancelled, Exited, Lost, Outcome, TimedOut, describe, failure_of, start_failure


def failure(outcome: Outcome) -> DeriveError:
    found = failure_of(outcome, name="perftest", log="/logs/1")
    assert found is not None
    return found


def test_success_is_no_error() -> None:
    assert failure_of(Exited(0), name="perftest", log=None) is None


def test_a_failing_script_names_its_status_and_log() -> None:
    found = failure(Exited(2))
    assert isinstance(found, BuildFailed)
    assert (found.message, found.detail, found.log) == (
        "the script of perftest failed",
        ("exit status  2",),
        "/logs/1",
    )


def test_a_hanging_script_is_another_error() -> None:
    found = failure(TimedOut(1.5))
    assert isinstance(found, BuildFailed)
    assert found.message == "the script of perftest hangs"
    assert "1.5 s" in found.detail[0]


def test_giving_up_is_an_interruption() -> None:
    assert isinstance(failure(Cancelled()), Interrupted)


def test_being_killed_from_outside_suggests_memory() -> None:
    found = failure(Lost())
    assert found.hint is not None
    assert "out-of-memory" in found.hint


@pytest.mark.parametrize(
    ("status", "text"),
    [(1, "1"), (127, "127"), (128, "128"), (137, "137 (signal 9, SIGKILL)"), (139, "139 (signal 11, SIGSEGV)")],
)
def test_statuses_in_words(status: int, text: str) -> None:
    assert describe(status) == text


def test_a_root_without_the_program_is_the_root_s_fault() -> None:
    found = start_failure(["bwrap: execvp /bin/sh: No such file or directory"], "/bin/sh")
    assert isinstance(found, BuildFailed)
    assert found.message == "the root has no /bin/sh that can run"


def test_a_program_without_its_bit_is_the_root_s_fault() -> None:
    assert isinstance(start_failure(["bwrap: execvp /bin/sh: Permission denied"], "/bin/sh"), BuildFailed)


def test_another_architecture_is_the_machine_s() -> None:
    found = start_failure(["noise", "bwrap: execvp /bin/sh: Exec format error"], "/bin/sh")
    assert isinstance(found, HostRefuses)
    assert "another architecture" in found.message


def test_anything_else_is_said_in_bubblewrap_s_words() -> None:
    found = start_failure(["bwrap: Can't find source path /x: No such file or directory"], "/bin/sh")
    assert isinstance(found, HostRefuses)
    assert found.detail == ("bwrap: Can't find source path /x: No such file or directory",)
