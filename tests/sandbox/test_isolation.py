# SPDX-License-Identifier: Apache-2.0
"""What a script cannot reach, tried by scripts: as root's engine and as an ordinary user's."""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from derive.canonical import EPOCH
from derive.sandbox.outcome import Exited

if TYPE_CHECKING:
    from sandbox.conftest import Box, OtherEngine

pytestmark = pytest.mark.sandbox

LISTENING = b"the host answers"


def test_a_script_is_uid_and_gid_1000_whoever_starts_it(engine: OtherEngine) -> None:
    assert engine.run("id -u; id -g; ls -ldn /build /out | cut -c1-10; stat -c %u:%g /build") == [
        "1000",
        "1000",
        "drwxr-xr-x",
        "drwxr-xr-x",
        "1000:1000",
        "Exited(status=0)",
    ]


def test_a_script_has_no_capability_and_cannot_gain_any(engine: OtherEngine) -> None:
    lines = engine.run("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\t'")
    assert lines == [
        *(f"Cap{kind}:0000000000000000" for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")),
        "NoNewPrivs:1",
        "Seccomp:2",
        "Exited(status=0)",
    ]


def test_root_s_groups_are_dropped(engine: OtherEngine) -> None:
    groups = engine.run("id -G")[0].split()
    assert set(groups) <= ({"1000", "65534"} if engine.as_nobody else {"1000"})


def test_nothing_that_matters_can_be_written(engine: OtherEngine) -> None:
    script = """
        for place in /x /usr/x /bin/x /etc/x /home/x /in/x /in/src/x /in/src/usr/x /proc/x /dev/x; do
            if (: > $place) 2>&1; then echo "wrote $place"; fi
        done > /tmp/log
        for place in /notes /usr/bin/busybox /in/.derive-script /in/src/notes /proc/sys/kernel/core_pattern \
                     /proc/sys/vm/drop_caches /proc/sysrq-trigger /proc/sys/kernel/hostname /proc/self/uid_map; do
            if (: >> $place) 2>&1; then echo "opened $place"; fi
        done >> /tmp/log
        for place in / /usr /notes /in /in/src /proc /dev; do
            if chmod 777 $place 2>&1; then echo "changed $place"; fi
        done >> /tmp/log
        grep -E '^(wrote|opened|changed)' /tmp/log || echo nothing
        wc -l < /tmp/log
    """
    assert engine.run(script) == ["nothing", "26", "Exited(status=0)"]


def test_the_host_s_files_do_not_exist(engine: OtherEngine) -> None:
    absent = f"/root /var /sys /run /etc/hostname /usr/bin/python3 {engine.place} {engine.root.folder}"
    lines = engine.run(f"ls -a / /home /etc; for f in {absent}; do ls -d $f 2>&1 || true; done")
    top = ["bin", "build", "dev", "etc", "home", "in", "notes", "out", "proc", "tmp", "usr"]
    assert lines[:14] == ["/:", ".", "..", *top]
    assert lines[14:22] == ["", "/etc:", ".", "..", "", "/home:", ".", ".."]
    assert len(lines[22:-1]) == 8
    assert all(line.endswith("No such file or directory") for line in lines[22:-1])


def test_a_nested_user_namespace_is_refused(engine: OtherEngine) -> None:
    assert engine.run("unshare -U true 2>&1 && echo yes || echo no")[-2] == "no"


def test_a_script_is_in_a_session_of_its_own(engine: OtherEngine) -> None:
    # A session that began outside has number 0 in here.
    assert int(engine.run("cut -d' ' -f6 /proc/self/stat")[0]) > 0


def test_only_the_sandbox_s_own_processes_are_visible(engine: OtherEngine) -> None:
    (count, outcome) = engine.run("ls /proc | grep -c '^[0-9]'")
    assert int(count) <= 4
    assert outcome == "Exited(status=0)"


def test_the_first_process_tells_nothing_of_the_host(engine: OtherEngine) -> None:
    script = "tr '\\0' '\\n' < /proc/1/cmdline; cat /proc/1/environ | wc -c"
    lines = engine.run(script)
    assert lines[0] == "bwrap"
    assert lines[-6:] == ["--", "/bin/sh", "-eu", "/in/.derive-script", "0", "Exited(status=0)"]
    assert all(word.startswith("--") or word.isdecimal() for word in lines[1:-6])


def test_there_is_a_loopback_and_no_other_network(engine: OtherEngine) -> None:
    script = "cut -s -d: -f1 /proc/net/dev | tr -d ' '; wc -l < /proc/net/route; ip -4 -o addr | wc -l"
    assert engine.run(script) == ["lo", "1", "1", "Exited(status=0)"]


def test_a_server_on_the_host_is_out_of_reach(engine: OtherEngine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0derive-test-{os.getpid()}")
        abstract.listen()
        server.settimeout(0.01)
        port = server.getsockname()[1]
        lines = engine.run(
            f"nc -w 2 127.0.0.1 {port} </dev/null 2>&1 && echo reached; grep -c derive-test /proc/net/unix || true"
        )
        with pytest.raises(TimeoutError):
            server.accept()
    assert "reached" not in lines
    assert lines[-2:] == ["0", "Exited(status=0)"]


def test_the_environment_is_exactly_the_fixed_list_and_the_derivation_s_own(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DERIVE_SECRET", "x")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    ran = box.run(("/usr/bin/env",), environment={"CC": "gcc -O2", "EMPTY": "", "NAME": "café"})
    assert sorted(ran.lines) == [
        "CC=gcc -O2",
        "DERIVE_JOBS=3",
        "DERIVE_OUT=/out",
        "EMPTY=",
        "HOME=/build",
        "LC_ALL=C.UTF-8",
        "NAME=café",
        "PATH=/usr/bin:/bin:/usr/sbin:/sbin",
        "PWD=/build",
        f"SOURCE_DATE_EPOCH={EPOCH}",
        "TZ=UTC",
    ]


def test_host_name_time_zone_umask_and_limits_are_fixed(box: Box) -> None:
    before = os.umask(0o077)
    try:
        ran = box.run(
            "hostname; uname -n; date +%Z; umask; ulimit -c; ulimit -n; touch /out/x; stat -c %a /out/x; pwd; echo $0"
        )
    finally:
        os.umask(before)
    assert ran.lines == [
        *("derive", "derive", "UTC", "0022", "0", "1024", "644", "/build", "/in/.derive-script"),
    ]


def test_no_descriptor_of_the_engine_is_inherited(box: Box, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("wb") as secret:
        os.set_inheritable(secret.fileno(), True)
        ran = box.run(("/usr/bin/ls", "/proc/self/fd"))
    assert ran.lines == ["0", "1", "2", "3"]  # 3 is the folder that ls reads


def test_signals_are_neither_blocked_nor_ignored(box: Box) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        ran = box.run(("/usr/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"))
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    ordinary = 2**31 - 1  # beyond them come two that the C library keeps for itself
    assert [int(line.split()[1], 16) & ordinary for line in ran.lines] == [0, 0]


def test_standard_input_is_empty(box: Box) -> None:
    assert box.run("cat | wc -c").lines == ["0"]


def test_the_devices_are_these_and_work(box: Box) -> None:
    ran = box.run(
        "find /dev -maxdepth 1 -type c | sort; echo x > /dev/null; head -c 4 /dev/zero | wc -c;"
        " head -c 4 /dev/urandom | wc -c; echo y > /dev/full && echo no; echo z > /dev/shm/z; : > /tmp/t"
    )
    assert ran.lines[:6] == [f"/dev/{name}" for name in ("full", "null", "random", "tty", "urandom", "zero")]
    assert ran.lines[6:8] == ["4", "4"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's sandbox runs as the owner of the machine's devices")
@pytest.mark.parametrize("how", ["/dev/null", "/dev/stdin", "/proc/self/fd/0"])
def test_the_host_s_devices_keep_their_modes(box: Box, how: str) -> None:
    before = Path("/dev/null").stat()
    try:
        box.run(f"chmod 600 {how} || true; touch {how} || true")
        after = Path("/dev/null").stat()
    finally:
        Path("/dev/null").chmod(stat.S_IMODE(before.st_mode))
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


def test_folders_with_strange_names_can_be_mounted(box: Box, tmp_path: Path) -> None:
    names = [b"a b", b"quote'\"", b"new\nline", b"caf\xe9", b"back\\slash\\040", b"comma,colon:", b"$HOME `id`", b"-x"]
    for number, name in enumerate(names):
        folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        folder.mkdir()
        (folder / "number").write_text(f"{number}\n")
        ran = box.run("cat /in/it/number; (: > /in/it/x) 2>/dev/null || echo sealed", inputs={"it": folder})
        assert (ran.outcome, ran.lines) == (Exited(0), [str(number), "sealed"]), name


def test_an_input_can_be_a_file(box: Box, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("contents\n")
    assert box.run(
        "cat /in/file; (: >> /in/file) 2>/dev/null || echo sealed", inputs={"file": tmp_path / "file"}
    ).lines == [
        "contents",
        "sealed",
    ]


def test_names_of_the_root_that_are_not_utf8_are_there(box: Box) -> None:
    assert box.run("cat /usr/share/caf*").lines == ["hello"]


def test_programs_can_be_made_and_run_in_the_work_folder(box: Box) -> None:
    ran = box.run("printf '#!/bin/sh\\necho made\\n' > x; chmod +x x; ./x; cp=$(cat x); [ -n \"$cp\" ]")
    assert (ran.outcome, ran.lines) == (Exited(0), ["made"])


def test_what_the_script_leaves_belongs_to_the_engine_s_user(box: Box) -> None:
    box.run("mkdir -p /out/usr; echo hello > /out/usr/x; echo kept > y")
    assert (box.scratch.out / "usr/x").read_text() == "hello\n"
    assert (box.scratch.out / "usr/x").stat().st_uid == os.geteuid()
    assert (box.scratch.work / "y").read_text() == "kept\n"


@pytest.fixture
def python(box: Box) -> Callable[[str], list[str]]:
    """Run Python code in a sandbox that shows the host's Python, to try system calls that busybox lacks."""
    import sys
    from dataclasses import replace

    from derive.sandbox.spec import MakeLink, ReadOnlyBind, sandbox_spec

    def run(code: str) -> list[str]:
        spec = sandbox_spec(box.request((os.path.realpath(sys.executable), "-I", "-S", "-c", code)))
        kept = [
            m for m in spec.mounts if not (isinstance(m, ReadOnlyBind | MakeLink) and m.target in (b"/usr", b"/bin"))
        ]
        shown = [ReadOnlyBind(os.fsencode(p), os.fsencode(p)) for p in {"/usr", sys.base_prefix} if p != "/"]
        extra = [
            MakeLink(os.fsencode(Path(p).readlink()), os.fsencode(p))
            if Path(p).is_symlink()
            else ReadOnlyBind(os.fsencode(p), os.fsencode(p))
            for p in ("/lib", "/lib64")
            if Path(p).exists()
        ]
        lines: list[str] = []
        box.sandbox.run(
            replace(spec, mounts=(*shown, *extra, *kept)), log=lambda line: lines.append(line.decode()), timeout_s=30
        )
        return lines

    return run


def test_socket_families_that_leave_the_namespace_are_unsupported(python: Callable[[str], list[str]]) -> None:
    code = """
import socket
for family in (1, 2, 10, 16, 38, 40, 31, 17):
    try:
        socket.socket(family, socket.SOCK_STREAM if family != 16 else socket.SOCK_RAW).close()
        print(family, "ok")
    except OSError as error:
        print(family, error.errno)
"""
    assert python(code) == ["1 ok", "2 ok", "10 ok", "16 ok", "38 97", "40 97", "31 97", "17 97"]


def test_key_rings_io_uring_and_the_kernel_log_are_shut(python: Callable[[str], list[str]]) -> None:
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
keyctl, syslog = (250, 103) if os.uname().machine == "x86_64" else (219, 116)
for number, arguments in ((keyctl, (0, -3, 0)), (425, (1, 0)), (syslog, (10, 0, 0))):
    print(libc.syscall(number, *arguments), ctypes.get_errno())
"""
    assert python(code) == ["-1 38", "-1 38", "-1 1"]
