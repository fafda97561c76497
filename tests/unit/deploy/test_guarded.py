# SPDX-License-Identifier: Apache-2.0
"""A guard that a supervisor starts, as the supervisor sees it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from derive.deploy.node.guarded import Guard, is_halted


def test_the_word_of_a_guard_that_was_killed_is_not_taken_for_that_of_the_next(tmp_path: Path) -> None:
    ready = tmp_path / "guard-steady"
    ready.write_text("guarding\n")
    guard = Guard("steady", {"words": ["sleep", "60"], "ready": str(ready)}, tmp_path)
    try:
        assert guard.says() == ""
        ready.write_text("guarding\n")
        assert guard.says() == "guarding"
    finally:
        guard.process.kill()
        guard.process.wait()


def test_a_process_that_was_halted_is_known_and_one_that_sleeps_is_none() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert not is_halted(process.pid)
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert is_halted(process.pid)
        process.kill()
