# SPDX-License-Identifier: Apache-2.0
"""Starts a real, private Docker engine that cannot outlive its caller.

The engine is started in its own mount, process and network namespaces, under a small init that ends when the pipe to
it closes. The kernel then kills every process of the namespace and drops its mounts and network namespaces, whether
the caller left the context, failed, or was killed. The network namespace holds nothing: no image can be pulled.

Edge: starts processes, mounts, cgroups; needs root.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

BINARIES_VARIABLE = "DERIVE_TEST_DOCKER"
START_SECONDS = 60.0
TOOLS = ("dockerd", "containerd", "containerd-shim-runc-v2", "runc")
CGROUPS = Path("/sys/fs/cgroup")

# Process 1 of the engine's namespace. `/run` is private, so the sockets and network namespaces that the engine puts
# there are too. `container` tells Docker and runc to leave the host's AppArmor alone.
INIT = """
set -eu
mount -n -t tmpfs -o mode=755 tmpfs /run
export container=private-test-engine
start() { (rc=0; "$@" </dev/null >"$FOLDER/$1.log" 2>&1 || rc=$?; echo "$rc" >"$FOLDER/$1.ended") & }
start containerd --config="$FOLDER/containerd.toml"
start dockerd "$@"
while read -r _; do :; done
"""

# Containerd's `opt` plugin would make folders in /opt, and the Kubernetes one would look for network plugins.
CONTAINERD_CONFIG = """
version = 2
root = "{folder}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.grpc.v1.cri"]
"""


class EngineUnavailableError(Exception):
    """This machine cannot run a private engine; the message is the reason."""


class EngineError(Exception):
    """The engine was expected to run and did not; the message holds the end of its log."""


class ImageStore(Enum):
    """Where the engine keeps images: the two stores in use, which read layers by different code."""

    CONTAINERD = "containerd"
    OVERLAY2 = "overlay2"


@dataclass(frozen=True, slots=True)
class StartedEngine:
    """An engine that is starting: its process and the folder that holds its socket, its logs and its data."""

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def url(self) -> str:
        """Where it listens, for any Docker client."""
        return f"unix://{self.folder}/docker.sock"

    def wait(self, answers: Callable[[str], bool]) -> None:
        """Wait until something accepts at the socket, and ``answers`` says so of the URL.

        Raises:
            EngineError: when the engine ends, or does not answer in time.
        """
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None or any(self.folder.glob("*.ended")):
                raise EngineError(f"the Docker engine ended as it started:\n{_last_lines(self.folder)}")
            if _accepts(self.folder / "docker.sock") and answers(self.url):
                return
            time.sleep(0.05)
        raise EngineError(f"the Docker engine did not answer within {START_SECONDS:.0f} s:\n{_last_lines(self.folder)}")


@contextlib.contextmanager
def started_engine(
    *, store: ImageStore, binaries: Path, parent: Path = Path("/var/tmp"), extra_path: Sequence[Path] = ()
) -> Iterator[StartedEngine]:
    """Start an engine from `binaries` (a folder that install-docker filled) in a new folder under `parent`.

    `parent` must be on a filesystem that overlayfs accepts as its upper layer and have a short path, as a socket lies
    there. `extra_path` comes first on the engine's PATH. At the end nothing of it is left.

    Raises:
        EngineUnavailableError: where this machine cannot run one.
    """
    reason = why_unavailable(binaries)
    if reason is not None:
        raise EngineUnavailableError(reason)
    folder = Path(tempfile.mkdtemp(prefix="derive-docker-", dir=parent))
    try:
        with _running(store, binaries, folder, extra_path) as process:
            yield StartedEngine(process, folder)
    finally:
        _remove_cgroups(folder.name)
        shutil.rmtree(folder)


def default_binaries() -> Path:
    """Return the folder that holds the engine here: DERIVE_TEST_DOCKER, or `.cache/docker` of this checkout."""
    return Path(os.environ.get(BINARIES_VARIABLE) or Path(__file__).parents[3] / ".cache/docker")


def why_unavailable(binaries: Path) -> str | None:
    """Return the reason why this machine cannot run a private engine, or None where it can."""
    if os.geteuid() != 0:
        return "a Docker engine needs root, and this is an ordinary user"
    missing = [tool for tool in TOOLS if not (binaries / "bin" / tool).exists()]
    if missing:
        reason = f"no Docker engine in {binaries} (missing: {', '.join(missing)})"
        return f"{reason}: run tests/support/install-docker {binaries}"
    trial = subprocess.run([*_unshare(), "true"], capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        return f"this machine makes no namespaces for a Docker engine: {trial.stderr.strip()}"
    return None


def _unshare() -> tuple[str, ...]:
    return ("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc")


@contextlib.contextmanager
def _running(
    store: ImageStore, binaries: Path, folder: Path, extra_path: Sequence[Path]
) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "containerd.toml").write_text(CONTAINERD_CONFIG.format(folder=folder))
    features = {"containerd-snapshotter": store is ImageStore.CONTAINERD}
    (folder / "daemon.json").write_text(json.dumps({"features": features}))
    path = [*map(str, extra_path), str(binaries.absolute() / "bin"), os.environ["PATH"], "/usr/sbin", "/sbin"]
    with (folder / "init.log").open("wb") as log:
        process = subprocess.Popen(
            [*_unshare(), "sh", "-c", INIT, "init", *_daemon_arguments(store, folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={"PATH": ":".join(path), "HOME": str(folder), "FOLDER": str(folder)},
            cwd=folder,
            # Ctrl-C at the terminal is the caller's to handle: it leaves the context, which stops the engine.
            start_new_session=True,
        )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _daemon_arguments(store: ImageStore, folder: Path) -> tuple[str, ...]:
    driver = ("--storage-driver=overlay2",) if store is ImageStore.OVERLAY2 else ()
    return (
        f"--config-file={folder}/daemon.json",
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        f"--pidfile={folder}/docker.pid",
        f"--host=unix://{folder}/docker.sock",
        "--containerd=/run/containerd/containerd.sock",
        "--group=root",
        # Its own tree of control groups: removed as a whole afterwards, and no systemd is asked for scopes.
        f"--cgroup-parent=/{folder.name}",
        "--exec-opt=native.cgroupdriver=cgroupfs",
        "--iptables=false",
        "--ip6tables=false",
        "--ip-forward=false",
        "--bridge=none",
        *driver,
    )


def _accepts(path: Path) -> bool:
    # Asked with a socket of our own: Docker's client leaves open the one with which it was refused.
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(os.fspath(path)) == 0


def _last_lines(folder: Path) -> str:
    logs = [log for log in (folder / f"{name}.log" for name in ("init", "containerd", "dockerd")) if log.exists()]
    return "\n".join(line for log in logs for line in log.read_text(errors="backslashreplace").splitlines()[-8:])


def _remove_cgroups(name: str) -> None:
    # Version 1 has one tree for each controller, version 2 a single one. A group stays busy for a moment after its
    # last process is gone.
    roots = [root for root in (CGROUPS / name, *CGROUPS.glob(f"*/{name}")) if root.is_dir()]
    for root in roots:
        groups = [Path(folder) for folder, _, _ in os.walk(root, topdown=False)]
        for group in groups:
            for _ in range(100):
                try:
                    group.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.05)
