# SPDX-License-Identifier: Apache-2.0
"""The memory guard as it is in the image, run beside real processes in real control groups."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile

from derive.build.check import check_closure
from derive.build.service import Options, evaluate, executor
from derive.canonical import decode, encode
from derive.derivations.model import closure
from derive.project import load_project
from derive.store.local import LocalStore
from support.cgroups import KINDS, Group, cgroup, wait_until
from support.cli import CHECKOUT, derive
from support.derived import AMD64, ARM64, PLATFORMS, Derived
from support.memguard import MEMINFO, NEVER_AVAILABLE, Guard, built, ended, false_proc, set_available
from support.require import skip_or_fail

pytestmark = pytest.mark.sandbox

SLEEP = ("sleep", "1000")
TREE = ("sh", "-c", "sleep 1000 & sh -c 'sleep 1000 & wait' & wait")
MANY = 60
BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
BOMBER = 64999  # a user of whom no process runs otherwise


@pytest.fixture(scope="module")
def programs(derived: Derived) -> dict[str, Path]:
    """The program for each platform."""
    return {platform: built(derived.store, platform) for platform in PLATFORMS}


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    """A group of version 2, or of the kind that the test names."""
    with cgroup(getattr(request, "param", "v2")) as one:
        yield one


@pytest.fixture
def guard(programs: dict[str, Path], tmp_path: Path, group: Group) -> Iterator[Guard]:
    """A guard of that group."""
    with Guard(programs[AMD64], tmp_path, group.path) as one:
        yield one


# The program


@pytest.mark.parametrize(("platform", "machine"), [(AMD64, "EM_X86_64"), (ARM64, "EM_AARCH64")])
def test_it_is_static_and_hardened_and_for_its_platform(programs: dict[str, Path], platform: str, machine: str) -> None:
    with programs[platform].open("rb") as stream:
        elf = ELFFile(stream)
        segments = {segment["p_type"]: segment for segment in elf.iter_segments()}
        dynamic = segments["PT_DYNAMIC"]
        assert isinstance(dynamic, DynamicSegment)
        tags = {tag.entry.d_tag: tag.entry.d_val for tag in dynamic.iter_tags()}
        assert (elf["e_machine"], elf["e_type"]) == (machine, "ET_DYN")
        assert "DT_NEEDED" not in tags
        assert "PT_INTERP" not in segments
        assert "PT_GNU_RELRO" in segments
        assert tags["DT_FLAGS"] & 0x8  # all is bound at the start
        assert segments["PT_GNU_STACK"]["p_flags"] & 0x1 == 0
        assert elf.get_section_by_name(".symtab") is None


def test_another_job_count_gives_the_same_bytes(programs: dict[str, Path], derived: Derived) -> None:
    assert programs
    project = load_project(CHECKOUT)
    with LocalStore(derived.store) as store:
        for platform in PLATFORMS:
            target = evaluate(project, "memguard", platform)
            but = {one.id for one in closure(target)} - {target.id}
            again = executor(store, Options(jobs=1), inner_jobs=7)
            count, differences = check_closure(target, again, lambda *_: None, but=but)
            assert (count, differences) == (1, [])


def test_its_unit_tests_pass_where_it_is_built(derived: Derived) -> None:
    ran = derive("build", "memguard-tests", "--path", "--store", str(derived.store))
    *passed, summary = (Path(ran.answer) / "results.txt").read_text().splitlines()
    assert all(line.startswith("passed  ") for line in passed)
    assert re.fullmatch(rf"{len(passed)} tests, [0-9]+ checks", summary)
    assert len(passed) > 20


def test_it_says_what_it_can_and_what_is_wrong_all_at_once(programs: dict[str, Path]) -> None:
    def run(*options: str) -> tuple[int, str, str]:
        done = subprocess.run([programs[AMD64], *options], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    assert run("--version") == (0, "memguard 1\n", "")
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    options = set(re.findall(r"--[a-z-]+", out))
    page = (CHECKOUT / "docs/memory-guard.md").read_text()
    assert {option for option in options if f"`{option}" not in page} == set()
    code, out, err = run("--floor", "5GB", "--interval=0", "--containers", "--phase", "steady", "--phase", "steady")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        (
            "memguard: --floor: expected a whole number of bytes, or one with KiB, MiB or GiB behind it "
            "(5GiB, 1536MiB), from 1 to 8388608GiB; got 5GB"
        ),
        "memguard: --interval: expected seconds from 0.01 to 60, without a unit (2, 0.25); got 0",
        "memguard: no option is called --containers",
        "memguard: --phase is given twice",
        "memguard: --container is missing",
        "memguard: --evidence is missing",
        "memguard: one of --cgroup and --cgroup-of-pid is needed",
        "memguard: see memguard --help",
    ]


@pytest.mark.parametrize(
    ("option", "values", "expected"),
    [
        (
            "container",
            ["", "a/b", "-a"],
            "a name of up to 128 letters, digits, _ . and -, with a letter or a digit at ",
        ),
        ("cgroup", ["", "docker/x"], "an absolute path"),
        ("cgroup_of_pid", ["0", "self"], "the number of a process, from 1 to 2147483647"),
        ("phase", ["", "stable"], "startup or steady"),
        ("floor", ["0", "5gib", "1.5GiB", "5 GiB"], "a whole number of bytes, or one with KiB, MiB or GiB behind it "),
        ("interval", [".25", "1s", "61", "0.001"], "seconds from 0.01 to 60, without a unit (2, 0.25)"),
        ("wait", ["86401", "-1"], "seconds from 0 to 86400, without a unit (120, 0.5)"),
        (
            "psi_full",
            ["0", "5%"],
            "percent above 0 and up to 100, with two decimals at most and without a sign (20, 12.5)",
        ),
        ("evidence", ["", "ev"], "the absolute path of a folder"),
        ("ready_file", ["ready", "/run/"], "the absolute path of a file"),
    ],
)
def test_a_value_that_cannot_be_is_told_with_what_can_be(
    programs: dict[str, Path], tmp_path: Path, option: str, values: list[str], expected: str
) -> None:
    left_out = {option: "", **({"cgroup": ""} if option == "cgroup_of_pid" else {})}
    argv = Guard(programs[AMD64], tmp_path, tmp_path).argv(**left_out)
    name = f"--{option.replace('_', '-')}"
    for value in values:
        done = subprocess.run([*argv, f"{name}={value}"], capture_output=True, text=True, check=False)
        said, hint = done.stderr.splitlines()
        assert done.returncode == 2
        assert said.startswith(f"memguard: {name}: expected {expected}")
        assert said.endswith(f"; got {value or 'an empty value'}")
        assert hint == "memguard: see memguard --help"


# The kill


@pytest.mark.parametrize("group", KINDS, indirect=True)
def test_below_the_floor_the_whole_tree_is_killed_and_evidence_is_left(guard: Guard, group: Group) -> None:
    process = group.start(*TREE)
    other = group.start(*SLEEP, below="below/deeper")
    wait_until(lambda: len(group.pids) == 5)
    ran = guard.run(floor=NEVER_AVAILABLE)
    assert ran.code == 3, ran.err
    assert group.pids == []
    assert (process.wait(), other.wait()) == (-signal.SIGKILL, -signal.SIGKILL)
    said = ran.err.splitlines()[-2:]
    assert re.fullmatch(
        r"memguard kraken steady: killed: [0-9.]+ GiB available, floor [0-9.]+ GiB; "
        r"no process is left after [0-9.]+ s, by (cgroup\.kill|signals|freeze and signals)",
        said[0],
    )
    assert re.fullmatch(rf"memguard kraken steady: evidence: {guard.evidence}/kraken-steady-\S+\.json", said[1])
    assert not guard.ready.exists()


def test_evidence_is_a_canonical_record_of_what_was_seen(guard: Guard, group: Group, tmp_path: Path) -> None:
    proc = false_proc(tmp_path)
    process = group.start(*SLEEP)
    for name, text in (("statm", "900 300 1 1 0 1 0\n"), ("comm", 'a "name" of %\n')):
        (tmp_path / f"proc/{process.pid}").mkdir(exist_ok=True)
        (tmp_path / f"proc/{process.pid}/{name}").write_text(text)
    (tmp_path / "proc/zoneinfo").write_text("Node 0, zone Normal\n        boost    3\n")
    running = guard.start(floor="300KiB", proc=proc, phase="startup", psi_full="99.5")
    guard.wait_for("guarding")
    time.sleep(3)  # more samples than are kept
    set_available(tmp_path, 299)
    assert ended(running).code == 3
    data, record = guard.record()
    body = record["body"]
    assert data == encode(decode(data))
    assert (record["derive"], record["kind"], record["subject"]) == ("record/1", "memory-guard", "kraken")
    (file,) = guard.evidence.iterdir()
    assert re.fullmatch(rf"kraken-startup-[0-9]{{8}}T[0-9]{{6}}Z-{body['monotonic_ns']}\.json", file.name)
    assert (body["reason"], body["phase"], body["dry_run"]) == ("below-floor", "startup", False)
    assert (body["floor_bytes"], body["interval_ns"], body["cgroup"]) == (300 * 1024, 10_000_000, str(group.path))
    assert (body["psi_full_hundredths_percent"], body["psi_for_ns"]) == (9950, 5_000_000_000)
    assert abs(body["realtime_s"] - time.time()) < 60
    assert (body["killing"]["ended"], body["killing"]["spared"]) == (True, False)
    assert body["meminfo"] == MEMINFO.replace("500 kB", "299 kB")
    page = os.sysconf("SC_PAGESIZE")
    assert body["processes"]["count"] == 1
    assert body["processes"]["largest"] == [
        {"name": 'a "name" of %25', "pid": process.pid, "resident_bytes": 300 * page}
    ]
    samples = body["samples"]
    assert len(samples) == 256
    assert samples[-1] == {
        "available_bytes": 299 * 1024,
        "boost_bytes": 3 * page,
        "free_bytes": 400 * 1024,
        "monotonic_ns": body["monotonic_ns"],
        "psi_full_hundredths_percent": 5000,
        "psi_some_hundredths_percent": 6000,
        "swap_free_bytes": 0,
    }
    assert {one["available_bytes"] for one in samples[:-1]} == {500 * 1024}
    times = [one["monotonic_ns"] for one in samples]
    assert times == sorted(times)


@pytest.mark.parametrize("group", KINDS, indirect=True)
def test_what_forks_without_end_is_killed_all_the_same(guard: Guard, group: Group, tmp_path: Path) -> None:
    limits = ("setpriv", f"--reuid={BOMBER}", "--clear-groups", "prlimit", f"--nproc={MANY}")
    python = os.path.realpath(sys.executable)
    with (tmp_path / "bomb.log").open("wb") as log:
        process = group.start(*limits, "nice", python, "-I", "-S", "-c", BOMB, log=log)
        try:
            wait_until(lambda: process.poll() is not None or len(group.pids) > MANY // 2)
            if process.poll() is not None:
                skip_or_fail(f"another user cannot run {python}: {(tmp_path / 'bomb.log').read_text()}")
            ran = guard.run(floor=NEVER_AVAILABLE)
            assert ran.code == 3, ran.err
            assert group.pids == []
        finally:
            group.remove()


@pytest.mark.parametrize("group", ["v2", "v1-freezer"], indirect=True)
def test_a_paused_container_is_killed_too(guard: Guard, group: Group) -> None:
    process = group.start(*SLEEP)
    file, word = ("cgroup.freeze", "1") if (group.path / "cgroup.freeze").exists() else ("freezer.state", "FROZEN")
    (group.path / file).write_text(word)
    assert guard.run(floor=NEVER_AVAILABLE).code == 3
    assert process.wait() == -signal.SIGKILL


def test_where_the_kernel_kills_no_group_its_processes_are_frozen_and_killed(guard: Guard, group: Group) -> None:
    process = group.start(*TREE)
    other = group.start(*SLEEP, below="below")
    wait_until(lambda: len(group.pids) == 5)
    file = group.path / "cgroup.kill"
    subprocess.run(["mount", "-n", "--bind", "/dev/full", file], check=True)  # every write fails
    try:
        assert guard.run(floor=NEVER_AVAILABLE).code == 3
    finally:
        subprocess.run(["umount", "-n", file], check=True)
    assert (process.wait(), other.wait(), group.pids) == (-signal.SIGKILL, -signal.SIGKILL, [])
    assert "frozen 0" in (group.path / "cgroup.events").read_text()
    killing = guard.record()[1]["body"]["killing"]
    assert (killing["method"], killing["ended"]) == ("freeze and signals", True)
    assert killing["signals"] >= 5


@pytest.mark.parametrize("group", KINDS, indirect=True)
def test_a_guard_that_was_moved_into_the_group_kills_the_others_and_not_itself(guard: Guard, group: Group) -> None:
    process = group.start(*TREE)
    other = group.start(*SLEEP, below="below")
    running = guard.start(proc=false_proc(guard.place))
    guard.wait_for("guarding")
    (group.path / "cgroup.procs").write_text(str(running.pid))
    wait_until(lambda: len(group.pids) == 6)
    set_available(guard.place, 0)
    ran = ended(running)
    assert (ran.code, process.wait(), other.wait(), group.pids) == (3, -signal.SIGKILL, -signal.SIGKILL, [])
    assert "no process is left after 0." in ran.err
    assert "by signals, which spared the guard or the machine's first process: it is in the group" in ran.err
    killing = guard.record()[1]["body"]["killing"]
    assert (killing["method"], killing["ended"], killing["spared"]) == ("signals", True, True)
    assert killing["signals"] >= 5
    assert not guard.ready.exists()


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "moved-inside"])
def test_processes_that_remain_are_told_with_a_code_of_their_own(guard: Guard, inside: bool) -> None:
    with cgroup("v1") as plain, cgroup("v1-freezer") as freezer:
        process = plain.start(*SLEEP)
        freezer.path.mkdir()
        (freezer.path / "cgroup.procs").write_text(str(process.pid))
        (freezer.path / "freezer.state").write_text("FROZEN")
        running = guard.start(cgroup=str(plain.path), proc=false_proc(guard.place), kill_wait="0.2")
        guard.wait_for("guarding")
        if inside:
            (plain.path / "cgroup.procs").write_text(str(running.pid))
        set_available(guard.place, 0)
        ran = ended(running)
        (freezer.path / "freezer.state").write_text("THAWED")
        assert process.wait() == -signal.SIGKILL
    assert ran.code == 4
    assert "PROCESSES REMAIN after 0." in ran.err
    killing = guard.record()[1]["body"]["killing"]
    assert (killing["ended"], killing["spared"]) == (False, inside)


def test_pressure_that_lasts_kills_where_it_is_asked_to(guard: Guard, group: Group, tmp_path: Path) -> None:
    process = group.start(*SLEEP)
    options = {"proc": false_proc(tmp_path), "psi_full": "20"}
    running = guard.start(**options, psi_for="60")
    guard.wait_for("guarding")
    running.terminate()
    assert ended(running).code == 0
    assert process.poll() is None
    ran = guard.run(**options, psi_for="0.1")
    assert ran.code == 3
    assert "all tasks wait for memory 50.00% of the time, limit 20.00%" in ran.err
    assert process.wait() == -signal.SIGKILL
    assert guard.record()[1]["body"]["reason"] == "pressure"


@pytest.mark.parametrize("meminfo", ["", "MemTotal: 1000 kB\n", "garbage " * 3000], ids=["empty", "short", "garbage"])
def test_memory_that_cannot_be_read_kills_and_is_no_success(
    guard: Guard, group: Group, tmp_path: Path, meminfo: str
) -> None:
    process = group.start(*SLEEP)
    ran = guard.run(proc=false_proc(tmp_path, meminfo))
    assert ran.code == 1
    assert "killed: the available memory cannot be told; no process is left" in ran.err
    assert process.wait() == -signal.SIGKILL
    assert guard.record()[1]["body"]["samples"][-1]["available_bytes"] is None


def test_nobody_reading_its_lines_does_not_hold_up_the_kill(guard: Guard, group: Group) -> None:
    process = group.start(*SLEEP)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * size)
    os.set_blocking(writer, True)
    argv = guard.argv(floor=NEVER_AVAILABLE)
    assert subprocess.run(argv, stderr=writer, check=False, timeout=30).returncode == 3
    os.close(reader)
    os.close(writer)
    assert process.wait() == -signal.SIGKILL
    assert guard.record()


def test_evidence_that_cannot_be_written_is_said_after_the_kill(guard: Guard, group: Group) -> None:
    process = group.start(*SLEEP)
    running = guard.start(floor="1KiB", proc=false_proc(guard.place))
    guard.wait_for("guarding")
    guard.evidence.rmdir()
    set_available(guard.place, 0)
    ran = ended(running)
    assert ran.code == 3
    assert "cannot write evidence" in ran.err
    assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("options", "reason"), [("size=64k", "No space left on device"), ("ro", "Read-only file system")]
)
def test_evidence_that_would_be_lost_is_said_at_the_start_and_the_guard_guards(
    guard: Guard, group: Group, options: str, reason: str
) -> None:
    process = group.start(*SLEEP)
    guard.evidence.mkdir()
    subprocess.run(["mount", "-n", "-t", "tmpfs", "-o", options, "none", guard.evidence], check=True)
    try:
        running = guard.start(proc=false_proc(guard.place))
        guard.wait_for("guarding")
        assert list(guard.evidence.iterdir()) == []
        set_available(guard.place, 0)
        ran = ended(running)
    finally:
        subprocess.run(["umount", "-n", guard.evidence], check=True)
    assert (ran.code, process.wait()) == (3, -signal.SIGKILL)
    assert ran.err.splitlines()[0] == (
        "memguard kraken steady: warning: guards, but the evidence of a kill would be lost: "
        f"cannot write 256 KiB to {guard.evidence}: {reason}"
    )


def test_a_dry_run_does_all_but_kill(guard: Guard, group: Group) -> None:
    process = group.start(*SLEEP)
    ran = guard.run("--dry-run", floor=NEVER_AVAILABLE)
    assert ran.code == 3
    assert "would kill (dry run): " in ran.err
    assert process.poll() is None
    body = guard.record()[1]["body"]
    assert (body["dry_run"], body["killing"]) == (True, None)


# The life of a guard


@pytest.mark.parametrize("group", KINDS, indirect=True)
def test_it_waits_for_the_container_guards_it_and_ends_with_it(guard: Guard, group: Group) -> None:
    guard.ready.write_text("of an earlier guard\n")
    running = guard.start(wait="30")
    guard.wait_for("waiting")
    process = group.start(*SLEEP)
    guard.wait_for("guarding")
    assert group.pids == [process.pid]
    process.kill()
    process.wait()
    ran = ended(running)
    assert ran.code == 0
    assert ran.err.splitlines()[-1] == "memguard kraken steady: the container has ended"
    assert not guard.ready.exists()
    assert list(guard.evidence.iterdir()) == []


def test_a_group_that_is_removed_has_ended_too(guard: Guard, group: Group) -> None:
    process = group.start(*SLEEP)
    running = guard.start()
    guard.wait_for("guarding")
    process.kill()
    process.wait()
    group.remove()
    assert ended(running).code == 0


def test_a_container_that_does_not_appear_in_time_is_no_success(guard: Guard) -> None:
    start = time.monotonic()
    ran = guard.run(wait="0.3")
    assert time.monotonic() - start >= 0.3
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == "memguard kraken steady: the container did not appear in time"


def test_below_the_floor_it_is_not_ready_for_a_container(guard: Guard) -> None:
    running = guard.start(wait="0.3", floor=NEVER_AVAILABLE)
    while running.poll() is None:
        assert not guard.ready.exists()
        time.sleep(0.005)
    assert ended(running).code == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_guard_that_is_told_to_stop_leaves_the_container_running(
    guard: Guard, group: Group, number: signal.Signals
) -> None:
    process = group.start(*SLEEP)
    running = guard.start(interval="60")
    guard.wait_for("guarding")
    running.send_signal(number)
    ran = ended(running)
    assert ran.code == 0
    assert ran.err.splitlines()[-1] == "memguard kraken steady: told to stop: guards no more"
    assert process.poll() is None
    assert not guard.ready.exists()


def test_a_guard_that_takes_over_keeps_its_ready_file(guard: Guard, group: Group) -> None:
    process = group.start(*SLEEP)
    first = guard.start(phase="startup")
    guard.wait_for("guarding")
    second = guard.start()
    wait_until(lambda: guard.says("guarding") and _sleeps(second))
    first.terminate()
    assert ended(first).code == 0
    assert guard.says("guarding")
    second.terminate()
    assert ended(second).code == 0
    assert process.poll() is None


def _sleeps(process: subprocess.Popen[str]) -> bool:
    """Say whether a guard sleeps between two looks."""
    return "sigtimedwait" in Path(f"/proc/{process.pid}/wchan").read_text()


# What it refuses


@pytest.mark.parametrize(
    ("floor", "got"), [("1000KiB", "0.00 GiB (1024000"), ("1000GiB", "1000.00 GiB (1073741824000")]
)
def test_a_floor_that_the_machine_can_never_have_is_refused_before_the_first_look(
    guard: Guard, group: Group, tmp_path: Path, floor: str, got: str
) -> None:
    process = group.start(*SLEEP)
    ran = guard.run(floor=floor, proc=false_proc(tmp_path))
    assert ran.code == 2
    assert ran.err == (
        "memguard kraken steady: --floor can never be available: "
        f"expected less than MemTotal, 0.00 GiB (1024000 bytes); got {got} bytes)\n"
    )
    assert process.poll() is None
    assert list(guard.evidence.iterdir()) == []


def test_a_floor_above_half_of_the_memory_is_warned_of_and_taken(guard: Guard, group: Group, tmp_path: Path) -> None:
    process = group.start(*SLEEP)
    proc = false_proc(tmp_path)
    set_available(tmp_path, 900)
    running = guard.start(floor="501KiB", proc=proc)
    guard.wait_for("guarding")
    running.terminate()
    ran = ended(running)
    assert (ran.code, process.poll()) == (0, None)
    (warning,) = [line for line in ran.err.splitlines() if "warning" in line]
    assert warning == (
        "memguard kraken steady: warning: --floor is more than half of MemTotal, 0.00 GiB (1024000 bytes): "
        "0.00 GiB (513024 bytes)"
    )


def test_a_group_is_named_in_one_way_only(guard: Guard) -> None:
    ran = guard.run(cgroup_of_pid="2")
    assert (ran.code, ran.err.splitlines()[0]) == (
        2,
        "memguard: --cgroup and --cgroup-of-pid: give one of them, not both",
    )


def test_it_does_not_guard_what_must_not_be_killed(guard: Guard, group: Group, tmp_path: Path) -> None:
    process = group.start(*SLEEP)
    for path, reason in [
        (group.path.parent, "is the top of a hierarchy: everything that runs is in it"),
        (tmp_path, "is no cgroup"),
        (Path("/dev/null"), "is no cgroup"),
    ]:
        ran = guard.run(cgroup=str(path), floor=NEVER_AVAILABLE)
        assert (ran.code, ran.err.splitlines()[-1]) == (2, f"memguard kraken steady: {path} {reason}")
    join = ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group.path / "cgroup.procs"))
    ran = guard.run_after(join, floor=NEVER_AVAILABLE)
    assert ran.code == 2
    assert "holds the guard itself" in ran.err
    assert process.poll() is None


def test_without_locked_memory_it_does_not_begin(guard: Guard) -> None:
    ran = guard.run_after(("setpriv", "--bounding-set=-ipc_lock", "prlimit", "--memlock=4096"))
    assert ran.code == 1
    assert "cannot lock its memory (a unit needs LimitMEMLOCK=infinity)" in ran.err


@pytest.mark.parametrize("group", ["v2", "v1-freezer"], indirect=True)
def test_the_group_of_a_process_is_found(guard: Guard, group: Group) -> None:
    process = group.start(*SLEEP)
    ran = guard.run(cgroup="", cgroup_of_pid=str(process.pid), floor=NEVER_AVAILABLE)
    assert ran.code == 3, ran.err
    assert process.wait() == -signal.SIGKILL
    assert Path(guard.record()[1]["body"]["cgroup"]).name == group.path.name


def test_a_process_that_shares_the_guards_group_is_not_guarded(guard: Guard) -> None:
    ran = guard.run(cgroup="", cgroup_of_pid=str(os.getpid()))
    assert (ran.code, ran.err) == (
        2,
        "memguard kraken steady: the process of --cgroup-of-pid cannot be guarded: it is in no cgroup of its own\n",
    )


@pytest.mark.parametrize(("pid", "code"), [("1", 2), ("2147483647", 1)], ids=["first", "none"])
def test_the_first_process_is_refused_and_one_that_is_not_there_is_not_found(guard: Guard, pid: str, code: int) -> None:
    assert guard.run(cgroup="", cgroup_of_pid=pid).code == code
