# SPDX-License-Identifier: Apache-2.0
"""What goes wrong outside: one clear error each, with the right exit code, nothing lost, and the log's path."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from derive.net.http import Settings
from support.cli import Ran
from support.require import skip_or_fail
from support.servers import Reply
from support.small import Small, add_wheels, notes_deb, small_project
from support.store_check import check_store, realised

NOTES = "notes_1.0-1_amd64.deb"
WHOLE = notes_deb("amd64")
SCRIPT = "derivations/small/build.sh"
OUT = 'mkdir -p "$DERIVE_OUT/x"\n'


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as project:
        yield project


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fetches of this process wait for fractions of a second where they wait for minutes."""
    short = partial(Settings, connect_s=1, read_s=1, attempts=2, first_delay_s=0.01)
    monkeypatch.setattr("derive.net.fetch.Settings", short)


def error_of(ran: Ran, code: int) -> str:
    """Return the error of a command that failed as it should: its words, without those about progress."""
    assert ran.code == code, ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err
    assert "a fault of derive" not in ran.err
    assert ran.err.count("error: ") == 1, ran.err
    return ran.err[ran.err.index("error: ") :]


def log_of(error: str) -> str:
    """Return the log that an error names."""
    found = re.search(r"^  log:  (.*)$", error, re.MULTILINE)
    assert found, error
    return Path(found[1]).read_text()


# Upstreams


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (WHOLE[:-4] + b"evil", "served other bytes"),
        (WHOLE[:-4], "got       8892 bytes"),
        (WHOLE + b"more", "got       8900 bytes"),
        (b"<html>log in first</html>", "got       25 bytes"),
    ],
    ids=["other", "shorter", "longer", "a page"],
)
def test_what_is_not_what_the_lock_names_is_refused_and_kept_nowhere(small: Small, body: bytes, words: str) -> None:
    small.serve(NOTES, Reply(body=body))
    error = error_of(small.here("image"), 3)
    assert f"notes 1.0-1: {NOTES} is not what the lock names" in error
    assert words in error
    assert f"/debian/pool/main/n/notes/{NOTES}: " in error
    check_store(small.store)
    small.serve(NOTES, Reply(body=WHOLE))
    assert small.here("image").answer.startswith("sha256:")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(body=WHOLE, cut=100, ranges=False), "the connection broke off"),
        (Reply(hang=True), "no answer in 1 s"),
        (Reply(status=503), "503 Service Unavailable"),
        (Reply(status=403), "403 Forbidden"),
    ],
    ids=["truncated", "hanging", "overloaded", "forbidden"],
)
def test_a_mirror_that_does_not_deliver_is_named_after_a_bounded_time(small: Small, reply: Reply, words: str) -> None:
    small.serve(NOTES, reply)
    started = time.monotonic()
    error = error_of(small.here("image"), 3)
    assert time.monotonic() - started < 60
    assert f"notes 1.0-1: {NOTES} could not be fetched" in error
    assert words in error
    assert "what was fetched is kept" in error
    check_store(small.store)
    small.serve(NOTES, Reply(body=WHOLE))
    assert small.here("image").answer.startswith("sha256:")
    assert small.asked("busybox_1.0-1_amd64.deb") == 1, "what was fetched is not fetched again"


@pytest.mark.usefixtures("impatient")
def test_a_transfer_that_breaks_off_goes_on_where_it_ended(small: Small) -> None:
    small.serve(NOTES, Reply(body=WHOLE, cut=5000), Reply(body=WHOLE))
    assert small.here("image").answer.startswith("sha256:")
    assert [r.headers.get("range") for r in small.server.requests if r.path.endswith(NOTES)] == [None, "bytes=5000-"]


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nobody listens, while a test runs."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"


@pytest.mark.usefixtures("impatient")
def test_an_unreachable_archive_is_said_with_its_address(small: Small, nobody: str) -> None:
    error = error_of(small.here("image", env={"DERIVE_MIRROR_DEBIAN": f"{nobody}/debian"}), 3)
    assert f"{nobody}/debian/pool/main/" in error
    assert "connection refused" in error


@pytest.mark.usefixtures("impatient")
def test_an_unreachable_index_is_said_with_its_address(small: Small, nobody: str) -> None:
    add_wheels(small)
    error = error_of(small.here("image", env={"DERIVE_MIRROR_PYTHON": f"{nobody}/simple"}), 3)
    assert error.startswith("error: demo 1.0: demo-1.0-py3-none-any.whl could not be fetched\n")
    assert f"tried     {nobody}/simple: connection refused" in error


def test_a_deb_that_no_mirror_serves_any_more_has_its_own_error_with_the_update_that_replaces_it(small: Small) -> None:
    small.serve(NOTES, Reply(status=404))
    error = error_of(small.here("image"), 3)
    assert f"notes 1.0-1: no mirror serves pool/main/n/notes/{NOTES}" in error
    assert "404 Not Found" in error
    assert "hint: run: derive lock --update notes, or configure an archive that still has it" in error


def test_everything_that_cannot_be_fetched_is_said_at_once(small: Small) -> None:
    small.serve(NOTES, Reply(status=404))
    small.serve("hello_1.0.orig.tar.gz", Reply(body=b"other"))
    error = error_of(small.here("image"), 3)
    assert error.startswith("error: 2 of 3 artifacts could not be fetched\n")
    assert "hello 1.0-1: hello_1.0.orig.tar.gz is not what the lock names" in error
    assert f"notes 1.0-1: no mirror serves pool/main/n/notes/{NOTES}" in error


def test_a_machine_whose_apt_names_no_debian_archive_is_told_the_variable_first(small: Small, tmp_path: Path) -> None:
    for name in ("apt-get", "apt-config"):
        tool = tmp_path / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    ran = small.derive("image", env={"DERIVE_MIRROR_DEBIAN": "", "PATH": path})
    assert error_of(ran, 3) == ran.err, "nothing is said before it"
    assert ran.err == (
        "error: this machine's apt names no Debian archive\n"
        "  hint: export DERIVE_MIRROR_DEBIAN=<url of a Debian archive>\n"
    )


# This machine


def test_without_bubblewrap_that_is_said_first_with_the_remedy(small: Small, tmp_path: Path) -> None:
    ran = small.derive("image", env={"PATH": str(tmp_path)})
    assert error_of(ran, 3) == ran.err
    assert "bubblewrap is not installed" in ran.err
    assert "hint: sudo apt-get install bubblewrap" in ran.err
    assert small.server.requests == []


def private(*, small: Small, mount: str) -> tuple[str, ...]:
    """Return a command prefix that mounts something of one's own first."""
    before = ("unshare", "--mount", "--map-root-user", "sh", "-c", f'{mount} && exec "$@"', "sh")
    small.store.mkdir(exist_ok=True)
    if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        skip_or_fail("no file system can be mounted in a namespace of one's own here")
    return before


@pytest.mark.parametrize("size", ["64k", "1m", "3m", "5m"])
def test_a_full_disk_is_said_and_with_more_space_the_same_command_finishes(small: Small, size: str) -> None:
    store = small.store
    before = private(
        small=small,
        mount=f'mount -t tmpfs -o size={size} none {store} && {{ "$@" >&2; echo "code $?" >&2;'
        f" ls {store}/tmp >&2; mount -o remount,size=64m {store}; }}",
    )
    ran = small.derive("image", before=before)
    assert ran.answer.startswith("sha256:")
    first, _, rest = ran.err.partition("code 3\n")
    assert first.count("error: ") == 1, ran.err
    assert "no space left" in first
    assert "Traceback" not in ran.err
    assert rest.startswith("small: "), "nothing was left in the staging folder"


def test_a_store_that_cannot_be_written_is_said_with_the_next_step(small: Small) -> None:
    digest = small.here("image").answer
    before = private(small=small, mount=f"mount --bind -o ro {small.store} {small.store}")
    assert small.derive("image", before=before).answer == digest  # it is known, and nothing need be written
    small.edit("derivations/small/build.sh", "hello is built", "hello is built again")
    error = error_of(small.derive("image", before=before), 3)
    assert "the store cannot be written" in error
    assert "hint: name a store that you can write to" in error


def test_a_store_in_a_folder_of_someone_else_is_said() -> None:
    if os.geteuid() != 0:
        skip_or_fail("only root can be someone else")
    # Outside pytest's own folder, which other users cannot enter.
    with tempfile.TemporaryDirectory(prefix="derive-small-") as name:
        place = Path(name)
        place.chmod(0o755)
        with small_project(place) as small:
            other = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
            error = error_of(small.derive("image", before=other), 3)
            said = f"error: {small.store}: the store cannot be opened: permission denied\n"
            assert error == f"{said}  hint: name a folder that can be written with --store or DERIVE_STORE\n"


def test_a_script_that_fails_shows_the_last_lines_that_it_printed(small: Small) -> None:
    says = "echo before; printf '\\033[31mred\\n'; false; cp /in/source/run"
    small.edit("derivations/small/build.sh", "cp /in/source/run", says)
    error = error_of(small.here("build", "hello"), 3)
    assert "\n       | before\n       | ?[31mred\n  log:  " in error


def test_offline_with_things_missing_lists_them_and_asks_nobody(small: Small) -> None:
    error = error_of(small.here("image", "--offline"), 3)
    assert error.startswith("error: offline, and 3 artifacts are not in the store\n")
    assert [line.split()[-1] for line in error.splitlines() if "missing  " in line] == [
        "busybox_1.0-1_amd64.deb",
        "hello_1.0.orig.tar.gz",
        NOTES,
    ]
    assert "hint: run once without --offline" in error
    assert small.server.requests == []


def test_offline_with_everything_there_it_builds_without_any_network(small: Small) -> None:
    assert small.here("image").code == 0
    small.edit(SCRIPT, "hello is built", "hello is built anew")
    asked = len(small.server.requests)
    ran = small.derive("image", "--offline", before=("unshare", "--net", "--map-root-user"))
    assert ran.answer.startswith("sha256:")
    assert "  hello  " in ran.err
    assert len(small.server.requests) == asked


# Scripts


def test_a_script_that_fails_gives_its_status_and_a_log_that_holds_what_it_said(small: Small) -> None:
    small.write(SCRIPT, "echo going down >&2\nexit 3\n")
    error = error_of(small.here("image"), 3)
    assert error.startswith("error: hello: the script of hello failed\n       exit status  3\n")
    assert log_of(error).startswith("going down\n")
    assert small.here("log", "hello").out == log_of(error)
    small.write(SCRIPT, OUT)
    assert ", 0 to fetch, " in small.here("plan").out
    assert small.here("image").code == 0


def test_a_script_that_hangs_is_stopped_at_its_timeout_and_that_is_said(small: Small) -> None:
    small.edit("derivations/small.toml", "timeout = 60", "timeout = 1")
    small.write(SCRIPT, "echo waiting for nothing\nsleep 1000\n")
    error = error_of(small.here("image"), 3)
    assert "the script of hello hangs" in error
    assert "stopped after  1 s, everything that it had started is killed" in error
    assert log_of(error).startswith("waiting for nothing\n")


def test_a_longer_timeout_builds_nothing_again(small: Small) -> None:
    first = small.here("image")
    small.edit("derivations/small.toml", "timeout = 60", "timeout = 61")
    again = small.here("image")
    assert (again.out, again.err) == (first.out, "")


def test_a_script_reaches_neither_network_nor_host_files(small: Small, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("only for the host")
    port = small.server.url.rpartition(":")[2]
    home = Path.home()
    small.write(
        SCRIPT,
        OUT
        + f'try() {{ if "$@" > /build/said 2>&1; then echo "yes: $*"; else echo "no: $*"; fi; }}\n'
        f"{{\n"
        f"try wget -T 2 -O - http://127.0.0.1:{port}/debian/\n"
        f"try nc -w 2 192.0.2.1 80\n"
        f"try nc -w 2 {socket.gethostname()} 80\n"
        f"try cat {secret}\n"
        f"try ls {home}\n"
        f"try cat /etc/shadow\n"
        f"try ls /proc/1/root{tmp_path}\n"
        f"try touch /usr/share/mine\n"
        f"try touch /in/source/mine\n"
        f"try mknod /build/disk b 8 0\n"
        f"try chmod 777 /\n"
        f"}} | sed 's,/build/,work:,; s,/in/,in:,' > \"$DERIVE_OUT/x/tried\"\n",
    )  # fmt: skip
    folder = small.here("build", "hello", "--path").answer
    tried = Path(folder, "x/tried").read_text().splitlines()
    assert len(tried) == 11
    assert [line for line in tried if not line.startswith("no: ")] == []
    assert {path.rpartition("/")[2] for path in small.server.paths()} == {
        "busybox_1.0-1_amd64.deb",
        "hello_1.0.orig.tar.gz",
    }


# Outputs


def test_a_fifo_in_an_output_is_refused_by_name(small: Small) -> None:
    small.write(SCRIPT, OUT + 'mkfifo "$DERIVE_OUT/x/pipe"\n')
    error = error_of(small.here("image"), 3)
    assert "the output of hello is no tree\n       x/pipe: a fifo, which no tree can hold\n" in error
    assert "x/pipe" in log_of(error)


def test_a_device_cannot_be_made_and_the_script_fails_for_it(small: Small) -> None:
    small.write(SCRIPT, OUT + 'mknod "$DERIVE_OUT/x/disk" b 8 0\n')
    assert "mknod: /out/x/disk: Operation not permitted" in log_of(error_of(small.here("image"), 3))


def test_special_bits_of_an_output_are_dropped_and_listed(small: Small) -> None:
    small.write(SCRIPT, OUT + 'cp /usr/bin/busybox "$DERIVE_OUT/x/su"\nchmod 4755 "$DERIVE_OUT/x/su"\n')
    folder = small.here("build", "hello", "--path").answer
    assert Path(folder, "x/su").stat().st_mode & 0o7777 == 0o555
    assert "dropped the special bits of x/su (mode 4755)" in small.here("log", "hello").out
    assert small.here("build", "notes").code == 0
    assert "notes:amd64: dropped mode 4755, setuid: /usr/share/notes/ping\n" in small.here("log", "notes").out


def test_an_output_that_names_paths_of_the_sandbox_is_refused_with_file_and_byte(small: Small) -> None:
    small.write(SCRIPT, OUT + 'echo "made in /build/x" > "$DERIVE_OUT/x/config"\n')
    error = error_of(small.here("image"), 3)
    assert (
        "the output of hello names paths of its sandbox\n       x/config: /build in its contents at byte 8\n" in error
    )


def test_the_root_of_a_script_without_a_shell_is_said(small: Small) -> None:
    small.edit("derivations/small.toml", 'root = "tools"', 'root = "notes"')
    assert "the root has no /bin/sh that can run" in error_of(small.here("image"), 3)


def test_a_step_that_differs_the_second_time_is_named_with_file_and_byte(small: Small) -> None:
    small.write(SCRIPT, OUT + 'echo "same $(head -c 8 /dev/urandom | sort | cat -v)" > "$DERIVE_OUT/x/random"\n')
    assert small.here("image").code == 0
    ran = small.here("image", "--check")
    assert ran.code == 1
    assert ran.out == ""
    assert "checked 11 steps: 1 differences\n" in ran.err
    assert re.search(r"^differs: hello, output out: x/random, contents, at byte \d+$", ran.err, re.MULTILINE)


def test_what_was_finished_before_a_failure_is_not_done_again(small: Small) -> None:
    small.write(SCRIPT, "exit 1\n")
    error_of(small.here("image", "--jobs", "1"), 3)
    kept = realised(small.store)
    assert kept >= 3
    plan = json.loads(small.here("plan", "--json").out)
    left = [step for step in plan["body"]["steps"] if step["action"] != "reuse"]
    assert len(left) <= 14 - kept
