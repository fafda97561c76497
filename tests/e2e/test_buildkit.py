# SPDX-License-Identifier: Apache-2.0
"""Steps on BuildKit, on real engines: the same as in this machine's sandbox, whatever they do and however they end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from derive.buildkit.builders import find_builder, usable_builder
from derive.buildkit.choose import require_builders
from derive.buildkit.run import BuildKitExecutor
from derive.buildkit.watch import Patience
from derive.canonical import Digest
from derive.errors import BuildFailed, HostRefuses, InputErrors, Interrupted, Unavailable
from derive.sandbox.request import Program
from derive.store.local import LocalStore
from derive.trees.listing import DIRECTORY, File, Listing
from support.buildkit import Client, Steps, busybox_root, client, daemon_of, tree_of
from support.cli import command, environment
from support.docker_engine import DockerEngine, ImageStore, default_binaries, docker_engine, why_unavailable
from support.require import skip_or_fail
from support.small import Small, small_project

pytestmark = [pytest.mark.docker, pytest.mark.sandbox]


@pytest.fixture(scope="module")
def docker() -> Path:
    reason = why_unavailable(default_binaries())
    if reason is not None:
        skip_or_fail(reason)
    return default_binaries()


@pytest.fixture(scope="module")
def builders(docker: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    assert docker.exists()
    with client(tmp_path_factory.mktemp("client") / "docker") as found:
        yield found


@pytest.fixture(scope="module")
def engine(docker: Path, builders: Client) -> Iterator[DockerEngine]:
    with docker_engine(store=ImageStore.CONTAINERD, binaries=docker) as running:
        builders.add("one", running.url)
        yield running


@pytest.fixture(scope="module")
def one(engine: DockerEngine) -> BuildKitExecutor:
    assert engine.folder.exists()
    return BuildKitExecutor(builders=("one",), tries=1)


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    with LocalStore(tmp_path_factory.mktemp("steps") / "store") as store:
        yield Steps(store, busybox_root(store))


@pytest.fixture
def marker() -> str:
    """The length of a sleep that nobody else sleeps."""
    return f"9{time.monotonic_ns()}"


def text_of(steps: Steps, listing: Listing, path: bytes) -> str:
    file = listing[path]
    assert isinstance(file, File)
    return b"".join(steps.store.read(file)).decode()


def tree_with(steps: Steps, name: bytes) -> Digest:
    """A root that no builder has seen."""
    listing = steps.store.listing(steps.root)
    return steps.store.add_listing(Listing.of({**listing, name: DIRECTORY}))


def sleeping(marker: str) -> bool:
    """Whether any process of this machine, a container's too, has the marker among its arguments as a whole."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                arguments = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if marker.encode() in arguments and arguments[0].endswith(b"sleep"):
                return True
    return False


def there(marker: str) -> bool:
    return within(30, lambda: sleeping(marker))


def gone(marker: str) -> bool:
    return within(15, lambda: not sleeping(marker))


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


SEEN = """\
id -u; id -g; hostname; pwd; umask; env | sort; ulimit -n; ulimit -c
ls -a /in /in/a /in/file /build /tmp; cat /in/a/x /in/file
ls -n /in/a /notes /usr/share; cat /etc/hosts
stat -c '%a %u %g %Y %n' /in/a /in/a/* /notes /usr/bin /usr/bin/busybox
stat -c '%a %u %g %n' /build /out /in/.derive-script; stat -c '%a %n' / /in /tmp /dev/shm
ls -d /proc/sys/net/ipv4/conf/*
touch /x /usr/x /in/a/x 2>/dev/null || echo refused
echo x >/proc/sys/kernel/hostname || echo refused
echo done >/dev/shm/x; echo done >/tmp/x; cat /tmp/x /dev/shm/x
"""


def test_a_script_sees_the_same_on_both(steps: Steps, one: BuildKitExecutor) -> None:
    folder, file = (tree_of(steps.store, files) for files in ({b"x": b"hello\n", b"d/y": b"deep\n"}, {b"": b"f\n"}))
    sources = {"a": folder, "file": file}
    variables = {"QUOTED": "a $b \"c\" 'd' \\ \n <<E é", "k": "own", "s": "own"}
    seen = []
    for executor in (None, one):
        steps.run(SEEN, executor, sources=sources, environment=variables)
        seen.append(steps.log.decode().splitlines())
    assert seen[0] == seen[1]


MADE = """\
cd $DERIVE_OUT
mkdir -p bin empty deep/er; echo '#!/bin/sh' >bin/tool; chmod 755 bin/tool; ln bin/tool bin/same; ln -s ../nowhere link
ln -s /absolute up; echo plain >plain; chmod 600 plain; echo x >closed; chmod 0 closed; mkdir shut; echo y >shut/y
chmod 0 shut; echo z >'sp ace'; : >'new
line'; : >'back\\slash'; : >"$(printf 'bad\\377')"; : >.wh.gone; echo s >special; chmod 4711 special; ln special other
cat /in/a/x >deep/er/copy; dd if=/dev/zero of=big bs=1024 count=3000 2>/dev/null; : >é; chmod 2755 deep
"""


def test_an_output_is_the_same_tree_whoever_ran_the_step(steps: Steps, one: BuildKitExecutor) -> None:
    sources = {"a": tree_of(steps.store, {b"x": b"hello\n"})}
    found, notes = [], []
    for executor in (None, one):
        found.append(steps.run(MADE, executor, sources=sources))
        notes.append(sorted(steps.lines))
    assert dict(found[0]) == dict(found[1])
    assert notes[0] == notes[1] != []
    assert steps.store.add_listing(found[0]) == steps.store.add_listing(found[1])


def test_an_empty_output_is_an_empty_tree(steps: Steps, one: BuildKitExecutor) -> None:
    assert dict(steps.run("true", one)) == dict(steps.run("true"))


FAILURES = {
    "a status": "echo said; exit 7",
    "a signal to itself": "kill -TERM $$; sleep 5",
    "a fifo in the output": "mkfifo $DERIVE_OUT/pipe",
    "a path of the sandbox in the output": "echo /in/a/x >$DERIVE_OUT/x",
}


@pytest.mark.parametrize("script", FAILURES.values(), ids=FAILURES)
def test_what_fails_fails_in_the_same_words(steps: Steps, one: BuildKitExecutor, script: str) -> None:
    said, logs = [], []
    for executor in (None, one):
        with pytest.raises(BuildFailed) as caught:
            steps.run(script, executor)
        said.append((caught.value.message, caught.value.hint))
        logs.append(steps.log)
    assert said[0] == said[1]
    assert logs[0] == logs[1]


def test_a_log_comes_byte_by_byte_and_its_two_streams_in_order(steps: Steps, one: BuildKitExecutor) -> None:
    script = "printf 'a\\377\\n'; echo b >&2; echo; printf '\\r#5 0.1 c\\n'; echo d >&2; printf 'no end'"
    logs = []
    for executor in (None, one):
        steps.run(script, executor)
        logs.append(steps.log)
    assert logs[0] == logs[1] == b"a\xff\nb\n\n\r#5 0.1 c\nd\nno end\n"


def test_a_line_of_the_log_comes_while_the_step_still_runs(steps: Steps, one: BuildKitExecutor, marker: str) -> None:
    heard = threading.Event()
    steps.heard = lambda data: heard.set() if data == b"first\n" else None
    try:
        with pytest.raises(Interrupted):  # the line itself gives up a step that would never end
            steps.run(f"echo first; sleep {marker}", one, cancel=heard)
    finally:
        steps.heard = lambda _: None
    assert steps.log == b"first\n"
    assert gone(marker)


def test_a_program_runs_without_a_shell(steps: Steps, one: BuildKitExecutor) -> None:
    bare = steps.store.add_listing(
        Listing.of({b"busybox": steps.store.listing(steps.root)[b"usr/bin/busybox"], b"tmp": DIRECTORY})
    )
    alone = Steps(steps.store, bare)
    found = alone.run(Program(argv=("/busybox", "cp", "/busybox", "/out/a")), one)
    assert found[b"a"] == steps.store.listing(bare)[b"busybox"]
    with pytest.raises(BuildFailed, match="the root has no /bin/sh that can run"):
        alone.run("true", one)
    with pytest.raises(BuildFailed, match="failed"):
        alone.run(Program(argv=("/busybox", "false")), one)


def test_a_step_runs_each_time_that_it_is_asked_for(steps: Steps, one: BuildKitExecutor) -> None:
    runs = [steps.run("cat /proc/sys/kernel/random/uuid >$DERIVE_OUT/x", one) for _ in range(2)]
    assert runs[0] != runs[1]


def test_a_root_is_sent_to_a_builder_once(steps: Steps, one: BuildKitExecutor) -> None:
    own = Steps(steps.store, tree_with(steps, b"once"))
    own.run("true", one)
    first = int(own.worker["sent_bytes"])
    own.run("echo other >$DERIVE_OUT/x", one)
    assert first > 500_000
    assert int(own.worker["sent_bytes"]) < 2000


def test_a_builder_that_stands_by_itself_gives_the_same_tree(
    steps: Steps, one: BuildKitExecutor, builders: Client
) -> None:
    script = "mkdir -p /out/a; echo x >/out/a/b; ln -s b /out/a/c"
    with builders.standing("far", "one"):
        far = steps.run(script, BuildKitExecutor(builders=("far",), tries=1))
        assert steps.worker["driver"] == "remote"
    assert far == steps.run(script, one) == steps.run(script)


def test_what_could_not_be_pinned_is_told(steps: Steps, one: BuildKitExecutor) -> None:
    steps.run("true", one)
    assert steps.worker["kernel"] == os.uname().release
    assert {"builder": "one", "driver": "docker", "executor": "buildkit"}.items() <= steps.worker.items()
    assert steps.worker["version"]


def test_a_step_has_no_network_and_none_of_the_clients_proxies(
    steps: Steps, one: BuildKitExecutor, builders: Client
) -> None:
    settings = builders.folder / "config.json"
    before = settings.read_text() if settings.exists() else "{}"
    proxies = {"default": {"httpProxy": "http://proxy.invalid:1", "noProxy": "none.invalid"}}
    settings.write_text(json.dumps({**json.loads(before), "proxies": proxies}))
    try:
        steps.run("env | grep -i proxy || echo none; ls /sys; wget http://192.0.2.1/ || echo refused", one)
    finally:
        settings.write_text(before)
    lines = steps.log.decode().splitlines()
    assert lines[0] == "none"
    assert "class" not in lines
    assert lines[-1] == "refused"


def test_a_step_that_hangs_is_stopped_where_it_runs(steps: Steps, one: BuildKitExecutor, marker: str) -> None:
    with pytest.raises(BuildFailed, match="hangs") as caught:
        steps.run(f"sleep {marker}", one, timeout_s=1)
    assert any("stopped after  1 s" in line for line in caught.value.detail)
    assert gone(marker)


def test_a_step_that_is_given_up_is_stopped_where_it_runs(steps: Steps, one: BuildKitExecutor, marker: str) -> None:
    cancel = threading.Event()

    def give_up() -> None:
        there(marker)
        cancel.set()

    given_up = threading.Thread(target=give_up)
    given_up.start()
    with pytest.raises(Interrupted):
        steps.run(f"sleep {marker}", one, cancel=cancel)
    given_up.join()
    assert gone(marker)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as project:
        yield project


def outputs_of(store: Path) -> dict[str, dict[str, str]]:
    with LocalStore(store, reading=True) as opened, opened.database.cursor() as cursor:
        return dict(cursor.execute("SELECT resolved, outputs FROM realisations").fetchall())


def test_an_image_is_the_same_by_each_digest_whoever_ran_its_script(
    small: Small, one: BuildKitExecutor, tmp_path: Path
) -> None:
    executor = f"buildkit={one.builders[0]}"
    here = small.here("image").answer
    there = small.here("image", "--executor", executor, env={"DERIVE_STORE": str(tmp_path / "other")}).answer
    assert here == there
    assert outputs_of(small.store) == outputs_of(tmp_path / "other") != {}
    checked = small.here("image", "--check", "--executor", executor)
    assert (checked.code, "no differences" in checked.err) == (0, True), checked.err
    env = {"DERIVE_STORE": str(tmp_path / "other")}
    shown = json.loads(small.here("show", "hello", "--json", env=env).answer)["body"]
    assert shown["worker"]["builder"] == "one"
    log = small.here("log", "hello", env=env)
    assert log.answer == "hello is built"
    assert log.err.startswith("ran on builder one, ")
    assert "worker" not in json.loads(small.here("show", "hello", "--json").answer)["body"]


def test_a_script_that_fails_there_is_told_as_one_that_fails_here(small: Small, one: BuildKitExecutor) -> None:
    small.write("derivations/small/build.sh", "echo before the end; exit 3\n")
    told = []
    for options in ((), ("--executor", f"buildkit={one.builders[0]}")):
        ran = small.here("build", "hello", *options)
        assert ran.code == 3
        told.append(ran.err[ran.err.index("error: ") :].splitlines())
    here, there = ([line for line in lines if "--keep-failed" not in line] for lines in told)
    assert here == there
    assert any("before the end" in line for line in here)
    assert any("run it here with --keep-failed" in line for line in told[1])


def test_ctrl_c_stops_what_runs_elsewhere(small: Small, builders: Client, one: BuildKitExecutor, marker: str) -> None:
    small.write("derivations/small/build.sh", f"sleep {marker}\n")
    running = subprocess.Popen(
        command("build", "hello", "--executor", f"buildkit={one.builders[0]}"),
        env={**environment(small.environment), **builders.environment},
        cwd=small.root,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert there(marker)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert (running.returncode, "stopped" in err) == (130, True), err
    assert gone(marker)


def lost(steps: Steps, docker: Path, builders: Client, one: BuildKitExecutor, marker: str, number: int) -> list[str]:
    """Begin a step on an engine of its own, send that a signal when it runs, and let it end where else it can."""
    notes: list[str] = []
    name = f"doomed-{number}"
    with docker_engine(store=ImageStore.CONTAINERD, binaries=docker) as doomed:
        builders.add(name, doomed.url)
        executor = BuildKitExecutor(
            builders=(name, *one.builders),
            note=notes.append,
            patience=Patience(silence_s=0.5, answer_s=8.0, misses=2),
        )

        def strike() -> None:
            there(marker)
            os.kill(daemon_of(doomed), number)

        striker = threading.Thread(target=strike)
        striker.start()
        try:
            found = steps.run(f"sleep {marker} & sleep 2; echo out >$DERIVE_OUT/x", executor)
        finally:
            striker.join()
            os.kill(daemon_of(doomed), signal.SIGCONT) if number == signal.SIGSTOP else None
    assert text_of(steps, found, b"x") == "out\n"
    assert steps.worker["builder"] == "one"
    return notes


def test_a_worker_that_dies_costs_a_run_elsewhere(
    steps: Steps, docker: Path, builders: Client, one: BuildKitExecutor, marker: str
) -> None:
    (note,) = lost(steps, docker, builders, one, marker, signal.SIGKILL)
    assert "gave it up" in note
    assert "begins again" in note


def test_a_worker_that_says_nothing_more_costs_a_run_elsewhere(
    steps: Steps, docker: Path, builders: Client, one: BuildKitExecutor, marker: str
) -> None:
    (note,) = lost(steps, docker, builders, one, marker, signal.SIGSTOP)
    assert "does not answer" in note


def test_a_step_that_nobody_can_run_to_its_end_says_who_tried(steps: Steps, builders: Client, tmp_path: Path) -> None:
    builders.add("nobody", f"unix://{tmp_path}/no.sock")
    executor = BuildKitExecutor(builders=("nobody",), tries=2)
    with pytest.raises(Unavailable, match="no builder brought it to an end") as caught:
        steps.run("true", executor)
    assert any("2 times: nobody" in line for line in caught.value.detail)


def test_a_builder_without_the_platform_refuses_before_anything_is_sent(one: BuildKitExecutor) -> None:
    with pytest.raises(HostRefuses, match="the builder one has no node for linux/riscv64") as caught:
        usable_builder(one.builders[0], "linux/riscv64")
    assert caught.value.hint is not None


@pytest.mark.usefixtures("one")
def test_a_builder_that_buildx_does_not_know_is_an_error_of_the_input() -> None:
    with pytest.raises(InputErrors) as caught:
        require_builders("buildkit=unheard-of", {"linux/amd64"})
    (problem,) = caught.value.problems()
    assert (problem.where, problem.message) == ("--executor", "buildx knows no builder 'unheard-of'")
    assert problem.detail[0].startswith("known     ")
    assert {"default", "one"} <= set(problem.detail[0].removeprefix("known").strip().split(", "))
    assert problem.hint == "docker buildx ls lists those that there are"
    with pytest.raises(InputErrors) as caught:
        require_builders("buildkit=onee", {"linux/amd64"})
    assert caught.value.problems()[0].hint == "did you mean one?"


def test_an_engine_with_its_older_image_store_refuses_and_says_what_to_turn_on(docker: Path, builders: Client) -> None:
    with docker_engine(store=ImageStore.OVERLAY2, binaries=docker) as old:
        builders.add("old", old.url)
        with pytest.raises(HostRefuses, match="keeps images in its older store") as caught:
            require_builders("buildkit=old", {"linux/amd64"})
    assert "containerd image store" in str(caught.value.hint)


@pytest.mark.usefixtures("builders")
def test_without_docker_or_buildx_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with pytest.raises(HostRefuses, match="no plugin buildx") as caught:
        find_builder()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostRefuses, match="there is no docker"):
        find_builder()
    assert "docker-buildx" in str(caught.value.hint)


BROKEN = {
    "no program": (b"\x7fELF of another machine", 0o755, "cannot be started"),
    "nothing": (b"", 0o755, "cannot be started"),
    "without its interpreter": (b"#!/no/such/shell\n", 0o755, "cannot be started"),
    "another program": (b"#!/bin/sh\necho hello\n", 0o755, "says nothing of builders"),
    "not executable": (b"#!/bin/sh\n", 0o644, "no plugin buildx"),
}


@pytest.mark.usefixtures("builders")
@pytest.mark.parametrize(("data", "mode", "said"), BROKEN.values(), ids=BROKEN)
def test_a_plugin_that_is_broken_is_said_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, mode: int, said: str
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "cli-plugins").mkdir()
    (tmp_path / "cli-plugins" / "docker-buildx").write_bytes(data)
    (tmp_path / "cli-plugins" / "docker-buildx").chmod(mode)
    with pytest.raises(HostRefuses, match=said) as caught:
        find_builder()
    assert "docker-buildx" in str(caught.value.hint)


def test_a_step_runs_where_the_plugin_and_the_store_lie_in_awkward_folders(
    builders: Client, engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "a=b c"
    shutil.copytree(builders.folder, own, symlinks=True, ignore=shutil.ignore_patterns("far"))  # a socket
    monkeypatch.setenv("DOCKER_CONFIG", str(own))
    assert engine.folder.exists()
    with LocalStore(tmp_path / "the store" / "x=y,z:w@v") as store:
        there = Steps(store, busybox_root(store))
        found = there.run("echo out >$DERIVE_OUT/x", BuildKitExecutor(builders=("one",), tries=1))
    assert list(found) == [b"", b"x"]
