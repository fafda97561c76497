# SPDX-License-Identifier: Apache-2.0
"""A command that judges: its exit code, and that nothing which it started outlives it, its time, or derive."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from derive.bisect.command import call
from derive.errors import HostRefuses, InputErrors
from support.cli import environment

# A child that no longer belongs to the command's session, and one that ignores being asked to end.
STAYS = "setsid sleep 300 & echo $! > away; (trap '' TERM; sleep 300 & wait; sleep 300) & echo $! > deaf; sleep 0.2;"


def is_there(file: Path) -> bool:
    """Say whether the process whose number a file holds still runs."""
    try:
        return Path(f"/proc/{file.read_text().strip()}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(*files: Path) -> bool:
    """Wait for the end of processes, and say whether it came."""
    until = time.monotonic() + 15
    while any(is_there(file) for file in files) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(is_there(file) for file in files)


def written(file: Path) -> None:
    """Wait until a process wrote its number."""
    until = time.monotonic() + 15
    while not (file.exists() and file.read_text().strip()):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_exit_code_is_the_command_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(("sh", "-c", 'echo "$TOLD" > told; exit 7'), {"TOLD": "so"}, None) == 7
    assert Path("told").read_text() == "so\n"


def test_a_command_that_cannot_start_or_dies_of_a_signal_ends_the_search() -> None:
    with pytest.raises(InputErrors) as missing:
        call(("./not-there",), {}, None)
    assert missing.value.problems()[0].message == "cannot be run: no such file or directory"
    with pytest.raises(HostRefuses, match="ended by signal 9"):
        call(("sh", "-c", "kill -9 $$"), {}, None)


def test_what_a_command_leaves_running_is_ended_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(("sh", "-c", f"{STAYS} exit 3"), {}, None) == 3
    assert gone(tmp_path / "away", tmp_path / "deaf")


def test_a_command_whose_time_is_up_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(("sh", "-c", f"echo $$ > own; {STAYS} sleep 300"), {}, 1) is None
    assert gone(tmp_path / "own", tmp_path / "away", tmp_path / "deaf")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_command_ends_when_derive_alone_is_killed_or_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    script = f"echo $$ > own; {STAYS} echo > ready; sleep 300"
    code = f"from derive.bisect.command import call; call(('sh', '-c', {script!r}), {{}}, None)"
    caller = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL, start_new_session=True
    )
    written(tmp_path / "own")
    written(tmp_path / "deaf")
    caller.send_signal(number)
    caller.wait(timeout=20)
    assert gone(tmp_path / "own", tmp_path / "away", tmp_path / "deaf")
