# SPDX-License-Identifier: Apache-2.0
"""How runs end: statuses, time, giving up, being killed; and that nothing survives any of it."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from derive.errors import BuildFailed, HostRefuses
from derive.sandbox.outcome import Cancelled, Exited, Lost, TimedOut
from derive.sandbox.outputs import take_output
from derive.sandbox.request import RootFolder
from derive.sandbox.spec import sandbox_spec
from derive.store.memory import MemoryStore

if TYPE_CHECKING:
    from sandbox.conftest import Box, OtherEngine, Survivors

pytestmark = pytest.mark.sandbox


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("true", 0),
        ("exit 1", 1),
        ("exit 77", 77),
        ("false; echo not reached", 1),
        ("echo $UNSET_VARIABLE", 2),
        ("kill -9 $$", 137),
        ("kill -11 $$", 139),
        ("no-such-program", 127),
        ("if then", 2),
    ],
)
def test_exit_statuses_are_the_script_s_own(box: Box, script: str, status: int) -> None:
    ran = box.run(script)
    assert ran.outcome == Exited(status)
    assert "not reached" not in ran.lines


def test_lines_arrive_while_the_script_runs(box: Box) -> None:
    seen: list[bytes] = []

    def log(line: bytes) -> None:
        seen.append(line)
        if line == b"first":
            (box.scratch.work / "go").touch()

    ran = box.run("echo first; while ! [ -e go ]; do sleep 0.01; done; echo second", log=log)
    assert ran.outcome == Exited(0)
    assert seen == [b"first", b"second"]


def test_both_streams_come_merged_and_in_order(box: Box) -> None:
    assert box.run("echo a; echo b >&2; echo c").lines == ["a", "b", "c"]


def test_a_last_line_without_newline_and_empty_lines_are_kept(box: Box) -> None:
    assert box.run("printf '\\n\\na\\nb'").lines == ["", "", "a", "b"]


def test_a_line_without_end_comes_in_pieces(box: Box) -> None:
    pieces: list[int] = []
    box.run("head -c 300000 /dev/zero | tr '\\0' x; echo", log=lambda line: pieces.append(len(line)))
    assert sum(pieces) == 300_000
    assert max(pieces) <= 2**16
    assert len(pieces) < 20


def test_much_output_is_not_lost(box: Box) -> None:
    total = 0

    def log(line: bytes) -> None:
        nonlocal total
        total += len(line) + 1

    box.run("yes derive | head -n 1000000", log=log)
    assert total == 7_000_000


def test_a_script_that_hangs_is_its_own_outcome_and_leaves_nothing(box: Box, sleepers: Survivors) -> None:
    start = time.monotonic()
    ran = box.run(f"(sleep {sleepers.marker} &) ; echo up; sleep {sleepers.marker}", timeout_s=0.3)
    assert sleepers.now() == []
    assert ran.outcome == TimedOut(0.3)
    assert ran.lines == ["up"]
    assert time.monotonic() - start < 5


def test_a_script_that_ignores_signals_cannot_outlive_its_time(box: Box, sleepers: Survivors) -> None:
    script = f"trap '' TERM INT HUP QUIT; while :; do sleep {sleepers.marker} || true; done"
    assert box.run(script, timeout_s=0.2).outcome == TimedOut(0.2)
    assert sleepers.now() == []


def test_a_daemon_ends_with_its_script(box: Box, sleepers: Survivors) -> None:
    ran = box.run(f"setsid sh -c 'setsid sleep {sleepers.marker} & exit' </dev/null >/dev/null 2>&1; echo done")
    assert sleepers.now() == []
    assert (ran.outcome, ran.lines) == (Exited(0), ["done"])


def test_when_a_run_returns_its_last_daemon_has_written_its_last(box: Box) -> None:
    for _ in range(3):
        box.run("for i in $(seq 40); do (while :; do echo x >> /out/$i; done) </dev/null >/dev/null 2>&1 & done")
        sizes = [file.stat().st_size for file in sorted(box.scratch.out.iterdir())]
        time.sleep(0.02)
        assert [file.stat().st_size for file in sorted(box.scratch.out.iterdir())] == sizes


def test_a_daemon_that_keeps_the_log_open_does_not_keep_the_engine(box: Box, sleepers: Survivors) -> None:
    start = time.monotonic()
    assert box.run(f"sleep {sleepers.marker} & echo done").outcome == Exited(0)
    assert sleepers.now() == []
    assert time.monotonic() - start < 5


def test_a_script_that_closes_its_log_goes_on(box: Box) -> None:
    assert box.run("exec >&- 2>&-; sleep 0.1; touch /out/done").outcome == Exited(0)
    assert (box.scratch.out / "done").exists()


def test_a_storm_of_processes_ends_too(box: Box, sleepers: Survivors) -> None:
    ran = box.run(f"for i in $(seq 200); do sleep {sleepers.marker} & done; wait", timeout_s=1)
    assert sleepers.now() == []
    assert ran.outcome == TimedOut(1)


def test_giving_up_ends_the_run(box: Box, sleepers: Survivors) -> None:
    cancel = threading.Event()
    ran = box.run(f"echo up; sleep {sleepers.marker}", cancel=cancel, log=lambda _: cancel.set())
    assert ran.outcome == Cancelled()
    assert sleepers.now() == []


def test_an_event_that_is_set_already_starts_nothing_lasting(box: Box, sleepers: Survivors) -> None:
    cancel = threading.Event()
    cancel.set()
    assert box.run(f"sleep {sleepers.marker}", cancel=cancel).outcome == Cancelled()
    assert sleepers.now() == []


def test_a_log_that_fails_ends_the_run(box: Box, sleepers: Survivors) -> None:
    def log(_: bytes) -> None:
        raise OSError(28, "no space left on device")

    with pytest.raises(OSError, match="no space left"):
        box.run(f"echo up; sleep {sleepers.marker}", log=log)
    assert sleepers.now() == []


def test_no_descriptor_of_the_engine_leaks(box: Box) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for script in ("true", "exit 3", "sleep 5"):
        box.run(script, timeout_s=0.05)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_runs_side_by_side_do_not_meet(box: Box) -> None:
    results: list[list[str]] = []
    threads = [
        threading.Thread(
            target=lambda n=number: results.append(box.run(f"echo {n} > /tmp/x; sleep 0.2; cat /tmp/x; hostname").lines)
        )
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [[str(number), "derive"] for number in range(4)]


def test_an_engine_killed_with_9_takes_everything_with_it(engine: OtherEngine, sleepers: Survivors) -> None:
    with engine.start(f"(setsid sleep {sleepers.marker} &); echo up; sleep {sleepers.marker}") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert sleepers.there_within(5)
        process.kill()
        process.wait()
        assert sleepers.gone_within(5)


def test_an_engine_killed_while_its_sandbox_is_made_leaves_nothing(engine: OtherEngine, sleepers: Survivors) -> None:
    for trial in range(8):
        with engine.start(f"sleep {sleepers.marker}", marker=sleepers.marker) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "about to run\n"
            time.sleep(0.01 * trial)
            process.kill()
            process.wait()
    assert sleepers.gone_within(5)


def test_ctrl_c_ends_everything(engine: OtherEngine, sleepers: Survivors) -> None:
    with engine.start(f"echo up; sleep {sleepers.marker}") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.stdout.read()
        assert sleepers.now() == []
    assert list(engine.place.iterdir()) == []


@pytest.mark.parametrize("victim", [b"bwrap", os.fsencode(sys.executable)])
def test_a_sandbox_killed_from_outside_is_lost(box: Box, sleepers: Survivors, victim: bytes) -> None:
    def log(_: bytes) -> None:
        for pid in sleepers.now():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(victim):
                    os.kill(pid, signal.SIGKILL)

    ran = box.run(("/bin/sh", "-c", "while :; do echo up; sleep 0.1; done", sleepers.marker), log=log)
    assert ran.outcome == Lost()
    assert sleepers.gone_within(5)


def test_a_bubblewrap_that_has_gone_is_said_to_be(box: Box, tmp_path: Path) -> None:
    gone = replace(box.sandbox, program=str(tmp_path / "bwrap"))
    with pytest.raises(HostRefuses) as caught:
        gone.run(sandbox_spec(box.request("true")), log=lambda _: None)
    assert caught.value.detail == (f"bwrap: {tmp_path}/bwrap: No such file or directory",)


def test_a_root_without_the_program_is_a_failed_build(box: Box) -> None:
    with pytest.raises(BuildFailed) as caught:
        box.run(("/usr/bin/absent",))
    assert caught.value.message == "the root has no /usr/bin/absent that can run"


def test_a_root_of_another_architecture_is_said_to_be_one(box: Box, tmp_path: Path) -> None:
    header = struct.pack("<HHIQQQIHHHHHH", 2, 0xFE5A, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    (tmp_path / "root/bin").mkdir(parents=True)
    (tmp_path / "root/bin/sh").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + header + bytes(56))
    (tmp_path / "root/bin/sh").chmod(0o755)
    request = replace(
        box.request("true"),
        root=os.fsencode(tmp_path / "root"),
        root_entries=(RootFolder(name=b"bin", empty=False),),
    )
    with pytest.raises(HostRefuses) as caught:
        box.sandbox.run(sandbox_spec(request), log=lambda _: None)
    assert caught.value.message == "this machine cannot run the root's /bin/sh: it is for another architecture"


def test_what_cannot_be_mounted_is_said_in_bubblewrap_s_words(box: Box, tmp_path: Path) -> None:
    with pytest.raises(HostRefuses) as caught:
        box.run("true", inputs={"gone": tmp_path / "gone"})
    assert caught.value.detail == (f"bwrap: Can't find source path {tmp_path}/gone: No such file or directory",)


def test_devices_in_an_output_are_refused_by_name(box: Box) -> None:
    box.run("mkdir /out/usr; mkfifo /out/usr/pipe; mknod /out/whiteout c 0 0 || true; echo x > /out/y; ls -l /out")
    with pytest.raises(BuildFailed) as caught:
        take_output(MemoryStore(), box.scratch.out, name="it", store_path=None)
    assert "usr/pipe: a fifo, which no tree can hold" in caught.value.detail


def test_a_script_cannot_make_device_nodes(box: Box) -> None:
    ran = box.run("mknod /out/null c 1 3 2>&1 || echo refused; mknod /tmp/sda b 8 0 2>&1 || echo refused")
    assert ran.lines.count("refused") == 2


def test_folders_that_a_script_shut_are_read_all_the_same(box: Box) -> None:
    box.run("mkdir -p /out/a/b; echo x > /out/a/b/f; chmod 0 /out/a/b/f /out/a/b /out/a")
    listing = take_output(MemoryStore(), box.scratch.out, name="it", store_path=None)
    assert list(listing) == [b"", b"a", b"a/b", b"a/b/f"]
